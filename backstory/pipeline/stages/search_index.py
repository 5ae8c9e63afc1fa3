"""The stages of the table ``document_chunks`` and of the search index: documents cut into chunks, and indexed."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import polars as pl
from pydantic import ValidationError

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import ModelError, SettingsError
from backstory.base.ids import digest
from backstory.base.progress import show_progress
from backstory.index.build import arrange, publish_content
from backstory.index.calibration import calibrate, describe_calibration
from backstory.index.chunks import cut_document_chunks, embedding_texts
from backstory.index.milvus import is_served
from backstory.index.posts import with_posts
from backstory.index.snapshot import Manifest, current_version, find_damage, prune, read_manifest
from backstory.ingest.documents.folder import name_reading
from backstory.ingest.documents.reader import READERS
from backstory.models.embeddings.embed import EmbeddingStats, embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.models.failures import hide_quotes
from backstory.pipeline.incremental.inputs import (
    content_of,
    hash_dependencies,
    is_made_by_this_code,
    read_previous,
    read_table_rows,
)
from backstory.pipeline.incremental.report import StageResult, log_report
from backstory.pipeline.incremental.visible_documents import IS_POST
from backstory.pipeline.sharing import fetch_snapshot, send_snapshot
from backstory.pipeline.stages.documents import (
    REVISION_OF_LANGUAGES,
    DocumentsStage,
    list_languages,
    read_posts_again,
    record_refusal,
)
from backstory.pipeline.stages.post_folder import FILES
from backstory.pipeline.stages.stage import AddedPosts, RunResources, Stage, TableStage
from backstory.pipeline.workspace import Workspace
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.models import IndexSettings
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.writing.post_files import hash_file

logger = logging.getLogger(__name__)

_EMBEDDING = "embedding of the index"


class SearchIndexStage(Stage):
    """Embeds the chunks that are not in the cache, and publishes a snapshot if anything changed.

    A document with a text that the service refuses becomes a failed file (:mod:`backstory.pipeline.stages.documents`).
    """

    table = "search_index"
    reads = ("documents", "document_chunks")
    partitioned = False

    def stale_partitions(self) -> list[str]:
        """Return ``["all"]`` if the stage would publish a snapshot."""
        workspace = self.workspace
        known = workspace.catalog.read("search_index").get(WHOLE)
        if known is None or known.inputs != _inputs_of_index(workspace):
            return [WHOLE]
        if workspace.settings.storage.files is not None:
            fetch_snapshot(workspace, workspace.tables)
        if current_version(workspace.index) != known.content:
            return [WHOLE]
        snapshot = workspace.index / known.content
        is_usable = find_damage(snapshot, checksums=False) is None and is_served(snapshot)
        return [] if is_usable else [WHOLE]

    def build(self) -> StageResult:
        """Publish a snapshot of the documents, without those that the service refuses."""
        while (report := self._make()) is None:
            DocumentsStage(self.resources, []).build()
            DocumentChunksStage(self.resources, []).build()
        return report

    def _make(self) -> StageResult | None:
        """Publish a snapshot; None if the service refuses a document, which is recorded."""
        started = time.perf_counter()
        workspace = self.workspace
        inputs = _inputs_of_index(workspace)
        documents = read_table_rows(workspace, "documents", [WHOLE])
        known = workspace.catalog.read("search_index").get(WHOLE)
        if known is not None and not self.stale_partitions():
            prune(workspace.index)
            manifest = read_manifest(workspace.index / known.content)
            return self._report(manifest, started, is_built=False, stats={})
        chunks = read_table_rows(workspace, "document_chunks", [WHOLE])
        embedded = self._embed(documents, chunks)
        if embedded is None:
            return None
        vectors, stats = embedded
        settings = _settings_of_index(workspace, len(chunks))
        languages = _list_languages(workspace, documents)
        content = arrange(documents, chunks, vectors, workspace.embedder.id, settings, languages)
        calibration = calibrate(
            workspace.embedder, documents, chunks, vectors, lambda probes: _ask(workspace, probes)
        )
        build = publish_content(workspace.index, content, calibration)
        embedding = workspace.settings.embedding.model_dump_json()
        workspace.catalog.record(_EMBEDDING, {WHOLE: Entry(embedding, build.manifest.version, 0)})
        workspace.catalog.record("search_index", {WHOLE: Entry(inputs, build.manifest.version, len(chunks))})
        if workspace.settings.storage.files is not None:
            send_snapshot(workspace, workspace.tables, build.manifest.version)
        return self._report(build.manifest, started, is_built=build.built, stats=stats.as_counts())

    def _report(
        self, manifest: Manifest, started: float, *, is_built: bool, stats: Mapping[str, int | float | str]
    ) -> StageResult:
        """Report and log what was made."""
        report = StageResult(
            table="search_index",
            rows=manifest.rows,
            keys=[WHOLE],
            computed=int(is_built),
            seconds=time.perf_counter() - started,
            counts={**_describe_snapshot(manifest), **stats, **self.counts},
        )
        log_report(report)
        return report

    def _embed(self, documents: pl.DataFrame, chunks: pl.DataFrame) -> tuple[Vectors, EmbeddingStats] | None:
        """Embed chunks; None if the service refuses a document, which is recorded."""
        workspace = self.workspace
        embedder = workspace.embedder
        texts = embedding_texts(chunks, documents)
        workspace.runs.advance("search_index", WHOLE, 0, 1)
        with show_progress("embedding documents") as progress, workspace.runs.pricing(self.counts):
            try:
                embedded = embed_texts(
                    embedder,
                    texts,
                    task="document",
                    cache=workspace.embeddings,
                    progress=workspace.runs.follow("chunks embedded", progress),
                )
            except ModelError as error:
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
        stats = embedded.stats
        workspace.runs.count_texts(embedder.id, stats)
        return embedded.vectors, stats


class AddedPostsStage(SearchIndexStage):
    """Puts the posts that a run has written over the published snapshot, in memory.

    They are read, cut and embedded as the last step of the run does again, which writes the tables and publishes all. A
    killed run leaves what was published.
    """

    def build(self) -> StageResult:
        """Read the posts that were written or removed since the last reading."""
        started = time.perf_counter()
        posts = self.resources.posts or find_added_posts(self.resources)
        stats: dict[str, int | float | str] = {}
        files = self.workspace.catalog.read(FILES)
        if changed := sorted({slug for slug, _ in posts.files.items() ^ files.items()}):
            self.resources.posts, stats = self._take(posts, changed)
        # Nothing is built, so that no check compares the published snapshot before the last step publishes all.
        return self._report(self.resources.index.manifest, started, is_built=False, stats=stats)

    def _take(
        self, posts: AddedPosts, slugs: Sequence[str]
    ) -> tuple[AddedPosts, dict[str, int | float | str]]:
        """Read, cut and embed posts, and put them in their place among the others."""
        workspace, base = self.workspace, self.resources.base
        files = {slug: file for slug, file in posts.files.items() if slug not in slugs}
        files |= _list_files(workspace, slugs)
        documents = read_posts_again(workspace, posts.documents, slugs)
        if documents.equals(posts.documents):
            return replace(posts, files=files), {}
        chunks = cut_documents(workspace, documents, posts.chunks)
        embedded = self._embed(documents, chunks)
        if embedded is None:
            return self._take(posts, slugs)
        vectors, stats = embedded
        languages, main = _list_languages(workspace, documents), base.manifest.main_stemmer
        content = arrange(
            documents, chunks, vectors, workspace.embedder.id, base.manifest.settings, languages, main
        )
        visible = posts.visible.with_posts(documents)
        return AddedPosts(documents, chunks, files, visible, with_posts(base, content)), {**stats.as_counts()}


def find_added_posts(resources: RunResources) -> AddedPosts:
    """Begin with the posts that the tables and the published snapshot hold."""
    workspace = resources.workspace
    documents = workspace.tables.read("documents").filter(IS_POST)
    chunks = workspace.tables.read("document_chunks")
    chunks = chunks.join(documents, on=["document_id", "revision"], how="semi", maintain_order="left")
    files = _list_files(workspace, workspace.catalog.read(FILES))
    return AddedPosts(documents, chunks, files, resources.visible)


def _list_files(workspace: Workspace, slugs: Collection[str]) -> dict[str, Entry]:
    """List those files of posts that are as they were written."""
    known, folder = workspace.catalog.read(FILES), workspace.posts_dir
    return {
        slug: known[slug]
        for slug in slugs
        if slug in known and hash_file(folder / f"{slug}.md") == known[slug].content
    }


def _list_languages(workspace: Workspace, documents: pl.DataFrame) -> dict[str, str | None]:
    """List the language of each document that is searched, by its id."""
    settings = workspace.settings
    reading = name_reading(settings.documents, timezone=settings.conversations.timezone)
    ids = dict(documents.filter(pl.col("status") == "ok").select("uri", "document_id").iter_rows())
    return {ids[uri]: language for uri, language in list_languages(workspace, documents, reading).items()}


def _ask(workspace: Workspace, probes: Sequence[str]) -> Vectors:
    """Embed short texts as queries."""
    embedded = embed_texts(workspace.embedder, probes, task="query", cache=workspace.embeddings)
    stats = embedded.stats
    workspace.runs.count_texts(workspace.embedder.id, stats)
    return embedded.vectors


def read_embedding_of_index(workspace: Workspace) -> EmbeddingSettings | None:
    """Read the settings of the embedder with which the current snapshot was built.

    None if they are not recorded, or if this version of Backstory does not know them any more.
    """
    recorded = workspace.catalog.read(_EMBEDDING).get(WHOLE)
    if recorded is None or recorded.content != current_version(workspace.index):
        return None
    try:
        return EmbeddingSettings.model_validate_json(recorded.inputs)
    except ValidationError:
        return None


def _inputs_of_index(workspace: Workspace) -> str:
    contents = [content_of(workspace, table, [WHOLE])[WHOLE] for table in ("documents", "document_chunks")]
    return digest([hash_dependencies(workspace, "search_index"), REVISION_OF_LANGUAGES, *contents])


def _settings_of_index(workspace: Workspace, rows: int) -> IndexSettings:
    """Return the settings of a snapshot, with the defaults of what only an HNSW index reads where it has none."""
    settings, defaults = workspace.settings.index, IndexSettings()
    if settings.has_graph(rows):
        return settings
    unread = ("hnsw_m", "hnsw_ef_construction", "ef_search")
    return settings.model_copy(update={name: getattr(defaults, name) for name in unread})


def _describe_snapshot(manifest: Manifest) -> dict[str, int | float | str]:
    stemmers = sorted(manifest.languages, key=lambda each: (-each.rows, each.stemmer))
    described: dict[str, int | float | str] = {
        "version": manifest.version,
        "embedder": manifest.embedder_id,
        "calibration": describe_calibration(manifest.calibration),
        "stemmers": ", ".join(f"{each.stemmer} ({each.rows} chunks)" for each in stemmers),
    }
    if manifest.recall_at_5 is not None:
        described["recall_at_5"] = manifest.recall_at_5
    return described


class DocumentChunksStage(TableStage):
    """Cuts the searched documents into chunks. Unchanged revisions keep their chunks."""

    table = "document_chunks"
    reads = ("documents",)
    contents = ("documents",)
    partitioned = False

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:  # noqa: ARG002 - there is one
        """Cut the documents whose chunks are not known."""
        workspace = self.workspace
        previous = read_previous(workspace, "document_chunks")
        chunks = cut_documents(workspace, read_table_rows(workspace, "documents", [WHOLE]), previous)
        self.counts["kept"] = (
            0 if previous is None else chunks.join(previous, on="chunk_id", how="semi").height
        )
        self.counts["tokens"] = int(chunks["token_count"].sum())
        return {WHOLE: chunks}


def cut_documents(
    workspace: Workspace, documents: pl.DataFrame, previous: pl.DataFrame | None
) -> pl.DataFrame:
    """Cut documents into chunks; revisions whose chunks are in the table as it was keep them.

    It raises ``SettingsError`` if the setting ``chunks.chunkers`` names a format that no reader has.
    """
    settings, embedder = workspace.settings.chunks, workspace.embedder
    known = sorted({reader.name for reader in READERS})
    if unknown := sorted(set(settings.chunkers) - set(known)):
        raise SettingsError(
            f"{SETTINGS_FILE}: chunks.chunkers names {', '.join(unknown)}, which no reader reads; the formats are "
            f"{', '.join(known)}",
            code="unknown_format",
        )
    return cut_document_chunks(
        documents,
        settings,
        max_tokens=embedder.max_input_tokens,
        counter=embedder,
        counter_id=embedder.id,
        previous=previous if is_made_by_this_code(workspace, "document_chunks") else None,
    )
