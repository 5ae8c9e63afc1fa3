"""What of a window its context serves, what lies beyond its limits, and what nothing in the index serves."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from backstory.base.ids import WHOLE_WINDOW
from backstory.base.wording import count
from backstory.retrieval.evidence.asking_parts import find_small_talk_parts
from backstory.retrieval.evidence.pair_model import MAY_SERVE, SERVES, is_served_by_chosen
from backstory.settings.models import RAGSettings
from backstory.text.languages import detect_languages, english_name, is_known

PART_STATES = ("served", "beyond_limit", "unsure", "uncovered", "not_asked")
"""States of a part: a document of the context serves it; only one beyond the limits does; whether one does is unsure;
nothing does; small talk."""

_CALIBRATED_SPACES = ("local:granite-embedding-30m-english:",)
"""Beginnings of the ids of the embedders with which the model of pairs was measured."""

_TOLERATED = 0.1
"""A context suffices if at most so much of the window, by messages, has no document. It is insufficient if it serves
nothing; or a few parts by chance (:data:`_BY_CHANCE`, :data:`_SHARE_BY_CHANCE`), if these are at most so much of the
window, and the expected share is at most :data:`_LEAST_EXPECTED`."""

_BY_CHANCE, _SHARE_BY_CHANCE = 3, 0.02
"""Documents that have nothing to do with a window serve at most so many of its parts, or this share of a long one's."""

_LEAST_EXPECTED = 0.2
"""Of 40 windows of mtrag with the documents of rustblog, 95 % expect at most this share, and 75 % at most 0.1."""

# Sums over many rows differ in their last digits from run to run; tables must be identical.
_DECIMALS = 6

_KEYS = ("window_id", "query_chunk_id")


def judge_parts(window_chunks: pl.DataFrame, decisions: pl.DataFrame) -> pl.DataFrame:
    """Judge each part of windows: what serves it, by the probabilities of all of its hits.

    The parts of a window are its queries: its query chunks, or the whole window. A document of the context serves a
    part by whichever of its chunks the part found, not only by the chunk that is shown. A near-duplicate of a shown
    chunk counts as the shown chunk. Small talk asks for nothing.

    Args:
        window_chunks: Table ``window_chunks``.
        decisions: Table ``decisions`` of the same windows.

    Returns:
        One row per part, in the order of ``window_chunks``: ``window_id``; ``query_chunk_id``; ``weight``, its number
        of messages; ``state``, one of :data:`PART_STATES`; ``probability``, that the chunk which serves it best tells
        something about it (of the context, if that serves it; otherwise of all hits), 0 without a hit; ``chunk_id`` and
        ``document_id`` of the chunk that serves it, or may serve it if that is unsure, else null; ``documents``, all
        documents of the context that serve it; ``over_budget`` and ``below_cosine``, whether the best document beyond
        the limits did not fit the token budget, or is below a stated ``rag.min_similarity``; and ``has_hits`` and
        ``is_shown``, whether the part found anything, and anything that the context shows. ``shown_probability`` is
        that of the best hit of the context.
    """
    parts = _list_parts(window_chunks, decisions)
    kept = decisions.filter("kept")
    documents = kept.select("window_id", "document_id", by_document=pl.lit(value=True)).unique()
    likeness = kept.select("window_id", because_of="chunk_id", by_likeness="document_id").unique(
        ["window_id", "because_of"]
    )
    hits = (
        decisions.with_columns(serves_if_chosen=is_served_by_chosen())
        .join(documents, on=["window_id", "document_id"], how="left")
        .join(likeness, on=["window_id", "because_of"], how="left")
        .with_columns(
            shown=pl.col("by_document").fill_null(value=False) | pl.col("by_likeness").is_not_null(),
            document_id=pl.when(pl.col("by_document").is_null())
            .then(pl.coalesce("by_likeness", "document_id"))
            .otherwise("document_id"),
        )
        .sort(
            [*_KEYS, "shown", "probability", "chunk_id"],
            descending=[False, False, True, True, False],
        )
    )
    serves = pl.when("shown").then("serves_if_chosen").otherwise(pl.col("probability") >= SERVES)
    may_serve = pl.col("probability") >= MAY_SERVE
    best = hits.group_by(_KEYS).agg(
        shown=pl.col("probability").filter("shown").max(),
        most=pl.col("probability").max(),
        shown_chunk=pl.col("chunk_id").filter(serves & pl.col("shown")).first(),
        shown_document=pl.col("document_id").filter(serves & pl.col("shown")).first(),
        other_chunk=pl.col("chunk_id").filter(serves & ~pl.col("shown")).first(),
        other_document=pl.col("document_id").filter(serves & ~pl.col("shown")).first(),
        other_cause=pl.col("cause").filter(serves & ~pl.col("shown")).first(),
        likely_chunk=pl.col("chunk_id").filter(may_serve).first(),
        likely_document=pl.col("document_id").filter(may_serve).first(),
        documents=pl.col("document_id").filter(serves & pl.col("shown")).unique(maintain_order=True),
    )
    is_served, is_beyond = pl.col("shown_chunk").is_not_null(), pl.col("other_chunk").is_not_null()
    asks = ~pl.col("small_talk")
    return parts.join(best, on=_KEYS, how="left", maintain_order="left").select(
        *_KEYS,
        "weight",
        state=pl.when(~asks)
        .then(pl.lit("not_asked"))
        .when(is_served)
        .then(pl.lit("served"))
        .when(is_beyond)
        .then(pl.lit("beyond_limit"))
        .when(pl.col("likely_chunk").is_not_null())
        .then(pl.lit("unsure"))
        .otherwise(pl.lit("uncovered")),
        probability=pl.when(is_served).then("shown").otherwise("most").fill_null(0.0),
        shown_probability=pl.col("shown").fill_null(0.0),
        chunk_id=pl.when(asks).then(pl.coalesce("shown_chunk", "other_chunk", "likely_chunk")),
        document_id=pl.when(asks).then(pl.coalesce("shown_document", "other_document", "likely_document")),
        documents=pl.when(asks).then("documents").fill_null([]),
        over_budget=(pl.col("other_cause") == "over_budget").fill_null(value=False),
        below_cosine=(pl.col("other_cause") == "below_threshold").fill_null(value=False),
        has_hits=pl.col("most").is_not_null(),
        is_shown=pl.col("shown").is_not_null(),
    )


def evaluate_retrieval(
    windows: pl.DataFrame,
    window_chunks: pl.DataFrame,
    parts: pl.DataFrame,
    *,
    settings: RAGSettings,
    searchable: bool = True,
    embedder_id: str,
    known_languages: Collection[str] | None = None,
) -> pl.DataFrame:
    """Assess without labels how well the context of each window serves it.

    Only parts that ask for something count, each by its number of messages.

    Args:
        windows: Table ``windows``; every one gets a row.
        window_chunks: Table ``window_chunks``.
        parts: From :func:`judge_parts`.
        settings: The ``rag`` settings of the decisions.
        searchable: Whether the searched index holds any chunk.
        embedder_id: Name of the embedding space of the hits.
        known_languages: The ``languages`` of the embedder of the hits; None for all.

    Returns:
        One row per window, in the order of ``windows``: ``window_id``; ``language``, the main language of its query
        chunks, ISO 639-1, null if unclear; ``language_known``, whether the embedder knows it; ``part_count``, the parts
        that ask for something; ``served_count``, ``beyond_limit_count``, ``unsure_count`` and ``uncovered_count``, the
        parts in each state; ``served_share``, the share of the parts by messages that a document of the context serves;
        ``confidence``, the expected value of this share by the probabilities of the parts, null for ``not_known`` and
        ``nothing_asked``;
        ``verdict``; and ``recommendation``, which begins with the counts.

        The verdict is ``sufficient`` if documents of the context serve at least nine tenths of the window,
        ``insufficient`` if they serve nothing, or no more than chance does (three parts, or one in fifty of more, in at
        most one tenth of the window with at most one fifth expected), else ``partial``.
        It is ``nothing_asked`` if no part asks for anything, and ``not_known`` if the embedder does not know the
        language, or was not measured and the context shows anything.
    """
    asked = parts.filter(pl.col("state") != "not_asked")
    states = [(pl.col("state") == state).sum().alias(f"{state}_count") for state in PART_STATES[:4]]
    weight = pl.col("weight")
    counts = asked.group_by("window_id").agg(
        *states,
        part_count=pl.len(),
        served_share=weight.filter(pl.col("state") == "served").sum() / weight.sum(),
        confidence=(weight * pl.col("shown_probability")).sum() / weight.sum(),
        found_count=pl.col("has_hits").sum(),
        shown_count=pl.col("is_shown").sum(),
        over_budget_parts=((pl.col("state") == "beyond_limit") & pl.col("over_budget")).sum(),
        below_cosine_parts=((pl.col("state") == "beyond_limit") & pl.col("below_cosine")).sum(),
    )
    table = (
        windows.select("window_id")
        .join(counts, on="window_id", how="left", maintain_order="left")
        .with_columns(pl.selectors.numeric().fill_null(0))
        .join(
            _detect_languages(window_chunks, known_languages),
            on="window_id",
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("is_known").fill_null(value=True))
    )
    return _decide(
        table,
        settings,
        searchable=searchable,
        is_calibrated=embedder_id.startswith(_CALIBRATED_SPACES),
        embedder_id=embedder_id,
    )


def _detect_languages(window_chunks: pl.DataFrame, known: Collection[str] | None) -> pl.DataFrame:
    """Detect the language of each window from one granularity, which has all texts; say if the embedder knows it."""
    first = window_chunks.filter(pl.col("granularity") == pl.col("granularity").first().over("window_id"))
    found = detect_languages(first, by="window_id").select("window_id", "language")
    trusted = [is_known(language, known) for language in found["language"]]
    return found.with_columns(is_known=pl.Series(trusted, dtype=pl.Boolean))


def _list_parts(window_chunks: pl.DataFrame, decisions: pl.DataFrame) -> pl.DataFrame:
    """Return the queries of each window, with their messages and whether they are small talk."""
    queries = decisions.select(_KEYS).unique(maintain_order=True)
    whole = queries.filter(pl.col("query_chunk_id").str.ends_with(f"#{WHOLE_WINDOW}"))
    chunks = window_chunks.select(
        "window_id",
        query_chunk_id="chunk_id",
        weight=pl.col("last_message") - pl.col("first_message") + 1,
        small_talk=pl.Series(find_small_talk_parts(window_chunks["text"].to_list()), dtype=pl.Boolean),
    )
    chunked = queries.join(chunks, on=_KEYS, how="semi").select("window_id").unique()
    only_whole = whole.join(chunked, on="window_id", how="anti")
    apart = chunks.join(only_whole, on="window_id", how="anti", maintain_order="left")
    together = chunks.group_by("window_id").agg(pl.col("weight").sum(), pl.col("small_talk").all())
    joined = only_whole.join(together, on="window_id", how="left", maintain_order="left")
    return pl.concat([apart, joined.select(apart.columns)])


def _decide(
    table: pl.DataFrame, settings: RAGSettings, *, searchable: bool, is_calibrated: bool, embedder_id: str
) -> pl.DataFrame:
    can_search = settings.enabled and searchable
    verdict = (
        pl.when(pl.col("part_count") == 0)
        .then(pl.lit("nothing_asked"))
        .when(pl.lit(not can_search))
        .then(pl.lit("insufficient"))
        .when(~pl.col("is_known") | (pl.lit(not is_calibrated) & (pl.col("shown_count") > 0)))
        .then(pl.lit("not_known"))
        .when(pl.col("served_share") >= 1 - _TOLERATED)
        .then(pl.lit("sufficient"))
        .when(
            (pl.col("served_count") == 0)
            | (
                (
                    pl.col("served_count")
                    <= pl.max_horizontal(_BY_CHANCE, _SHARE_BY_CHANCE * pl.col("part_count"))
                )
                & (pl.col("served_share") <= _TOLERATED)
                & (pl.col("confidence") <= _LEAST_EXPECTED)
            )
        )
        .then(pl.lit("insufficient"))
        .otherwise(pl.lit("partial"))
    )
    advice = [
        _recommend(row, settings, searchable=searchable, is_calibrated=is_calibrated, embedder_id=embedder_id)
        for row in table.with_columns(name=english_name(pl.col("language"))).iter_rows(named=True)
    ]
    return (
        table.with_columns(verdict=verdict)
        .with_columns(
            pl.col("served_share").round(_DECIMALS),
            confidence=pl.when(~pl.col("verdict").is_in(["not_known", "nothing_asked"])).then(
                pl.col("confidence").round(_DECIMALS)
            ),
            recommendation=pl.Series(advice, dtype=pl.String),
        )
        .select(
            "window_id",
            "language",
            "part_count",
            "served_count",
            "beyond_limit_count",
            "unsure_count",
            "uncovered_count",
            "served_share",
            "confidence",
            "verdict",
            "recommendation",
            language_known="is_known",
        )
    )


def _recommend(
    row: dict[str, object],
    settings: RAGSettings,
    *,
    searchable: bool,
    is_calibrated: bool,
    embedder_id: str,
) -> str:
    """Say what was found for the parts of a window, and what to do about the others."""
    parts, served, beyond, unsure, uncovered = (
        int(str(row[name]))
        for name in ("part_count", "served_count", "beyond_limit_count", "unsure_count", "uncovered_count")
    )
    if not settings.enabled:
        return "set rag.enabled: true, because retrieval is switched off"
    if not searchable:
        return "add documents: there is none to search"
    if not parts:
        return "nothing to do: the window asks for nothing"
    if not row["is_known"]:
        return (
            f"set embedding.model to multilingual, or embedding.provider to a service that knows {row['name']}: what "
            "this one finds similar says nothing about the window"
        )
    told = [f"{served} of {count(parts, 'part')} served"]
    over_budget = int(str(row["over_budget_parts"]))
    if not is_calibrated:
        told.append(f"look at the documents: the probabilities were not measured with {embedder_id}")
    if over_budget:
        told.append(f"raise context.max_tokens: documents for {count(over_budget, 'more part')} did not fit")
    below_cosine = int(str(row["below_cosine_parts"]))
    if below_cosine:
        told.append(f"lower rag.min_similarity: documents below it serve {count(below_cosine, 'more part')}")
    if (further := beyond - over_budget - below_cosine) > 0:
        told.append(
            f"raise rag.top_k above {settings.top_k}: documents beyond this limit serve "
            f"{count(further, 'more part')}"
        )
    if not row["found_count"]:
        told.append(
            "add documents dated before the window, or widen rag.as_of and the filters: none may be given"
        )
    else:
        if unsure:
            told.append(f"look at the documents found: they may serve {count(unsure, 'more part')}")
        if uncovered:
            told.append(f"add documents: nothing in the index serves {count(uncovered, 'part')}")
    if len(told) == 1:
        told.append("nothing to do")
    return "; ".join(told)
