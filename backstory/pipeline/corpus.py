"""Stages for the documents, their chunks and the search index of a workspace."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from backstory.calibration import calibrate, describe_calibration
from backstory.document_chunks import cut_document_chunks, embedding_texts
from backstory.documents import DocumentRead, name_reading
from backstory.documents.files import FolderListing, join_listings
from backstory.documents.folder import read_listed_documents
from backstory.documents.sources import DRAFT, name_source
from backstory.documents.written import drop_former_posts, list_written
from backstory.embeddings import embed_texts
from backstory.embeddings.protocol import Vectors
from backstory.forgotten import leave_out_documents, read_forgotten
from backstory.ids import digest
from backstory.index import build_index, current_version, read_manifest
from backstory.index.snapshot.manifest import MANIFEST_FILE, find_damage, hash_manifest
from backstory.index.snapshot.publication import prune_documents
from backstory.languages import detect_language
from backstory.pipeline.batches import require_document_vectors
from backstory.pipeline.incremental import (
    WHOLE,
    content_of,
    find_pending,
    is_made_by_this_code,
    materialize_partitions,
    read_made,
    read_previous,
    write_beside,
)
from backstory.pipeline.inputs import code_version, effective_index_settings, hash_dependencies
from backstory.pipeline.posts_fingerprint import hash_document_files, hash_posts
from backstory.pipeline.removals import require_documents
from backstory.pipeline.stage_report import StageReport, log_report, log_unread
from backstory.progress import show_progress
from backstory.settings import EmbeddingSettings, IndexSettings
from backstory.sources.listing import list_documents
from backstory.tables import hash_partitions
from backstory.tables.ledger import Entry
from backstory.workspace import Workspace

logger = logging.getLogger(__name__)

_READING = "documents_reading"
_MANIFEST = "manifest of the index"
_EMBEDDING = "embedding of the index"
_DOCUMENTS = "documents"
_LANGUAGES = "document_languages"
_REVISION_OF_LANGUAGES = "1"
"""Version of the language detection. Change it when the detection changes."""
_NAMED = 5


def materialize_documents(workspace: Workspace) -> StageReport:
    """Read the document files into ``documents`` (revisions, tombstones, errors), and every file into ``sources``.

    Every file is hashed on every run, and only changed files are parsed. If the folder is absent or empty, the
    counts hold a ``notice``, because windows then get no context.

    Raises:
        RemovalError: All documents that an earlier run read are gone. Nothing is written.
    """
    settings = workspace.settings.documents
    known = workspace.ledger.read(_READING).get(WHOLE)
    is_current_code = is_made_by_this_code(workspace, "documents")
    apart = list_other_parts(workspace)
    previous = read_previous(workspace, "documents")
    inputs = _inputs_of_documents(workspace)
    read = read_listed_documents(
        _list_documents(workspace, apart),
        settings,
        previous,
        previous_reading=known.inputs if known and is_current_code and previous is not None else "",
    )
    inputs_after = _inputs_of_documents(workspace)
    if previous is not None:
        require_documents(workspace, previous, read.documents)
    read = leave_out_documents(read, read_forgotten(workspace.forgotten), settings.folder)
    documents = drop_former_posts(read.documents)
    read = replace(read, documents=documents)
    write_beside(
        workspace,
        "sources",
        {_DOCUMENTS: _tell_languages(workspace, read)},
        inputs if inputs_after == inputs else "",
    )
    log_unread(read.sources)

    def compute(_: list[str]) -> Mapping[str, pl.DataFrame]:
        return {WHOLE: documents}

    is_another = known is None or known.inputs != read.reading
    if is_another:
        # A process killed here must not leave documents recorded under the inputs of another reading.
        workspace.ledger.forget(_READING, [WHOLE])
    counts = _count_documents(workspace, read)
    report = materialize_partitions(
        workspace,
        "documents",
        {WHOLE: inputs},
        compute,
        read_inputs_again=lambda: {WHOLE: inputs_after},
        counts=counts,
    )
    if is_another:
        workspace.ledger.record(_READING, {WHOLE: Entry(read.reading, "", 0)})
    return report


def find_pending_documents(workspace: Workspace) -> list[str]:
    """Check whether :func:`materialize_documents` would write anything."""
    inputs = _inputs_of_documents(workspace)
    sources = workspace.ledger.read("sources").get(_DOCUMENTS)
    written = hash_partitions(workspace.tables, "sources").get(_DOCUMENTS, "")
    if sources is None or (sources.inputs, sources.content) != (inputs, written):
        return [WHOLE]
    return find_pending(workspace, "documents", {WHOLE: inputs})


def _list_documents(workspace: Workspace, apart: Sequence[Path]) -> FolderListing:
    """List the files of the documents, with those of the written posts if they are documents, too."""
    listing = list_documents(workspace, apart)
    if not workspace.feeds_back:
        return listing
    return join_listings(listing, list_written(workspace.written, workspace.settings.writers.folder))


def _inputs_of_documents(workspace: Workspace) -> str:
    posts = hash_document_files(workspace, list_other_parts(workspace))
    if workspace.feeds_back:
        posts = digest([posts, hash_posts(workspace.written, ())])
    reading = name_reading(workspace.settings.documents)
    left_out = read_forgotten(workspace.forgotten).fingerprint
    return digest([hash_dependencies(workspace, "documents"), reading, posts, left_out])


def list_other_parts(workspace: Workspace) -> list[Path]:
    """List the paths that are not documents, even if the workspace itself is the folder of documents."""
    return workspace.list_other_parts()


def _tell_languages(workspace: Workspace, read: DocumentRead) -> pl.DataFrame:
    """Fill in the languages of the files in ``sources``, and forget those of other documents."""
    told = _list_languages(workspace, read.documents, read.reading)
    workspace.ledger.forget(_LANGUAGES, workspace.ledger.read(_LANGUAGES).keys() - told.keys())
    folder = workspace.settings.documents.folder
    languages = {name_source(folder, uri): language for uri, language in told.items()}
    language = pl.col("source").replace_strict(languages, default=None, return_dtype=pl.String)
    return read.sources.with_columns(language=pl.when(pl.col("status") == "read").then(language))


def _list_languages(workspace: Workspace, documents: pl.DataFrame, reading: str) -> dict[str, str | None]:
    """List the language of each document that can be served, by uri. Only changed documents are detected again."""
    rows = documents.filter(pl.col("status") == "ok").select("uri", "revision", "title", "text").rows()
    told_by = [_REVISION_OF_LANGUAGES, code_version("documents"), reading]
    inputs = {uri: digest([*told_by, revision]) for uri, revision, _, _ in rows}
    languages_told = {uri: entry.content for uri, entry in workspace.ledger.read(_LANGUAGES).items()}
    pending = set(workspace.ledger.pending(_LANGUAGES, inputs, languages_told))
    told = {
        uri: Entry(inputs[uri], detect_language([title, text]) or "", 0)
        for uri, _, title, text in rows
        if uri in pending
    }
    workspace.ledger.record(_LANGUAGES, told)
    known = workspace.ledger.read(_LANGUAGES)
    return {uri: known[uri].content or None for uri in inputs}


def _count_documents(workspace: Workspace, read: DocumentRead) -> dict[str, int | float | str]:
    sources = read.sources
    counts: dict[str, int | float | str] = {
        f"status_{status}": count
        for status, count in read.documents["status"].value_counts(sort=True).iter_rows()
    }
    counts |= {
        f"files_{status}": count for status, count in sources["status"].value_counts(sort=True).iter_rows()
    }
    counts["drafts"] = sources.filter(pl.col("reason") == DRAFT).height
    undated = sources.filter((pl.col("status") == "read") & pl.col("first").is_null())["source"]
    counts["undated"] = len(undated)
    if len(undated):
        more = f" and {len(undated) - _NAMED} more" if len(undated) > _NAMED else ""
        counts["undated_documents"] = ", ".join(undated.head(_NAMED)) + more
    if not read.documents["status"].is_in(["ok"]).any():
        state = "holds no document that can be served" if read.present else "is not there"
        counts["notice"] = (
            f"{workspace.settings.documents.folder}/ {state}, so that windows are given no context; "
            "put Markdown files into it, or set `documents: {folder: ...}`"
        )
        logger.warning("%s", counts["notice"])
    return counts


def materialize_document_chunks(workspace: Workspace) -> StageReport:
    """Cut the searched documents into chunks. Unchanged revisions keep their chunks."""
    settings = workspace.settings.chunks
    embedder = workspace.embedder
    inputs = _inputs_of_document_chunks(workspace)
    counts: dict[str, int | float | str] = {}

    def compute(_: list[str]) -> Mapping[str, pl.DataFrame]:
        previous = read_previous(workspace, "document_chunks")
        chunks = cut_document_chunks(
            read_made(workspace, "documents", [WHOLE]),
            settings,
            max_tokens=embedder.max_input_tokens,
            count_tokens=embedder.count_tokens,
            counter_id=embedder.id,
            previous=previous if is_made_by_this_code(workspace, "document_chunks") else None,
        )
        counts["kept"] = 0 if previous is None else chunks.join(previous, on="chunk_id", how="semi").height
        counts["tokens"] = int(chunks["token_count"].sum())
        return {WHOLE: chunks}

    return materialize_partitions(workspace, "document_chunks", {WHOLE: inputs}, compute, counts=counts)


def find_pending_document_chunks(workspace: Workspace) -> list[str]:
    """Check whether :func:`materialize_document_chunks` would write anything."""
    return find_pending(workspace, "document_chunks", {WHOLE: _inputs_of_document_chunks(workspace)})


def _inputs_of_document_chunks(workspace: Workspace) -> str:
    contents = content_of(workspace, "documents", [WHOLE])
    return digest([hash_dependencies(workspace, "document_chunks"), contents[WHOLE]])


def materialize_search_index(workspace: Workspace, *, interim: bool = False) -> StageReport:
    """Embed the chunks that are not in the cache, and publish a snapshot if anything changed.

    Earlier snapshots that hold a deleted document are dropped.

    Args:
        workspace: An open workspace.
        interim: Whether the run will add further posts to the index. The snapshot then has no HNSW index, which takes
            longest to build, and which windows are not searched with where posts are documents.
    """
    started = time.perf_counter()
    embedder = workspace.embedder
    inputs = _inputs_of_index(workspace, interim=interim)
    documents = read_made(workspace, "documents", [WHOLE])
    deleted = documents.filter(pl.col("status") == "deleted")["document_id"]
    known = workspace.ledger.read("search_index").get(WHOLE)
    if known is not None and not find_pending_index(workspace, interim=interim):
        counts = _describe_snapshot(workspace, known.content)
        prune_documents(workspace.index, deleted)
        report = StageReport("search_index", known.rows, 1, 0, time.perf_counter() - started, counts)
        log_report(report)
        return report
    if known is not None and find_manifest_damage(workspace):
        # A snapshot without a manifest is rebuilt. One with a wrong manifest would pass its own checks.
        (workspace.index / known.content / MANIFEST_FILE).unlink(missing_ok=True)
    chunks = read_made(workspace, "document_chunks", [WHOLE])
    texts = embedding_texts(chunks, documents)
    require_document_vectors(workspace, texts)
    figures: dict[str, int | float | str] = {}
    languages = _list_languages(workspace, documents, name_reading(workspace.settings.documents))
    ids = dict(documents.filter(pl.col("status") == "ok").select("uri", "document_id").iter_rows())
    workspace.runs.advance("search_index", WHOLE, 0, 1)
    with show_progress("embedding documents") as progress, workspace.runs.pricing(figures):
        embedded = embed_texts(
            embedder,
            texts,
            task="document",
            cache=workspace.embeddings,
            progress=workspace.runs.follow("chunks embedded", progress),
        )
    stats = embedded.stats
    workspace.runs.count_texts(embedder.id, computed=stats.computed, tokens=stats.tokens, cached=stats.cached)
    build = build_index(
        workspace.index,
        documents,
        chunks,
        embedded.vectors,
        embedder_id=embedder.id,
        calibration=calibrate(
            embedder, documents, chunks, embedded.vectors, lambda probes: _ask(workspace, probes)
        ),
        settings=_settings_of_index(workspace, len(chunks), interim=interim),
        languages={ids[uri]: language for uri, language in languages.items()},
    )
    manifest = Entry(build.version, hash_manifest(build.folder), 1)
    workspace.ledger.record(_MANIFEST, {WHOLE: manifest})
    embedding = workspace.settings.embedding.model_dump_json()
    workspace.ledger.record(_EMBEDDING, {WHOLE: Entry(embedding, build.version, 0)})
    workspace.ledger.record("search_index", {WHOLE: Entry(inputs, build.version, len(chunks))})
    prune_documents(workspace.index, deleted)
    report = StageReport(
        table="search_index",
        rows=len(chunks),
        partitions=1,
        computed=int(build.built),
        seconds=time.perf_counter() - started,
        counts={**_describe_snapshot(workspace, build.version), **stats.as_counts(), **figures},
        preview=chunks.select("chunk_id", "heading", "token_count").head(5),
    )
    log_report(report)
    return report


def _ask(workspace: Workspace, probes: Sequence[str]) -> Vectors:
    """Embed short texts as queries."""
    embedded = embed_texts(workspace.embedder, probes, task="query", cache=workspace.embeddings)
    stats = embedded.stats
    workspace.runs.count_texts(
        workspace.embedder.id, computed=stats.computed, tokens=stats.tokens, cached=stats.cached
    )
    return embedded.vectors


def find_pending_index(workspace: Workspace, *, interim: bool = False) -> list[str]:
    """Check whether :func:`materialize_search_index` would publish a snapshot. Hashes every file of the snapshot."""
    known = workspace.ledger.read("search_index").get(WHOLE)
    # A whole snapshot serves as an interim one, too.
    fitting = {_inputs_of_index(workspace), _inputs_of_index(workspace, interim=interim)}
    if known is None or known.inputs not in fitting:
        return [WHOLE]
    if current_version(workspace.index) != known.content:
        return [WHOLE]
    damage = find_manifest_damage(workspace) or find_damage(workspace.index / known.content, checksums=True)
    return [] if damage is None else [WHOLE]


def find_manifest_damage(workspace: Workspace) -> str | None:
    """Check the manifest of the published snapshot, which holds the checksums of all its other files.

    Returns:
        What is wrong and what to do, or None if the manifest is intact or nothing is published.
    """
    recorded = workspace.ledger.read(_MANIFEST).get(WHOLE)
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
    recorded = workspace.ledger.read(_EMBEDDING).get(WHOLE)
    if recorded is None or recorded.content != current_version(workspace.index):
        return None
    try:
        return EmbeddingSettings.model_validate_json(recorded.inputs)
    except ValidationError:
        return None


def _inputs_of_index(workspace: Workspace, *, interim: bool = False) -> str:
    contents = [content_of(workspace, table, [WHOLE])[WHOLE] for table in ("documents", "document_chunks")]
    chunks = workspace.ledger.read("document_chunks").get(WHOLE)
    has_graph = chunks is not None and 0 < chunks.rows >= workspace.settings.index.ann_min_rows
    return digest(
        [
            *(hash_dependencies(workspace, "search_index"), _REVISION_OF_LANGUAGES, *contents),
            *(["interim"] if interim and has_graph else []),
        ]
    )


def _settings_of_index(workspace: Workspace, rows: int, *, interim: bool) -> IndexSettings:
    """Return the settings of a snapshot. An interim one has more rows than it may have for an HNSW index."""
    settings = workspace.settings.index
    if interim and 0 < rows >= settings.ann_min_rows:
        settings = settings.model_copy(update={"ann_min_rows": rows + 1})
    return effective_index_settings(settings, rows)


def _describe_snapshot(workspace: Workspace, version: str) -> dict[str, int | float | str]:
    manifest = read_manifest(workspace.index / version)
    stemmers = sorted(manifest.languages, key=lambda each: (-each.rows, each.stemmer))
    described: dict[str, int | float | str] = {
        "version": version,
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
