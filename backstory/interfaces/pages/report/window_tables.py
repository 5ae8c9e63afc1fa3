"""Build the report of one window from the rows of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import WHOLE_WINDOW
from backstory.base.local_times import localize, localize_window
from backstory.interfaces.pages.report.window_report import (
    Candidate,
    Cell,
    Document,
    Message,
    Query,
    WindowReport,
)
from backstory.retrieval.assessment import judge_parts

WHOLE = "whole window"
"""Granularity of a query that is the whole window."""


@dataclass(frozen=True)
class WindowTables:
    """The rows of one window. Each frame follows the contract of its table.

    Attributes:
        window: The row of ``windows``.
        summary: The row of ``window_contexts``.
        messages: Its messages, in the order of ``message_ids``.
        window_chunks: Its query chunks.
        hits: Its rows of ``hits``.
        decisions: Its rows of ``decisions``.
        contexts: Its rows of ``contexts``.
        document_chunks: The chunks that were found, if still stored.
        documents: ``document_id``, ``revision``, ``uri``, ``title``, ``published_at`` and ``status`` of the documents
            that were found, if still stored.
    """

    window: Mapping[str, Any]
    summary: Mapping[str, Any]
    messages: pl.DataFrame
    window_chunks: pl.DataFrame
    hits: pl.DataFrame
    decisions: pl.DataFrame
    contexts: pl.DataFrame
    document_chunks: pl.DataFrame
    documents: pl.DataFrame


def make_window_report(tables: WindowTables) -> WindowReport:
    """Build the report of one window. Without hits it has no documents, cells or candidates.

    Raises:
        InputError: A hit names a query chunk that is no longer stored.
    """
    judged = tables.decisions.join(
        tables.hits.select("query_chunk_id", "chunk_id", "keyword_score"),
        on=["query_chunk_id", "chunk_id"],
        how="left",
        maintain_order="left",
    )
    ordered = _ask_order(tables, judged)
    places = {row["chunk_id"]: place for place, row in enumerate(ordered)}
    if strangers := set(judged["query_chunk_id"]) - set(places):
        gone = f"hits of this window name query chunks that are no longer stored, such as {min(strangers)}"
        raise InputError(f"{gone}; run `backstory run`")
    found = _rank_documents(judged)
    documents = {key: place for place, key in enumerate(found["document_id"])}
    cells = _fill_cells(judged, places, documents)
    queries = _judge_queries(ordered, tables, documents)
    served_messages = _serve_messages(queries, cells, len(tables.messages))
    return WindowReport(
        window=localize_window(tables.window),
        summary=tables.summary,
        messages=tuple(
            Message(
                localize(row["timestamp"], row["timezone"]),
                row["author"],
                row["text"],
                row["kind"],
                served_messages[place],
            )
            for place, row in enumerate(tables.messages.to_dicts())
        ),
        queries=queries,
        documents=_describe_documents(tables, found, queries),
        cells=cells,
        candidates=_list_candidates(tables, judged, places, documents),
    )


def _ask_order(tables: WindowTables, judged: pl.DataFrame) -> list[dict[str, Any]]:
    whole_id = f"{tables.window['window_id']}#{WHOLE_WINDOW}"
    whole = {
        "chunk_id": whole_id,
        "granularity": WHOLE,
        "first": 0,
        "last": max(len(tables.messages) - 1, 0),
        "text": "The whole window at once",
    }
    askers = set(judged["query_chunk_id"])
    if askers == {whole_id}:  # by the plan, the only query is the whole window
        return [whole]
    chunks = tables.window_chunks.sort("granularity", "chunk_index").select(
        "chunk_id", "granularity", "text", first="first_message", last="last_message"
    )
    return [*chunks.to_dicts(), *([whole] if whole_id in askers else [])]


def _rank_documents(judged: pl.DataFrame) -> pl.DataFrame:
    return (
        judged.group_by("document_id")
        .agg(
            ranks=pl.col("rank").drop_nulls().unique().sort(),
            similarity=pl.col("similarity").max(),
            score=pl.col("score").max(),
        )
        .sort(
            pl.col("ranks").list.first(),
            "score",
            "document_id",
            descending=[False, True, False],
            nulls_last=True,
        )
    )


def _fill_cells(
    judged: pl.DataFrame, places: Mapping[str, int], documents: Mapping[str, int]
) -> tuple[Cell, ...]:
    best = (
        judged.with_columns(in_context=pl.col("kept").any().over("document_id"))
        .sort("probability", "kept", "score", descending=True, maintain_order=True)
        .unique(["query_chunk_id", "document_id"], keep="first", maintain_order=True)
    )
    cells = (
        Cell(
            query=places[row["query_chunk_id"]],
            document=documents[row["document_id"]],
            score=row["score"],
            similarity=row["similarity"],
            keyword_score=row["keyword_score"],
            probability=row["probability"],
            passed=row["cause"] != "below_threshold",
            kept=row["in_context"],
        )
        for row in best.to_dicts()
    )
    return tuple(sorted(cells, key=lambda cell: (cell.query, cell.document)))


def _judge_queries(
    ordered: list[dict[str, Any]], tables: WindowTables, documents: Mapping[str, int]
) -> tuple[Query, ...]:
    """Judge the queries as the verdict does: by the probabilities in ``decisions``."""
    judged = {
        row["query_chunk_id"]: row
        for row in judge_parts(tables.window_chunks, tables.decisions).iter_rows(named=True)
    }
    queries = []
    for row in ordered:
        # The whole window beside its parts is no part: what serves it serves one of them.
        part = judged.get(row["chunk_id"], {"state": "not_asked", "document_id": None, "documents": []})
        is_served = part["state"] == "served"
        queries.append(
            Query(
                **row,
                state=part["state"],
                document=documents[part["document_id"]] if is_served else None,
                documents=tuple(documents[key] for key in part["documents"]) if is_served else (),
            )
        )
    return tuple(queries)


def _serve_messages(queries: tuple[Query, ...], cells: tuple[Cell, ...], count: int) -> list[int | None]:
    """Return the document of each message: that of its shortest served query, and then of the most probable one."""
    probabilities = {(cell.query, cell.document): cell.probability for cell in cells}
    served: list[int | None] = [None] * count
    # A near-duplicate serves for its document without a cell of that document.
    order = sorted(
        (query.last - query.first, -probabilities.get((place, query.document), 0.0), place)
        for place, query in enumerate(queries)
        if query.document is not None
    )
    for _, _, place in order:
        query = queries[place]
        for position in range(query.first, query.last + 1):
            if served[position] is None:
                served[position] = query.document
    return served


def _count_messages(queries: tuple[Query, ...], document: int) -> int:
    """Count the messages of the parts that a document serves."""
    return len(
        {
            position
            for query in queries
            if document in query.documents
            for position in range(query.first, query.last + 1)
        }
    )


def _describe_documents(
    tables: WindowTables, found: pl.DataFrame, queries: tuple[Query, ...]
) -> tuple[Document, ...]:
    columns = ("document_id", "title", "published_at")
    kept = {row["document_id"]: row for row in tables.contexts.select(columns).to_dicts()}
    # Of several revisions, the searched one describes the document.
    known = {row["document_id"]: row for row in tables.documents.sort(pl.col("status") == "ok").to_dicts()}
    rows = []
    for place, row in enumerate(found.to_dicts()):
        key = row["document_id"]
        facts = kept.get(key) or known.get(key) or {}
        rows.append(
            Document(
                document_id=key,
                title=facts.get("title") or key,
                uri=known[key]["uri"] if key in known else None,
                published_at=facts.get("published_at"),
                ranks=tuple(row["ranks"]),
                similarity=row["similarity"],
                score=row["score"],
                served_messages=_count_messages(queries, place),
            )
        )
    return tuple(rows)


def _list_candidates(
    tables: WindowTables, judged: pl.DataFrame, places: Mapping[str, int], documents: Mapping[str, int]
) -> tuple[Candidate, ...]:
    texts = {
        row["chunk_id"]: row
        for row in tables.document_chunks.select("chunk_id", "heading", "text").to_dicts()
    }
    contents = dict(tables.contexts.select("chunk_id", "content").iter_rows())
    # All hits of a chunk have one cause, except that some of them may be too improbable.
    chunks = (
        judged.sort("score", descending=True, maintain_order=True)
        .group_by("chunk_id", "document_id", maintain_order=True)
        .agg(
            cause=pl.col("cause")
            .filter(pl.col("cause") != "below_threshold")
            .first()
            .fill_null("below_threshold"),
            rank=pl.col("rank").drop_nulls().first(),
            similarity=pl.col("similarity").max(),
            score=pl.col("score").max(),
            probability=pl.col("probability").max(),
            because_of=pl.col("because_of").drop_nulls().first(),
            queries=pl.col("query_chunk_id"),
        )
        .sort("rank", "score", "chunk_id", descending=[False, True, False], nulls_last=True)
    )
    return tuple(
        Candidate(
            chunk_id=row["chunk_id"],
            document=documents[row["document_id"]],
            heading=texts[row["chunk_id"]]["heading"] if row["chunk_id"] in texts else "",
            text=contents.get(row["chunk_id"]) or texts.get(row["chunk_id"], {}).get("text"),
            cause=row["cause"],
            rank=row["rank"],
            similarity=row["similarity"],
            score=row["score"],
            probability=row["probability"],
            because_of=row["because_of"],
            queries=tuple(places[query] for query in row["queries"]),
        )
        for row in chunks.to_dicts()
    )
