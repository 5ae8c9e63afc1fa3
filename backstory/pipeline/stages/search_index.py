"""The stage for the search index of a workspace."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import ClassVar

import polars as pl
from pydantic import ValidationError

from backstory.base.errors import EmbeddingInputError
from backstory.base.ids import digest
from backstory.base.progress import show_progress
from backstory.index.calibration import calibrate, describe_calibration
from backstory.index.chunks import embedding_texts
from backstory.index.snapshot.build import publish_content
from backstory.index.snapshot.content import Content, arrange
from backstory.index.snapshot.interim import InterimSnapshots
from backstory.index.snapshot.manifest import (
    MANIFEST_FILE,
    Manifest,
    find_damage,
    hash_manifest,
    read_manifest,
)
from backstory.index.snapshot.publication import (
    current_version,
    find_history_damage,
    prune_documents,
)
from backstory.index.snapshot.served import is_served
from backstory.index.snapshot.shards import count_rows_of_shard
from backstory.ingest.documents.folder import name_reading
from backstory.models.embeddings.embed import EmbeddingStats, embed_in_parts, embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.models.services.failures import hide_quotes
from backstory.pipeline.incremental.fingerprints import effective_index_settings, hash_dependencies
from backstory.pipeline.incremental.partitions import content_of, read_table_rows
from backstory.pipeline.incremental.report import StageResult, log_report
from backstory.pipeline.sharing import fetch_snapshot, send_snapshot
from backstory.pipeline.stages.document_chunks import DocumentChunksStage
from backstory.pipeline.stages.document_languages import REVISION_OF_LANGUAGES, list_languages
from backstory.pipeline.stages.documents import DocumentsStage
from backstory.pipeline.stages.refusals import record_refusal
from backstory.pipeline.stages.stage import Stage, UnpublishedIndex
from backstory.pipeline.workspace import Workspace
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.models import IndexSettings
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE

logger = logging.getLogger(__name__)

_MANIFEST = "manifest of the index"
_EMBEDDING = "embedding of the index"


class SearchIndexStage(Stage):
    """Embeds the chunks that are not in the cache, and publishes a snapshot if anything changed.

    A document with a text that the service refuses becomes a failed file (:mod:`backstory.pipeline.stages.refusals`).
    Earlier snapshots that hold a deleted document, or a written post as it was before, are dropped.

    Attributes:
        interim: Whether the run will add further posts to the index. The snapshot then has no HNSW index, which takes
            longest to build, and which windows are not searched with where posts are documents.
    """

    table = "search_index"
    reads = ("documents", "document_chunks")
    partitioned = False
    interim: ClassVar[bool] = False

    def stale_partitions(self) -> list[str]:
        """Return ``["all"]`` if the stage would publish a snapshot. Hashes every file of the current one."""
        workspace = self.workspace
        known = workspace.catalog.read("search_index").get(WHOLE)
        # A whole snapshot serves as an interim one, too.
        fitting = {_inputs_of_index(workspace), _inputs_of_index(workspace, interim=self.interim)}
        if known is None or known.inputs not in fitting:
            return [WHOLE]
        if workspace.settings.storage.files is not None:
            fetch_snapshot(workspace, workspace.tables)
        if current_version(workspace.index) != known.content or find_history_damage(workspace.index):
            return [WHOLE]
        damage = find_manifest_damage(workspace) or find_damage(
            workspace.index / known.content, checksums=True
        )
        return [] if damage is None and is_served(workspace.index / known.content) else [WHOLE]

    def build(self) -> StageResult:
        """Publish a snapshot of the documents, without those that the service refuses."""
        self.resources.replace_unpublished(None)
        while (report := self._publish()) is None:
            DocumentsStage(self.resources, []).build()
            DocumentChunksStage(self.resources, []).build()
        return report

    def _publish(self) -> StageResult | None:
        """Publish a snapshot; None if the service refuses a document, which is recorded."""
        started = time.perf_counter()
        workspace, interim = self.workspace, self.interim
        embedder = workspace.embedder
        inputs = _inputs_of_index(workspace, interim=interim)
        documents = read_table_rows(workspace, "documents", [WHOLE])
        revisions = _list_revisions(documents)
        known = workspace.catalog.read("search_index").get(WHOLE)
        if known is not None and not self.stale_partitions():
            counts = _describe_snapshot(read_manifest(workspace.index / known.content))
            prune_documents(workspace.index, revisions)
            report = StageResult("search_index", known.rows, 1, 0, time.perf_counter() - started, counts)
            log_report(report)
            return report
        if known is not None and find_manifest_damage(workspace):
            # A snapshot without a manifest is rebuilt. One with a wrong manifest would pass its own checks.
            (workspace.index / known.content / MANIFEST_FILE).unlink(missing_ok=True)
        chunks = read_table_rows(workspace, "document_chunks", [WHOLE])
        figures = self.counts
        with workspace.runs.pricing(figures):
            embedded = self._embed(documents, chunks)
        if embedded is None:
            return None
        vectors, stats = embedded
        languages = list_languages(
            workspace,
            documents,
            name_reading(workspace.settings.documents, timezone=workspace.settings.conversations.timezone),
        )
        ids = dict(documents.filter(pl.col("status") == "ok").select("uri", "document_id").iter_rows())
        content = arrange(
            documents,
            chunks,
            vectors,
            embedder.id,
            _settings_of_index(workspace, len(chunks), interim=interim),
            {ids[uri]: language for uri, language in languages.items()},
        )
        manifest = self._extend(content, inputs)
        is_built = manifest is not None
        if manifest is None:
            calibration = calibrate(
                embedder, documents, chunks, vectors, lambda probes: _ask(workspace, probes)
            )
            snapshots = self.resources.interim
            if snapshots is None or not snapshots.fits(content):
                snapshots = InterimSnapshots(content, calibration) if interim else None
            build = publish_content(
                workspace.index,
                content,
                calibration,
                None if snapshots is None else snapshots.rows,
                interim=interim,
            )
            workspace.catalog.record(_MANIFEST, {WHOLE: Entry(build.version, hash_manifest(build.folder), 1)})
            embedding = workspace.settings.embedding.model_dump_json()
            workspace.catalog.record(_EMBEDDING, {WHOLE: Entry(embedding, build.version, 0)})
            workspace.catalog.record("search_index", {WHOLE: Entry(inputs, build.version, len(chunks))})
            if workspace.settings.storage.files is not None and not interim:
                send_snapshot(workspace, workspace.tables, build.version)
            prune_documents(workspace.index, revisions, on_server=not interim)
            self.resources.interim = snapshots if interim else None
            manifest, is_built = read_manifest(build.folder), build.built
        report = StageResult(
            table="search_index",
            rows=len(chunks),
            partitions=1,
            computed=int(is_built),
            seconds=time.perf_counter() - started,
            counts={**_describe_snapshot(manifest), **stats.as_counts(), **figures},
            preview=chunks.select("chunk_id", "heading", "token_count").head(5),
        )
        log_report(report)
        return report

    def _embed(self, documents: pl.DataFrame, chunks: pl.DataFrame) -> tuple[Vectors, EmbeddingStats] | None:
        """Embed chunks, at most a shard at once; None if the service refuses a document, which is recorded."""
        workspace = self.workspace
        embedder = workspace.embedder
        texts = embedding_texts(chunks, documents)
        workspace.runs.advance("search_index", WHOLE, 0, 1)
        with show_progress("embedding documents") as progress:
            try:
                vectors, stats = embed_in_parts(
                    embedder,
                    texts,
                    task="document",
                    cache=workspace.embeddings,
                    most=count_rows_of_shard(embedder.dimension),
                    folder=workspace.index,
                    progress=workspace.runs.follow("chunks embedded", progress),
                )
            except EmbeddingInputError as error:
                if error.text not in texts:
                    raise
                document = chunks["document_id"][texts.index(error.text)]
                [(uri, revision)] = documents.filter(status="ok", document_id=document)[
                    "uri", "revision"
                ].rows()
                # What it quotes of the document is for the output of the run, not for tables and alerts.
                logger.warning("%s: %s", uri, error)
                record_refusal(workspace, uri, revision, hide_quotes(f"{uri}: {error}"))
                return None
        workspace.runs.count_texts(
            embedder.id, computed=stats.computed, tokens=stats.tokens, cached=stats.cached
        )
        return vectors, stats

    def _extend(self, content: Content, inputs: str) -> Manifest | None:  # noqa: ARG002 - for the subclass
        """Search content without publishing it, and return its manifest; None if it must be published."""
        return None


class InterimSearchIndexStage(SearchIndexStage):
    """The same, while the run will add further posts to the index.

    The first snapshot of a run is published. While only posts change, the next ones stay in memory: they are searched
    by this run alone, and its last step publishes all. A killed run leaves the first one, which the next run replaces.
    """

    interim = True

    def build(self) -> StageResult:
        """Make a snapshot of the documents, without those that the service refuses, unless it is searched already."""
        unpublished = self.resources.unpublished
        if unpublished is None or unpublished.inputs != _inputs_of_index(self.workspace, interim=True):
            return super().build()
        manifest = unpublished.index.manifest
        report = StageResult("search_index", manifest.rows, 1, 0, 0.0, _describe_snapshot(manifest))
        log_report(report)
        return report

    def _extend(self, content: Content, inputs: str) -> Manifest | None:
        interim = self.resources.interim
        if interim is None or not interim.fits(content):
            return None
        index = interim.open(content)
        self.resources.replace_unpublished(UnpublishedIndex(index, inputs))
        return index.manifest


def _list_revisions(documents: pl.DataFrame) -> pl.DataFrame:
    """List the revisions that a snapshot may hold: all but those of deleted documents, and former written posts."""
    deleted = documents.filter(pl.col("status") == "deleted")["document_id"]
    revisions = documents.filter(~pl.col("document_id").is_in(deleted.implode()))
    return revisions.select("document_id", "revision")


def _ask(workspace: Workspace, probes: Sequence[str]) -> Vectors:
    """Embed short texts as queries."""
    embedded = embed_texts(workspace.embedder, probes, task="query", cache=workspace.embeddings)
    stats = embedded.stats
    workspace.runs.count_texts(
        workspace.embedder.id, computed=stats.computed, tokens=stats.tokens, cached=stats.cached
    )
    return embedded.vectors


def find_manifest_damage(workspace: Workspace) -> str | None:
    """Check the manifest of the published snapshot, which holds the checksums of all its other files.

    Returns:
        What is wrong and what to do, or None if the manifest is intact or nothing is published.
    """
    recorded = workspace.catalog.read(_MANIFEST).get(WHOLE)
    if recorded is None or recorded.inputs != current_version(workspace.index):
        return None
    path = workspace.index / recorded.inputs / MANIFEST_FILE
    if path.is_file() and hash_manifest(path.parent) == recorded.content:
        return None
    return f"{path} is not the file that was written; `backstory run` builds the snapshot again"


def read_embedding_of_index(workspace: Workspace) -> EmbeddingSettings | None:
    """Read the settings of the embedder with which the current snapshot was built.

    Returns:
        The settings; None if they are not recorded, or if this version of Backstory does not know them any more.
    """
    recorded = workspace.catalog.read(_EMBEDDING).get(WHOLE)
    if recorded is None or recorded.content != current_version(workspace.index):
        return None
    try:
        return EmbeddingSettings.model_validate_json(recorded.inputs)
    except ValidationError:
        return None


def _inputs_of_index(workspace: Workspace, *, interim: bool = False) -> str:
    contents = [content_of(workspace, table, [WHOLE])[WHOLE] for table in ("documents", "document_chunks")]
    chunks = workspace.catalog.read("document_chunks").get(WHOLE)
    settings = workspace.settings.index
    rows = 0 if chunks is None else chunks.rows
    has_graph = rows > 0 and (settings.engine == "milvus" or rows >= settings.ann_min_rows)
    return digest(
        [
            *(hash_dependencies(workspace, "search_index"), REVISION_OF_LANGUAGES, *contents),
            *(["interim"] if interim and has_graph else []),
        ]
    )


def _settings_of_index(workspace: Workspace, rows: int, *, interim: bool) -> IndexSettings:
    """Return the settings of a snapshot. An interim one has more rows than it may have for an HNSW index."""
    settings = workspace.settings.index
    if interim and (settings.engine == "milvus" or 0 < rows >= settings.ann_min_rows):
        settings = settings.model_copy(update={"engine": "embedded", "ann_min_rows": rows + 1})
    return effective_index_settings(settings, rows)


def _describe_snapshot(manifest: Manifest) -> dict[str, int | float | str]:
    stemmers = sorted(manifest.languages, key=lambda each: (-each.rows, each.stemmer))
    described: dict[str, int | float | str] = {
        "version": manifest.version,
        "embedder": manifest.embedder_id,
        "calibration": describe_calibration(manifest.calibration),
        "stemmers": ", ".join(f"{each.stemmer} ({each.rows} chunks)" for each in stemmers),
    }
    if manifest.hnsw is not None:
        described |= {
            "recall_at_5": manifest.hnsw.recall_at_5,
            "recall_sampled_queries": manifest.hnsw.sampled_rows,
        }
    return described
