"""Documents, their chunks and the search index of a workspace."""

from __future__ import annotations

import time
from collections.abc import Mapping

import polars as pl

from backstory.document_chunks import cut_document_chunks, embedding_texts
from backstory.documents import read_documents
from backstory.embeddings import embed_texts
from backstory.ids import digest
from backstory.index import build_index, current_version, read_manifest
from backstory.index.snapshot.manifest import find_damage
from backstory.pipeline.incremental import (
    WHOLE,
    content_of,
    is_made_by_this_code,
    materialize_partitions,
)
from backstory.pipeline.inputs import effective_index_settings, hash_dependencies
from backstory.pipeline.stage_report import StageReport, log_report
from backstory.progress import show_progress
from backstory.tables import read_table
from backstory.tables.ledger import Entry
from backstory.workspace import Workspace


def materialize_documents(workspace: Workspace) -> StageReport:
    """Read the documents' files; revisions, tombstones and errors are rows.

    Every file is hashed on every run, and only changed ones are parsed.
    """
    settings = workspace.settings.documents
    previous = read_table(workspace.tables, "documents")
    parse_again = not is_made_by_this_code(workspace, "documents")
    documents = read_documents(workspace.posts, settings, previous, parse_again=parse_again)
    statuses = {f"status_{status}": count for status, count in documents["status"].value_counts().iter_rows()}
    revisions = documents.select("document_id", "revision", "status").rows()
    inputs = digest([hash_dependencies(workspace, "documents"), *map(str, revisions)])

    def compute(_: list[str]) -> Mapping[str, pl.DataFrame]:
        return {WHOLE: documents}

    return materialize_partitions(workspace, "documents", {WHOLE: inputs}, compute, counts=statuses)


def materialize_document_chunks(workspace: Workspace) -> StageReport:
    """Cut the documents that are searched; unchanged revisions keep their chunks."""
    settings = workspace.settings.chunks
    embedder = workspace.embedder
    documents_content = content_of(workspace, "documents", [WHOLE])[WHOLE]
    inputs = digest([hash_dependencies(workspace, "document_chunks"), documents_content])
    counts: dict[str, int | float | str] = {}

    def compute(_: list[str]) -> Mapping[str, pl.DataFrame]:
        previous = read_table(workspace.tables, "document_chunks")
        chunks = cut_document_chunks(
            read_table(workspace.tables, "documents"),
            settings,
            max_tokens=embedder.max_input_tokens,
            count_tokens=embedder.count_tokens,
            counter_id=embedder.id,
            previous=previous if is_made_by_this_code(workspace, "document_chunks") else None,
        )
        counts["kept"] = chunks.join(previous, on="chunk_id", how="semi").height
        counts["tokens"] = int(chunks["token_count"].sum())
        return {WHOLE: chunks}

    return materialize_partitions(workspace, "document_chunks", {WHOLE: inputs}, compute, counts=counts)


def materialize_search_index(workspace: Workspace) -> StageReport:
    """Embed the chunks that are not in the cache, and publish a snapshot if anything changed."""
    started = time.perf_counter()
    embedder = workspace.embedder
    contents = [content_of(workspace, table, [WHOLE])[WHOLE] for table in ("documents", "document_chunks")]
    inputs = digest([hash_dependencies(workspace, "search_index"), *contents])
    known = workspace.ledger.read("search_index").get(WHOLE)
    if known is not None and known.inputs == inputs and _is_published(workspace, known.content):
        counts = _describe_snapshot(workspace, known.content)
        report = StageReport("search_index", known.rows, 1, 0, time.perf_counter() - started, counts)
        log_report(report)
        return report
    documents = read_table(workspace.tables, "documents")
    chunks = read_table(workspace.tables, "document_chunks")
    with show_progress("embedding documents") as progress:
        embedded = embed_texts(
            embedder,
            embedding_texts(chunks, documents),
            task="document",
            cache=workspace.embeddings,
            progress=progress,
        )
    build = build_index(
        workspace.index,
        documents,
        chunks,
        embedded.vectors,
        embedder_id=embedder.id,
        settings=effective_index_settings(workspace.settings.index, len(chunks)),
    )
    workspace.ledger.record("search_index", {WHOLE: Entry(inputs, build.version, len(chunks))})
    report = StageReport(
        table="search_index",
        rows=len(chunks),
        partitions=1,
        computed=int(build.built),
        seconds=time.perf_counter() - started,
        counts={**_describe_snapshot(workspace, build.version), **embedded.stats.as_counts()},
        preview=chunks.select("chunk_id", "heading", "token_count").head(5),
    )
    log_report(report)
    return report


def _is_published(workspace: Workspace, version: str) -> bool:
    """Say whether a snapshot is the current one and all of its files are there."""
    if current_version(workspace.index) != version:
        return False
    return find_damage(workspace.index / version, checksums=False) is None


def _describe_snapshot(workspace: Workspace, version: str) -> dict[str, int | float | str]:
    manifest = read_manifest(workspace.index / version)
    described: dict[str, int | float | str] = {"version": version, "embedder": manifest.embedder_id}
    if manifest.hnsw is not None:
        described |= {
            "recall_at_5": manifest.hnsw.recall_at_5,
            "recall_sampled_queries": manifest.hnsw.sampled_rows,
        }
    return described
