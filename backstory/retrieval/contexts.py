"""Decisions -> contexts: the kept chunks as rows for writer jobs, and a summary of each window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX
from backstory.retrieval.evidence.pair_model import is_served_by_chosen
from backstory.retrieval.passages.passages import TermsOf, make_passages
from backstory.retrieval.passages.provenance import describe_provenance
from backstory.settings.models import ContextSettings
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import conform
from backstory.text.chunking.units import estimate_tokens
from backstory.text.languages import english_name
from backstory.text.people import ShowText, show_as_written
from backstory.text.prompts.entries import format_context


def make_contexts(
    decisions: pl.DataFrame,
    chunks: pl.DataFrame,
    window_chunks: pl.DataFrame,
    *,
    alike: pl.DataFrame,
    around: pl.DataFrame,
    terms_of: TermsOf,
    settings: ContextSettings,
    shown: pl.Series | None = None,
    show: ShowText = show_as_written,
) -> pl.DataFrame:
    """Gather the kept chunks of each window, best first, with the passages that serve it.

    Args:
        decisions: Table ``decisions``.
        chunks: The kept chunks, with the columns of ``document_chunks`` and their document's ``title``, ``slug``,
            ``published_at`` and ``tags``.
        window_chunks: Table ``window_chunks`` of the same windows.
        alike: The chunks that gave way to one of the same text, with the columns of ``chunks``.
        around: The kept chunks and those beside them, :meth:`backstory.index.search.SearchIndex.read_around`.
        terms_of: Gives the known words of texts, :meth:`backstory.index.search.SearchIndex.terms_of`.
        settings: The budgets of the passages: that of what people wrote, and that of posts that Backstory wrote.
        shown: The texts of ``window_chunks`` as readers see them; None for the texts as they are.
        show: Shows a text of a document as readers see it.

    Returns:
        Table ``contexts``. ``similarity`` is the best over the query chunks that found the chunk.
        ``matched_query_chunks`` lists the query chunks that the document serves, whichever of its chunks they found,
        most probable first; if it serves none for certain, those that found the chunk.
    """
    kept = (
        _list_standing_hits(decisions.with_columns(serves=is_served_by_chosen()))
        .sort(
            ["window_id", "rank", "probability", "similarity", "query_chunk_id"],
            descending=[False, False, True, True, False],
        )
        .group_by("window_id", "rank", "chunk_id", "document_id", maintain_order=True)
        .agg(
            pl.col("similarity").filter("kept").max(),
            pl.col("score").filter("kept").max(),
            is_certain=pl.col("serves").any(),
            serving=pl.col("query_chunk_id").filter("serves").unique(maintain_order=True),
            finding=pl.col("query_chunk_id").filter("kept").unique(maintain_order=True),
        )
        .with_columns(matched_query_chunks=pl.when("is_certain").then("serving").otherwise("finding"))
    )
    rows = kept.join(
        chunks.drop("document_id").rename({"text": "content"}),
        on="chunk_id",
        how="inner",
        maintain_order="left",
    )
    rows = rows.join(
        _list_copies(decisions, alike), on=["window_id", "chunk_id"], how="left", maintain_order="left"
    ).with_columns(pl.col("also_in").fill_null([]))
    first = pl.col("rank").min().over("window_id", "document_id")
    rows = rows.with_columns(citation=first.rank("dense").over("window_id").cast(pl.Int64))
    quoted = window_chunks if shown is None else window_chunks.with_columns(shown.alias("text"))
    rows = rows.with_columns(serves=describe_provenance(rows, quoted))

    rows = _show_frame(rows, show)

    def choose_passages(part: pl.DataFrame, budget: ContextSettings) -> pl.DataFrame:
        served = _count_served(decisions, part)
        return make_passages(part, served, around, window_chunks, terms_of, budget, show)

    is_post = pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    made = choose_passages(rows.filter(~is_post), settings)
    if (posts := rows.filter(is_post)).height:
        budget = settings.model_copy(update={"max_tokens": settings.posts_max_tokens})
        made = pl.concat([made, choose_passages(posts, budget)]).sort("window_id", "rank")
    contents = [show(*row) for row in made.select("window_id", "document_id", "content").iter_rows()]
    return conform(made.with_columns(content=pl.Series(contents, dtype=pl.String)), schemas.Contexts)


def _show_frame(rows: pl.DataFrame, show: ShowText) -> pl.DataFrame:
    """Show what stands around the passages as readers see it."""
    shown = [
        (show(window_id, document_id, title), [show(window_id, document_id, tag) for tag in tags])
        for window_id, document_id, title, tags in rows.select(
            "window_id", "document_id", "title", "tags"
        ).iter_rows()
    ]
    schema = {name: rows.schema[name] for name in ("title", "tags")}
    return rows.with_columns(pl.DataFrame(shown, schema=schema, orient="row").get_columns())


def _list_copies(decisions: pl.DataFrame, alike: pl.DataFrame) -> pl.DataFrame:
    """List the paths of the documents of which a chunk gave way to a kept one, by ``window_id`` and ``chunk_id``."""
    dropped = decisions.filter(pl.col("cause") == "near_duplicate").select(
        "window_id", "chunk_id", "because_of"
    )
    people = alike.filter(
        ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    )  # whose rows posts change nothing of
    named = dropped.join(people.select("chunk_id", "uri"), on="chunk_id")
    return named.group_by("window_id", chunk_id="because_of").agg(also_in=pl.col("uri").unique().sort())


def _list_standing_hits(decisions: pl.DataFrame) -> pl.DataFrame:
    """Return the hits of the kept chunks, and those of the other chunks of their documents."""
    kept = decisions.filter("kept")
    standing = kept.select("window_id", "document_id", "chunk_id", "rank").unique(maintain_order=True)
    others = decisions.filter(~pl.col("kept")).drop("chunk_id", "rank")
    return pl.concat(
        [
            kept,
            others.join(
                standing.rename({"chunk_id": "because_of"}),
                on=["window_id", "document_id", "because_of"],
                how="inner",
                maintain_order="left",
            )
            .with_columns(chunk_id="because_of")
            .select(kept.columns),
        ]
    )


def _count_served(decisions: pl.DataFrame, rows: pl.DataFrame) -> dict[tuple[str, str], int]:
    """Count the query chunks for which each kept chunk is the best of some rows, by window and chunk."""
    best = (
        decisions.filter("kept")
        .join(rows, on=["window_id", "chunk_id"], how="semi", maintain_order="left")
        .sort(["window_id", "query_chunk_id", "score", "rank"], descending=[False, False, True, False])
        .group_by("window_id", "query_chunk_id", maintain_order=True)
        .agg(pl.col("chunk_id").first())
    )
    counted = best.group_by("window_id", "chunk_id").len()
    return {(window_id, chunk_id): count for window_id, chunk_id, count in counted.iter_rows()}


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
    messages: pl.DataFrame,
    posts: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Summarize each window: its texts for the prompt, and its number of rows after each stage.

    Args:
        windows: Table ``windows``; every one gets a row.
        window_chunks: Table ``window_chunks``.
        decisions: Table ``decisions``.
        contexts: Table ``contexts``.
        assessments: From :func:`backstory.retrieval.assessment.evaluate_retrieval`.
        settings: The format of the text.
        enabled: Whether retrieval is switched on.
        hits: Table ``hits``, which names the engine and snapshot of each window.
        embedder_id: The embedding space that was searched.
        index_version: The snapshot to name for windows without hits.
        settings_hash: Hash of the settings that the rows depend on.
        messages: ``window_id``, ``messages``, ``said_count``, ``local_started_at`` and ``local_ended_at`` of each
            window, for those columns of the table.
        posts: Chunks of posts that Backstory wrote, among those of the decisions; None if posts are no documents.

    Returns:
        Table ``window_contexts``. ``coverage`` is the assessment's ``served_share``. ``status`` is ``degraded``,
        with the reason in ``error``, if the embedder does not know the window's language, the reranker's answer was not
        usable, or no document fits the budget.
    """
    by_window = contexts.partition_by("window_id", as_dict=True, maintain_order=True)
    whole = settings if posts is None else add_budget_of_posts(settings)
    records = {window_id: rows.to_dicts() for (window_id,), rows in by_window.items()}
    texts = {window_id: format_context(rows, whole) for window_id, rows in records.items()}
    cited = {window_id: format_context(rows, whole, "cited") for window_id, rows in records.items()}
    counts = (
        windows.select("window_id")
        .join(
            window_chunks.group_by("window_id").agg(query_chunk_count=pl.len()),
            on="window_id",
            how="left",
            maintain_order="left",
        )
        .join(_count_decisions(decisions, posts or ()), on="window_id", how="left", maintain_order="left")
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
            decisions.group_by("window_id").agg(pl.col("rerank_note", "uncovered_topics").first()),
            on="window_id",
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("^.*_count$").fill_null(0))
        .join(messages, on="window_id", how="left", maintain_order="left")
        .join(assessments, on="window_id", how="left", maintain_order="left")
    )
    foreign = pl.lit(enabled) & (pl.col("verdict") == "not_known") & ~pl.col("language_known")
    starved = pl.lit(enabled) & (pl.col("kept_count") == 0) & (pl.col("over_budget_count") > 0)
    status = (
        pl.when(pl.lit(not enabled))
        .then(pl.lit("disabled"))
        .when(foreign | starved)
        .then(pl.lit("degraded"))
        .when(pl.col("kept_count") == 0)
        .then(pl.lit("no_hits"))
        .when(pl.col("rerank_note").is_not_null())
        .then(pl.lit("degraded"))
    )
    reasons = (
        pl.when(foreign).then(
            pl.format(
                "the window is in {}, which {} does not know; set embedding.model to multilingual, or "
                "embedding.provider to a service that does",
                english_name(pl.col("language")),
                pl.lit(embedder_id),
            )
        ),
        pl.when(starved).then(
            pl.lit(f"context.max_tokens {settings.max_tokens} is too small for the first document; raise it")
        ),
        pl.format("the reranker's answer was {}; the order of the selection was kept", "rerank_note"),
    )
    error = pl.concat_str(reasons, separator="; ", ignore_nulls=True)
    table = counts.with_columns(
        status=status.otherwise(pl.lit("ok")),
        error=pl.when(error != "").then(error),
        text=pl.col("window_id").replace_strict(texts, default="", return_dtype=pl.String),
        token_count=pl.col("window_id").replace_strict(_count(texts), default=0, return_dtype=pl.Int64),
        cited_text=pl.col("window_id").replace_strict(cited, default="", return_dtype=pl.String),
        cited_token_count=pl.col("window_id").replace_strict(_count(cited), default=0, return_dtype=pl.Int64),
        max_tokens=pl.lit(whole.max_tokens),
        coverage="served_share",
        embedder_id=pl.lit(embedder_id),
        engine=pl.col("engine").fill_null("none"),
        index_version=pl.col("index_version").fill_null(index_version),
        settings_hash=pl.lit(settings_hash),
    )
    return conform(table, schemas.WindowContexts)


def add_budget_of_posts(settings: ContextSettings) -> ContextSettings:
    """Return the settings of a context that holds posts by Backstory in addition to what people wrote."""
    return settings.model_copy(update={"max_tokens": settings.max_tokens + settings.posts_max_tokens})


def _count(texts: Mapping[Any, str]) -> dict[Any, int]:
    """Estimate the tokens of texts by window."""
    return dict(zip(texts, estimate_tokens(list(texts.values())).tolist(), strict=True)) if texts else {}


def _count_decisions(decisions: pl.DataFrame, posts: Sequence[str]) -> pl.DataFrame:
    is_over_budget = (pl.col("cause") == "over_budget") & ~pl.col("chunk_id").is_in(posts)
    above = pl.col("cause") != "below_threshold"
    return decisions.group_by("window_id").agg(
        hit_count=pl.len(),
        above_threshold_count=above.sum(),
        after_dedup_count=(above & (pl.col("cause") != "duplicate_document")).sum(),
        over_budget_count=is_over_budget.sum(),
    )
