"""Estimates without labels how much of a window its context covers, and recommends what would cover more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import polars as pl

from backstory.base.ids import WHOLE_WINDOW
from backstory.settings.models import RAGSettings
from backstory.text.languages import detect_languages, english_name, is_known

TermsOf = Callable[[Sequence[str]], pl.DataFrame]

# A logistic regression of "at least half of the window's topics are covered", fitted on topicalchat. Term coverage
# has no weight: if documents are absent, their words are unknown, and the share of known words rises.
# `python -m benchmarks.assessment` fits the constants again; see docs/studies/verdict.md.
INTERCEPT = -7.1
PER_MARGIN = 50.0

_FITTED_SPACES = ("local:granite-embedding-30m-english:",)
"""Beginnings of the ids of the embedders on whose similarities the constants were fitted."""

# From this rarity of its known words on, a part that found nothing counts in full: three words of a single chunk each.
_ASKING_RARITY = 3.0
# A hit this close below the threshold, in cosine, counts as nearly found.
_NEAR = 0.05

# Sums over many rows differ in their last digits from run to run; tables must be identical.
_DECIMALS = 6

_KEYS = ("window_id", "query_chunk_id")


def evaluate_retrieval(
    windows: pl.DataFrame,
    window_chunks: pl.DataFrame,
    decisions: pl.DataFrame,
    contexts: pl.DataFrame,
    *,
    terms_of: TermsOf,
    min_similarity: float,
    settings: RAGSettings,
    searchable: bool = True,
    embedder_id: str,
    known_languages: Collection[str] | None = None,
) -> pl.DataFrame:
    """Assess without labels how well the context of each window covers it.

    The parts of a window are its queries: by the plan its query chunks, the whole window, or both. A part that
    found something above the threshold counts as 1. A part that found nothing counts less, the fewer rare words it
    shares with the corpus, so that small talk does not lower the verdict. Similarities in a language that the
    embedder does not know mean nothing, so a window in such a language gets no verdict.

    Args:
        windows: Table ``windows``; every one gets a row.
        window_chunks: Table ``window_chunks``.
        decisions: Table ``decisions``.
        contexts: Table ``contexts``.
        terms_of: Gives the known words of texts, :meth:`backstory.index.search.SearchIndex.terms_of`.
        min_similarity: The threshold for the hits, a cosine.
        settings: The ``rag`` settings of the decisions.
        searchable: Whether the searched index holds any chunk.
        embedder_id: Name of the embedding space of the hits. Only those for which the constants were fitted give a
            confidence.
        known_languages: The ``languages`` of the embedder of the hits; None for all.

    Returns:
        One row per window, in the order of ``windows``: ``window_id``; ``language``, the main language of its query
        chunks, ISO 639-1, null if unclear; ``served_share``, the share of its parts
        for which a chunk was kept; ``term_coverage``, the share of its distinct words, weighted by rarity, that
        its context holds, where only words that occur in the corpus count; ``score_margin``, how far the best
        document shown for a part is above the threshold, in cosine, averaged over the parts, 0 for a part
        without one; ``confidence``, the estimated probability that at least half of its topics are
        covered; ``verdict``, ``sufficient`` from a confidence of 0.5 on; and ``recommendation``. A window
        without words of the corpus is ``sufficient`` with 0.5. If the corpus is empty, every window is ``insufficient``
        with 0. A window whose language the embedder does not know is ``unknown`` with a null confidence, and so is a
        window with a context if no confidence was fitted for the embedder. Without a context, such a window is
        ``insufficient`` with 0. If retrieval is switched off or the corpus is empty, none is ``unknown``.
        ``language_known`` says whether the embedder knows the language.
    """
    parts = _judge_parts(_list_parts(window_chunks, decisions), decisions, min_similarity)
    terms = _list_terms(window_chunks, contexts, terms_of)
    counted = parts.join(_weigh_terms(terms), on=_KEYS, how="left", maintain_order="left").with_columns(
        weight=pl.when(pl.col("found"))
        .then(1.0)
        .otherwise((pl.col("rarity").fill_null(0.0) / _ASKING_RARITY).clip(0, 1))
    )
    table = (
        windows.select("window_id")
        .join(_summarize(counted, min_similarity), on="window_id", how="left", maintain_order="left")
        .join(_cover_terms(terms), on="window_id", how="left", maintain_order="left")
        .with_columns(pl.selectors.numeric().fill_null(0))
        .with_columns(asks=pl.col("weight") >= 1)
        .join(
            _detect_languages(window_chunks, known_languages),
            on="window_id",
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("is_known").fill_null(value=True))
    )
    return _decide(table, min_similarity, settings, searchable=searchable, embedder_id=embedder_id)


def estimate_confidence(margin: pl.Expr, min_similarity: float) -> pl.Expr:
    """Return the probability that at least half of a window's topics are covered.

    Args:
        margin: The score margin, in cosine.
        min_similarity: The threshold; the margin is divided by its distance to 1.
    """
    return 1 / (1 + (-(INTERCEPT + PER_MARGIN * relative_margin(margin, min_similarity))).exp())


def relative_margin(margin: pl.Expr, min_similarity: float) -> pl.Expr:
    """Divide a margin by the distance of the threshold to 1, so that it is comparable between embedders."""
    return margin / max(1 - min_similarity, 1e-9)


def _detect_languages(window_chunks: pl.DataFrame, known: Collection[str] | None) -> pl.DataFrame:
    """Detect the language of each window from one granularity, which has all texts; say if the embedder knows it."""
    first = window_chunks.filter(pl.col("granularity") == pl.col("granularity").first().over("window_id"))
    found = detect_languages(first, by="window_id").select("window_id", "language")
    trusted = [is_known(language, known) for language in found["language"]]
    return found.with_columns(is_known=pl.Series(trusted, dtype=pl.Boolean))


def _list_parts(window_chunks: pl.DataFrame, decisions: pl.DataFrame) -> pl.DataFrame:
    """Return the queries of each window: its chunks, the whole window, or both."""
    queries = decisions.select(_KEYS).unique(maintain_order=True)
    whole = queries.filter(pl.col("query_chunk_id").str.ends_with(f"#{WHOLE_WINDOW}"))
    chunks = window_chunks.select("window_id", query_chunk_id="chunk_id")
    chunked = queries.join(chunks, on=_KEYS, how="semi").select("window_id").unique()
    only_whole = whole.join(chunked, on="window_id", how="anti")
    return pl.concat([chunks.join(only_whole, on="window_id", how="anti"), whole])


def _judge_parts(parts: pl.DataFrame, decisions: pl.DataFrame, min_similarity: float) -> pl.DataFrame:
    """Return for each part what it found, and which of it the context shows.

    Another chunk of a shown document counts, and so does a near-duplicate of a shown chunk.
    """
    kept = decisions.filter("kept")
    documents = kept.select("window_id", "document_id", by_document=pl.lit(value=True)).unique()
    chunks = kept.select("window_id", because_of="chunk_id", by_likeness=pl.lit(value=True)).unique()
    above = pl.col("cause") != "below_threshold"
    judged = (
        decisions.join(documents, on=["window_id", "document_id"], how="left")
        .join(chunks, on=["window_id", "because_of"], how="left")
        .with_columns(shown=pl.any_horizontal("by_document", "by_likeness").fill_null(value=False))
        .group_by(_KEYS)
        .agg(
            best=pl.col("similarity").max(),
            shown=pl.col("similarity").filter(above & pl.col("shown")).max(),
            served=pl.col("kept").any(),
            found=above.any(),
            over_budget=(pl.col("cause") == "over_budget").any(),
            no_place=(pl.col("cause") == "not_selected").any(),
        )
    )
    waiting = pl.col("shown").is_null()
    flags = pl.col("served", "found", "over_budget", "no_place").fill_null(value=False)
    joined = parts.join(judged, on=_KEYS, how="left", maintain_order="left").with_columns(flags)
    return joined.with_columns(
        hit=pl.col("best").is_not_null(),
        over_budget=waiting & pl.col("over_budget"),
        no_place=waiting & pl.col("no_place") & ~pl.col("over_budget"),
        near=pl.col("best").is_between(min_similarity - _NEAR, min_similarity, closed="left"),
    )


def _list_terms(window_chunks: pl.DataFrame, contexts: pl.DataFrame, terms_of: TermsOf) -> pl.DataFrame:
    """Return the known words of query chunks, each once per chunk, and whether the window's context holds them."""
    chunks = window_chunks.select("window_id", "chunk_id").with_row_index("text")
    terms = chunks.join(terms_of(window_chunks["text"].to_list()), on="text")
    windows = contexts.select("window_id").with_row_index("text")
    texts = contexts.select(pl.concat_str("title", "content", separator="\n")).to_series()
    shown = windows.join(terms_of(texts.to_list()), on="text").select(
        "window_id", "term", held=pl.lit(value=True)
    )
    return terms.join(shown.unique(), on=["window_id", "term"], how="left").with_columns(
        pl.col("held").fill_null(value=False)
    )


def _weigh_terms(terms: pl.DataFrame) -> pl.DataFrame:
    """Add up the rarity of the distinct words of each query chunk, and of each whole window."""
    whole = terms.unique(["window_id", "term"]).with_columns(
        chunk_id=pl.col("window_id") + f"#{WHOLE_WINDOW}"
    )
    return (
        pl.concat([terms, whole])
        .group_by("window_id", query_chunk_id="chunk_id")
        .agg(rarity=pl.col("rarity").sum())
    )


def _cover_terms(terms: pl.DataFrame) -> pl.DataFrame:
    distinct = terms.unique(["window_id", "term"])
    # All weights are 0 if every word occurs in every chunk.
    share = (pl.col("rarity").filter("held").sum() / pl.col("rarity").sum()).fill_nan(0)
    return distinct.sort("window_id", "term").group_by("window_id").agg(term_coverage=share)


def _summarize(parts: pl.DataFrame, min_similarity: float) -> pl.DataFrame:
    """Count the parts of each window, and average their margins: the actual and the best possible one."""
    weight = pl.when(pl.col("weight").sum() > 0).then(pl.col("weight").sum())
    missed = pl.col("hit") & ~pl.col("found")
    return parts.group_by("window_id").agg(
        pl.col("weight", "found", "hit", "no_place", "over_budget").sum(),
        parts=pl.len(),
        served_share=pl.col("served").mean(),
        score_margin=(pl.col("shown") - min_similarity).fill_null(0).sum() / weight,
        reach=(pl.col("best") - min_similarity).clip(0).fill_null(0).sum() / weight,
        best=pl.col("best").mean(),
        near=(missed & pl.col("near")).sum(),
        missed=missed.sum(),
    )


def _decide(
    table: pl.DataFrame, min_similarity: float, settings: RAGSettings, *, searchable: bool, embedder_id: str
) -> pl.DataFrame:
    is_fitted = embedder_id.startswith(_FITTED_SPACES)
    measured = estimate_confidence(pl.col("score_margin"), min_similarity)
    confidence = (
        pl.when(pl.lit(not (settings.enabled and searchable)))
        .then(0.0)
        .when(~pl.col("is_known"))
        .then(None)
        .when(~pl.col("asks"))
        .then(0.5)
        .when(pl.lit(is_fitted))
        .then(measured)
        .when(pl.col("served_share") == 0)
        .then(0.0)
    )
    attainable = (estimate_confidence(pl.col("reach"), min_similarity) >= 0.5) | pl.lit(not is_fitted)
    advice = (
        pl.when(pl.lit(not settings.enabled))
        .then(pl.lit("set rag.enabled: true, because retrieval is switched off"))
        .when(pl.lit(not searchable))
        .then(pl.lit("add documents: there is none to search"))
        .when(~pl.col("is_known"))
        .then(
            pl.format(
                "set embedding.model to multilingual, or embedding.provider to a service that knows {}: what this "
                "one finds similar says nothing about the window",
                english_name(pl.col("language")),
            )
        )
        .when(pl.col("confidence").is_null())
        .then(
            pl.lit(
                f"look at the documents: how similar they must be is not known for {embedder_id}, so that there is no "
                "verdict"
            )
        )
        .when(~pl.col("asks"))
        .then(pl.lit("nothing to do: the window has no words of the corpus"))
        .when(pl.col("confidence") >= 0.5)
        .then(pl.lit("nothing to do"))
        .when(pl.col("hit") == 0)
        .then(
            pl.lit(
                "add documents dated before the window, or widen rag.as_of and the filters: none may be given"
            )
        )
        .when(attainable & (pl.col("over_budget") > pl.col("no_place")))
        .then(
            pl.format(
                "raise context.max_tokens: {} of {} parts found documents that did not fit",
                "over_budget",
                "parts",
            )
        )
        .when(attainable & (pl.col("no_place") > 0))
        .then(
            pl.format(
                f"raise rag.top_k above {settings.top_k}: {{}} of {{}} parts found documents beyond this "
                "limit",
                "no_place",
                "parts",
            )
        )
        .when(2 * pl.col("near") > pl.col("parts"))
        .then(
            pl.format(
                f"lower rag.min_similarity: {{}} of {{}} parts came within {_NEAR} of {min_similarity:g}",
                "near",
                "parts",
            )
        )
        .when(pl.col("missed") > 0)
        .then(
            pl.format(
                f"add documents: {{}} of {{}} parts found nothing above {min_similarity:g}", "missed", "parts"
            )
        )
        .otherwise(
            pl.format(
                f"add documents: those found are barely above {min_similarity:g} (best of a part: {{}} on average)",
                pl.col("best").round(2),
            )
        )
    )
    return (
        table.with_columns(confidence=confidence)
        .with_columns(pl.col("confidence", "term_coverage", "score_margin").round(_DECIMALS))
        .with_columns(
            verdict=pl.when(pl.col("confidence").is_null())
            .then(pl.lit("unknown"))
            .when(pl.col("confidence") >= 0.5)
            .then(pl.lit("sufficient"))
            .otherwise(pl.lit("insufficient")),
            recommendation=advice,
        )
        .select(
            "window_id",
            "language",
            "served_share",
            "term_coverage",
            "score_margin",
            "verdict",
            "confidence",
            "recommendation",
            language_known="is_known",
        )
    )
