"""Hits, decisions and contexts of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import polars as pl

from backstory.contexts import entry_budget, make_contexts, make_entry_counter, make_window_contexts
from backstory.embeddings import embed_texts
from backstory.hits import find_hits, plan_queries
from backstory.ids import digest
from backstory.index import SearchIndex, current_version, open_index
from backstory.progress import show_progress
from backstory.schemas import Hits, empty
from backstory.selection import judge_hits
from backstory.stage_report import StageReport
from backstory.stages.materialization import (
    Compute,
    add_counts,
    content_of,
    materialize_partitions,
    rows_of,
    settings_digest,
    split_by_partition,
)
from backstory.tables import read_table
from backstory.workspace import Workspace


def materialize_hits(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Embed the query chunks that are not in the cache, and search for all of a group at once."""
    settings = workspace.settings.rag
    counts: dict[str, int | float | str] = {}
    depends = settings_digest(settings, extra=[workspace.embedder.id, current_version(workspace.index)])
    inputs = _inputs(workspace, ("windows", "window_chunks"), partitions, depends)
    index = _opener(workspace)

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        windows = read_table(workspace.tables, "windows", pending)
        chunks = read_table(workspace.tables, "window_chunks", pending)
        if not settings.enabled:
            return dict.fromkeys(pending, empty(Hits))
        with show_progress("embedding query chunks") as progress:
            embedded = embed_texts(
                workspace.embedder,
                chunks["text"].to_list(),
                task="query",
                cache=workspace.embeddings,
                progress=progress,
            )
        queries = plan_queries(windows, chunks, embedded.vectors, settings)
        found = find_hits(queries, index(), settings)
        add_counts(counts, {"queries": found.queries, "engine": found.engine, "reason": found.reason})
        add_counts(counts, embedded.stats.as_counts())
        return _split(found.frame, windows, pending)

    return _materialize(workspace, "hits", inputs, compute, counts)


def materialize_decisions(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Judge every hit."""
    settings = workspace.settings
    counts: dict[str, int | float | str] = {}
    depends = settings_digest(
        settings.rag, settings.context, extra=[workspace.embedder.id, str(workspace.min_similarity)]
    )
    inputs = _inputs(workspace, ("hits",), partitions, depends)
    index = _opener(workspace)

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        hits = read_table(workspace.tables, "hits", pending)
        decisions = judge_hits(
            hits,
            settings.rag,
            min_similarity=workspace.min_similarity,
            chunk_vectors=index().vectors_of,
            entry_tokens=make_entry_counter(
                index().describe(hits["chunk_id"].unique(maintain_order=True)), settings.context
            ),
            max_tokens=entry_budget(settings.context),
        )
        add_counts(
            counts, {f"cause_{cause}": n for cause, n in decisions["cause"].value_counts().iter_rows()}
        )
        return _split(decisions, read_table(workspace.tables, "windows", pending), pending)

    return _materialize(workspace, "decisions", inputs, compute, counts)


def materialize_contexts(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Gather the kept chunks of each window."""
    depends = digest([workspace.embedder.id])
    inputs = _inputs(workspace, ("decisions",), partitions, depends)
    index = _opener(workspace)

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        decisions = read_table(workspace.tables, "decisions", pending)
        kept = decisions.filter("kept")["chunk_id"].unique(maintain_order=True)
        contexts = make_contexts(decisions, index().describe(kept))
        return _split(contexts, read_table(workspace.tables, "windows", pending), pending)

    return _materialize(workspace, "contexts", inputs, compute, {})


def materialize_window_contexts(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Summarize each window's context."""
    settings = workspace.settings
    version = current_version(workspace.index)
    depends = settings_digest(settings.rag, settings.context, extra=[workspace.embedder.id, version])
    tables = ("windows", "window_chunks", "hits", "decisions", "contexts")
    inputs = _inputs(workspace, tables, partitions, depends)
    counts: dict[str, int | float | str] = {}

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        windows, chunks, hits, decisions, contexts = (
            read_table(workspace.tables, table, pending) for table in tables
        )
        summary = make_window_contexts(
            windows,
            chunks,
            decisions,
            contexts,
            settings=settings.context,
            enabled=settings.rag.enabled,
            embedder_id=workspace.embedder.id,
            hits=hits,
            index_version=version,
            settings_hash=settings_digest(settings.queries, settings.rag, settings.context),
        )
        add_counts(counts, {f"status_{key}": n for key, n in summary["status"].value_counts().iter_rows()})
        return _split(summary, windows, pending)

    return _materialize(workspace, "window_contexts", inputs, compute, counts)


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


def _opener(workspace: Workspace) -> Callable[[], SearchIndex]:
    """Give a function that opens the index when it is first needed, for all groups of a stage."""
    return cache(lambda: open_index(workspace.index, embedder_id=workspace.embedder.id))


def _inputs(
    workspace: Workspace, tables: Sequence[str], partitions: Sequence[str], depends: str
) -> dict[str, str]:
    contents = [content_of(workspace, table, partitions) for table in tables]
    return {key: digest([*(content[key] for content in contents), depends]) for key in partitions}


def _split(frame: pl.DataFrame, windows: pl.DataFrame, pending: list[str]) -> dict[str, pl.DataFrame]:
    keyed = frame.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
    return split_by_partition(keyed, pending)
