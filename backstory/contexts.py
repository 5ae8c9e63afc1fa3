"""Decisions -> contexts: the rows that a writer job joins, and the text that a prompt takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.chunking.tokens import estimate_tokens
from backstory.prompt_text import cut_snippet, escape_block, escape_line
from backstory.settings import ContextSettings
from backstory.tables import schemas
from backstory.tables.contracts import conform

HEADING = (
    "\n\n## Related Previous Posts (for continuity and linking):\n"
    "You can reference these posts in your writing to maintain conversation continuity.\n\n"
)


def format_entry(record: Mapping[str, Any], settings: ContextSettings) -> str:
    """Write one chosen chunk as it appears in a prompt.

    Args:
        record: A row with ``title`` (or ``post_title``), ``published_at`` (or ``post_date``), ``content``,
            ``tags`` and ``similarity``.
        settings: How long the snippet may be.

    Returns:
        Heading, snippet, tags and similarity, followed by a blank line.
    """
    title = escape_line(str(record.get("title") or record.get("post_title") or "Untitled"))
    published = record.get("published_at") or record.get("post_date")
    tags = ", ".join(escape_line(str(tag)) for tag in record.get("tags") or []) or "none"
    snippet = escape_block(cut_snippet(str(record["content"]), settings.snippet_characters))
    similarity = float(record.get("similarity") or 0.0)
    return f"### [{title}] ({_format_date(published)})\n{snippet}\n- Tags: {tags}\n- Similarity: {similarity:.2f}\n\n"


def format_context(records: Iterable[Mapping[str, Any]], settings: ContextSettings) -> str:
    """Write the records of one window as a block of a prompt; no records give an empty text."""
    entries = [format_entry(record, settings) for record in records]
    return HEADING + "".join(entries) if entries else ""


def entry_budget(settings: ContextSettings) -> int:
    """Give the tokens that the entries of a context may take: what the heading leaves of the budget."""
    return settings.max_tokens - int(estimate_tokens([HEADING])[0])


def make_entry_counter(
    chunks: pl.DataFrame, settings: ContextSettings
) -> Callable[[Sequence[str]], NDArray[np.int64]]:
    """Make a function that says how many tokens each stored chunk takes in a context.

    Args:
        chunks: Rows of :meth:`backstory.index.SearchIndex.describe`.
        settings: How entries are written.

    Returns:
        A function from chunk ids to tokens, shape ``(len(ids),)``; counts are estimates that do not fall below
        what a model's tokenizer gives.
    """
    fields = chunks.select("title", "published_at", "tags", content="text", similarity=pl.lit(0.0))
    places = {chunk_id: place for place, chunk_id in enumerate(chunks["chunk_id"])}
    counts: dict[str, int] = {}

    def count(chunk_ids: Sequence[str]) -> NDArray[np.int64]:
        # Few of the stored chunks are ever asked for, and writing an entry is dear.
        new = [chunk_id for chunk_id in chunk_ids if chunk_id not in counts]
        if new:
            rows = (fields.row(places[chunk_id], named=True) for chunk_id in new)
            tokens = estimate_tokens([format_entry(row, settings) for row in rows])
            counts.update(zip(new, tokens.tolist(), strict=True))
        return np.array([counts[chunk_id] for chunk_id in chunk_ids], dtype=np.int64)

    return count


def make_contexts(decisions: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    """Gather the kept chunks of each window, best first.

    Args:
        decisions: Table ``decisions``.
        chunks: The stored chunks that were kept, with the columns of ``document_chunks`` and their document's
            ``title``, ``slug``, ``published_at`` and ``tags``.

    Returns:
        Table ``contexts``; ``similarity`` is the best over the query chunks that found the chunk, and
        ``matched_query_chunks`` names these, best first.
    """
    kept = (
        decisions.filter("kept")
        .sort(["window_id", "rank", "similarity", "query_chunk_id"], descending=[False, False, True, False])
        .group_by("window_id", "rank", "chunk_id", "document_id", maintain_order=True)
        .agg(
            pl.col("similarity").max(),
            pl.col("score").max(),
            matched_query_chunks=pl.col("query_chunk_id"),
        )
    )
    table = kept.join(
        chunks.drop("document_id").rename({"text": "content"}),
        on="chunk_id",
        how="inner",
        maintain_order="left",
    )
    return conform(table, schemas.Contexts)


def make_window_contexts(
    windows: pl.DataFrame,
    window_chunks: pl.DataFrame,
    decisions: pl.DataFrame,
    contexts: pl.DataFrame,
    assessments: pl.DataFrame,
    *,
    settings: ContextSettings,
    enabled: bool,
    hits: pl.DataFrame,
    embedder_id: str,
    index_version: str,
    settings_hash: str,
) -> pl.DataFrame:
    """Summarize each window: its prompt text, and how many rows each stage left.

    Args:
        windows: Table ``windows``; every one gets a row.
        window_chunks: Table ``window_chunks``.
        decisions: Table ``decisions``.
        contexts: Table ``contexts``.
        assessments: From :func:`backstory.assessment.evaluate_retrieval`.
        settings: How the text is written.
        enabled: Whether retrieval is switched on.
        hits: Table ``hits``, which says what searched each window.
        embedder_id: The space that was searched.
        index_version: The snapshot for windows without hits.
        settings_hash: Hash of the settings that the rows depend on.

    Returns:
        Table ``window_contexts``. ``coverage`` is the assessment's ``served_share``. ``status`` is ``degraded`` where
        a reranker's answer could not be used or no document fits the budget, and ``error`` says why.
    """
    by_window = contexts.partition_by("window_id", as_dict=True, maintain_order=True)
    texts = {window_id: format_context(rows.to_dicts(), settings) for (window_id,), rows in by_window.items()}
    tokens = dict(zip(texts, estimate_tokens(list(texts.values())), strict=True)) if texts else {}
    counts = (
        windows.select("window_id")
        .join(
            window_chunks.group_by("window_id").agg(query_chunk_count=pl.len()),
            on="window_id",
            how="left",
            maintain_order="left",
        )
        .join(_count_decisions(decisions), on="window_id", how="left", maintain_order="left")
        .join(
            hits.group_by("window_id").agg(pl.col("engine", "index_version").first()),
            on="window_id",
            how="left",
            maintain_order="left",
        )
        .join(
            contexts.group_by("window_id").agg(kept_count=pl.len()),
            on="window_id",
            how="left",
            maintain_order="left",
        )
        .join(
            decisions.group_by("window_id").agg(pl.col("rerank_note").first()),
            on="window_id",
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("^.*_count$").fill_null(0))
        .join(assessments, on="window_id", how="left", maintain_order="left")
    )
    starved = (pl.col("kept_count") == 0) & (pl.col("over_budget_count") > 0)
    status = (
        pl.when(pl.lit(not enabled))
        .then(pl.lit("disabled"))
        .when(starved)
        .then(pl.lit("degraded"))
        .when(pl.col("kept_count") == 0)
        .then(pl.lit("no_hits"))
        .when(pl.col("rerank_note").is_not_null())
        .then(pl.lit("degraded"))
    )
    too_small = f"context.max_tokens {settings.max_tokens} holds not even the first document; raise it"
    kept_order = pl.format("the reranker's answer was {}; the order of the selection was kept", "rerank_note")
    table = counts.with_columns(
        status=status.otherwise(pl.lit("ok")),
        error=pl.when(pl.lit(enabled) & starved).then(pl.lit(too_small)).otherwise(kept_order),
        text=pl.col("window_id").replace_strict(texts, default="", return_dtype=pl.String),
        token_count=pl.col("window_id").replace_strict(tokens, default=0, return_dtype=pl.Int64),
        coverage="served_share",
        embedder_id=pl.lit(embedder_id),
        engine=pl.col("engine").fill_null("none"),
        index_version=pl.col("index_version").fill_null(index_version),
        settings_hash=pl.lit(settings_hash),
    )
    return conform(table, schemas.WindowContexts)


def _count_decisions(decisions: pl.DataFrame) -> pl.DataFrame:
    above = pl.col("cause") != "below_threshold"
    return decisions.group_by("window_id").agg(
        hit_count=pl.len(),
        above_threshold_count=above.sum(),
        after_dedup_count=(above & (pl.col("cause") != "duplicate_document")).sum(),
        over_budget_count=(pl.col("cause") == "over_budget").sum(),
    )


def _format_date(value: object) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return escape_line(str(value)) if value else "undated"
