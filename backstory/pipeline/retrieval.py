"""Stages for the hits, decisions and contexts of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Final

import polars as pl

from backstory.assessment import evaluate_retrieval
from backstory.contexts import make_window_contexts
from backstory.embeddings import EmbeddingStats, embed_texts
from backstory.hits import Queries, plan_queries
from backstory.ids import digest, digest_json
from backstory.index import SearchIndex, current_version, open_index
from backstory.pipeline.batches import require_query_vectors
from backstory.pipeline.earlier_documents import name_earlier_documents, record_searched
from backstory.pipeline.incremental import (
    Compute,
    content_of,
    find_pending,
    materialize_partitions,
    read_made,
    rows_of,
    split_by_partition,
)
from backstory.pipeline.inputs import hash_dependencies, read_by_serving
from backstory.pipeline.stage_report import StageReport, add_counts
from backstory.progress import show_progress
from backstory.retrieval import Retrieval
from backstory.tables.contracts import empty
from backstory.tables.schemas import Hits
from backstory.workspace import Workspace

_TABLES_READ: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "hits": ("windows", "window_chunks"),
        "decisions": ("hits", "windows", "window_chunks"),
        "contexts": ("decisions", "window_chunks"),
        "window_contexts": ("windows", "window_chunks", "hits", "decisions", "contexts"),
    }
)
"""The tables whose content counts as an input of each stage."""

_SHARED: Final[ContextVar[tuple[Path, Callable[[], SearchIndex]] | tuple[None, None]]] = ContextVar(
    "shared_index", default=(None, None)
)
"""Folder of the index that stages share at the moment, and the function that opens it."""


def materialize_hits(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Embed the query chunks that are not cached, and search for all chunks of a group at once."""
    settings = workspace.settings.rag
    counts: dict[str, int | float | str] = {}
    earlier = name_earlier_documents(workspace, partitions) if workspace.feeds_back else None
    inputs = _inputs(workspace, "hits", partitions)
    if workspace.embedding_jobs is not None:
        require_query_vectors(workspace, partitions, find_pending(workspace, "hits", inputs))

    with _index_of(workspace) as index:

        def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
            windows = read_made(workspace, "windows", pending)
            chunks = read_made(workspace, "window_chunks", pending)
            if not settings.enabled:
                return dict.fromkeys(pending, empty(Hits))
            queries, stats = _ask(workspace, windows, chunks)
            found = _retrieval(workspace, index()).find_hits(queries)
            add_counts(counts, {"queries": found.queries, "engine": found.engine, "reason": found.reason})
            add_counts(counts, stats.as_counts())
            return _split(found.frame, windows, pending)

        report = _materialize(workspace, "hits", inputs, compute, counts)
    if earlier is not None:
        record_searched(workspace, earlier)
    return report


def materialize_decisions(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Keep or drop every hit, by the judgements of the reranker if one is configured."""
    settings = workspace.settings
    reranker = workspace.reranker
    counts: dict[str, int | float | str] = {}
    inputs = _inputs(workspace, "decisions", partitions)

    with _index_of(workspace) as index:

        def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
            hits, windows, chunks = (
                read_made(workspace, table, pending) for table in ("hits", "windows", "window_chunks")
            )
            queries = cache(lambda: _ask(workspace, windows, chunks)[0])
            judged = _retrieval(workspace, index()).judge(
                hits, chunks, lambda asked: queries().vectors_of(asked)
            )
            decisions = judged.frame
            add_counts(
                counts, {f"cause_{cause}": n for cause, n in decisions["cause"].value_counts().iter_rows()}
            )
            add_counts(counts, judged.counts)
            return _split(decisions, windows, pending)

        if reranker is None:
            return _materialize(workspace, "decisions", inputs, compute, counts)
        # Reranking is expensive, so each small group is written before the next one starts.
        share = ceil(workspace.settings.partitions.rows_at_once / settings.rerank.threads)
        rows = rows_of(workspace, "window_chunks")

        def weigh(pending: list[str]) -> Mapping[str, int]:
            found = rows(pending)
            return {key: max(share, found.get(key, 0)) for key in pending}

        return materialize_partitions(workspace, "decisions", inputs, compute, weigh=weigh, counts=counts)


def materialize_contexts(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Gather the kept chunks of each window, and choose their passages."""
    inputs = _inputs(workspace, "contexts", partitions)

    with _index_of(workspace) as index:

        def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
            decisions, chunks = (read_made(workspace, table, pending) for table in _TABLES_READ["contexts"])
            contexts = _retrieval(workspace, index()).gather(decisions, chunks)
            return _split(contexts, read_made(workspace, "windows", pending), pending)

        return _materialize(workspace, "contexts", inputs, compute, {})


def materialize_window_contexts(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Summarize each window's context. The verdict is about what people wrote, whichever posts are beside it."""
    settings = workspace.settings
    version = current_version(workspace.index)
    inputs = _inputs(workspace, "window_contexts", partitions)
    counts: dict[str, int | float | str] = {}

    with _index_of(workspace) as index:

        def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
            windows, chunks, hits, decisions, contexts = (
                read_made(workspace, table, pending) for table in _TABLES_READ["window_contexts"]
            )
            posts = index().list_posts(decisions["chunk_id"].unique()) if workspace.feeds_back else None
            by_people = ~pl.col("chunk_id").is_in(posts or [])
            assessments = evaluate_retrieval(
                windows,
                chunks,
                decisions.filter(by_people),
                contexts.filter(by_people),
                terms_of=lambda texts: index().terms_of(texts),
                min_similarity=workspace.min_similarity,
                settings=settings.rag,
                searchable=(index().rows_by_people if workspace.feeds_back else index().rows) > 0,
                embedder_id=workspace.embedder.id,
                known_languages=workspace.embedder.languages,
            )
            summary = make_window_contexts(
                windows,
                chunks,
                decisions,
                contexts,
                assessments,
                settings=settings.context,
                enabled=settings.rag.enabled,
                embedder_id=workspace.embedder.id,
                hits=hits,
                index_version=version,
                settings_hash=digest_json(read_by_serving(workspace), length=16),
                posts=posts,
            )
            add_counts(
                counts, {f"status_{key}": n for key, n in summary["status"].value_counts().iter_rows()}
            )
            add_counts(
                counts, {f"verdict_{key}": n for key, n in summary["verdict"].value_counts().iter_rows()}
            )
            add_counts(
                counts,
                {
                    f"language_{key or 'unclear'}": n
                    for key, n in summary["language"].value_counts().iter_rows()
                },
            )
            return _split(summary, windows, pending)

        return _materialize(workspace, "window_contexts", inputs, compute, counts)


def _retrieval(workspace: Workspace, index: SearchIndex) -> Retrieval:
    settings = workspace.settings
    return Retrieval(
        index=index,
        rag=workspace.rag,
        context=settings.context,
        min_similarity=workspace.min_similarity,
        reranker=workspace.reranker,
        rerank=settings.rerank,
        find_names=lambda: _find_names(workspace),
        judgements=workspace.judgements,
        posts_apart=workspace.feeds_back,
    )


def _find_names(workspace: Workspace) -> Sequence[str] | None:
    """Read the real names of all authors from the exports; None if no author is hidden."""
    settings = workspace.settings
    if not settings.privacy.pseudonyms:
        return None
    return workspace.last_reading.read_names(workspace.exports, settings.conversations).to_list()


def _ask(workspace: Workspace, windows: pl.DataFrame, chunks: pl.DataFrame) -> tuple[Queries, EmbeddingStats]:
    """Plan the queries of windows, and compute the vectors that are not cached."""
    with show_progress("embedding query chunks") as progress:
        embedded = embed_texts(
            workspace.embedder,
            chunks["text"].to_list(),
            task="query",
            cache=workspace.embeddings,
            progress=workspace.runs.follow("query chunks embedded", progress),
        )
    stats = embedded.stats
    workspace.runs.count_texts(
        workspace.embedder.id, computed=stats.computed, tokens=stats.tokens, cached=stats.cached
    )
    return plan_queries(windows, chunks, embedded.vectors, workspace.settings.rag), stats


def _materialize(
    workspace: Workspace,
    table: str,
    inputs: Mapping[str, str],
    compute: Compute,
    counts: dict[str, int | float | str],
) -> StageReport:
    # Hits, decisions and contexts all grow with the query chunks.
    weigh = rows_of(workspace, "window_chunks")
    return materialize_partitions(workspace, table, inputs, compute, weigh=weigh, counts=counts)


@contextmanager
def sharing_index(workspace: Workspace) -> Iterator[None]:
    """Let the stages of a workspace use one open index. Nothing may publish another snapshot meanwhile."""
    with _opening(workspace) as index:
        token = _SHARED.set((workspace.index, index))
        try:
            yield
        finally:
            _SHARED.reset(token)


@contextmanager
def _index_of(workspace: Workspace) -> Iterator[Callable[[], SearchIndex]]:
    """Yield a function that opens the index on first use, once for all groups of a stage."""
    folder, shared = _SHARED.get()
    if shared is not None and folder == workspace.index:
        yield shared
        return
    with _opening(workspace) as index:
        yield index


@contextmanager
def _opening(workspace: Workspace) -> Iterator[Callable[[], SearchIndex]]:
    with ExitStack() as stack:

        @cache
        def open_once() -> SearchIndex:
            return stack.enter_context(open_index(workspace.index, embedder_id=workspace.embedder.id))

        yield open_once


def find_pending_retrieval(
    workspace: Workspace, table: str, partitions: Sequence[str], snapshots: Mapping[str, str] | None = None
) -> list[str]:
    """Say which partitions of ``hits``, ``decisions``, ``contexts`` or ``window_contexts`` would be rebuilt.

    Args:
        workspace: An open workspace.
        table: One of these tables.
        partitions: Keys of the wanted partitions.
        snapshots: Version of the snapshot that counts for each partition; None for the published one. Where written
            posts are documents, :attr:`backstory.pipeline.earlier_documents.Earlier.version`.
    """
    return find_pending(workspace, table, _inputs(workspace, table, partitions, snapshots))


def _inputs(
    workspace: Workspace, table: str, partitions: Sequence[str], snapshots: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Hash the inputs of each partition of the table.

    Where written posts are documents, the documents before a partition count, not the whole snapshot.
    """
    searched = dict.fromkeys(partitions, None) if snapshots is None else snapshots
    if workspace.feeds_back and snapshots is None:
        earlier = name_earlier_documents(workspace, partitions)
        searched = {key: documents.version for key, documents in earlier.items()}
    depends = {version: hash_dependencies(workspace, table, version) for version in set(searched.values())}
    contents = [content_of(workspace, read, partitions) for read in _TABLES_READ[table]]
    return {
        key: digest([*(content[key] for content in contents), depends[searched[key]]]) for key in partitions
    }


def _split(frame: pl.DataFrame, windows: pl.DataFrame, pending: list[str]) -> dict[str, pl.DataFrame]:
    keyed = frame.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
    return split_by_partition(keyed, pending)
