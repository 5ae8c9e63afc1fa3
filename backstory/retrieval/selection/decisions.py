"""Hits -> decisions: every hit is kept, or dropped with its cause."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.models.reranking import Reranking, Shortlist
from backstory.retrieval.selection.rerank_selection import Order, keep_order, order_judged
from backstory.retrieval.selection.strategies import STRATEGIES, VectorSources, WindowMatrix
from backstory.settings.models import RAGSettings
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import conform

_VERDICTS = {
    "window_id": pl.String,
    "chunk_id": pl.String,
    "verdict": pl.String,
    "gave_way_to": pl.String,
    "rank_in_context": pl.Int64,
}

_NOTHING_SHOWN: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})

_LEAST_PROBABILITY: Final = 0.02
"""A hit with a lower probability is noise: it could only fill a place."""
_LEAST_OF_SINGLE: Final = 0.05
"""The same for the hits of parts that are one short message, of which many ask for nothing."""
_PROBABILITY_EXPONENT: Final = 0.4
"""The probability of a hit of such a part, to this power, weighs its evidence; .3 to .7 serve about as well."""
_FEW_PARTS: Final = 10
_LEAST_OF_FEW: Final = 0.1
"""The same for the hits of fewer parts that are longer, whose neighbours say nothing."""

EntryTokens = Callable[[Sequence[str]], NDArray[np.int64]]


@dataclass(frozen=True)
class _Selection:
    """The strategy's choice for one window.

    Attributes:
        chunk_ids: All candidates, best score first.
        duplicate_of: The better candidate that each near-duplicate repeats.
        chosen: The chosen candidates, in the order of the strategy, with the queries that found them.
    """

    chunk_ids: list[str]
    duplicate_of: dict[str, str]
    chosen: Shortlist


def select_hits(
    hits: pl.DataFrame,
    settings: RAGSettings,
    *,
    temperature: float,
    vectors: VectorSources,
    texts: Mapping[str, str],
    entry_tokens: EntryTokens,
    max_tokens: int,
    named: pl.Series | None = None,
    reranking: Reranking | None = None,
    shown: Mapping[str, Sequence[str]] = _NOTHING_SHOWN,
) -> pl.DataFrame:
    """Judge the hits of any number of windows.

    The steps are: threshold, at most ``dedup_max_per_doc`` chunks per document, near-duplicates, selection of
    ``top_k`` chunks by the strategy, token budget. With a reranker, the strategy selects the reranker's candidates, and
    ``top_k`` of them are selected by the judgements. The reranker sees what passes the threshold, and may reject more.

    Args:
        hits: Table ``hits``; the ``probability`` of each hit that the chunk tells something about the part; the
            ``prior`` of its document, a factor; ``is_single``, whether the part is one short message; and the
            ``place`` of its document, by which chunks of one score are ordered.
        settings: The ``rag`` settings. A stated ``min_similarity`` drops hits with a lower cosine, too.
        temperature: Difference in score that changes the evidence by the factor e.
        vectors: Gives the vectors of query chunks and of stored chunks.
        texts: The text of each stored chunk, by its id.
        entry_tokens: Gives the tokens that each stored chunk takes in the text of a context.
        max_tokens: Token budget of one context.
        named: Whether the query chunk of each hit names the title of the document; None if none does.
        reranking: Has the candidates judged; None keeps the order of the strategy.
        shown: Chunks that the context of a window holds already; hits that nearly repeat one are dropped.

    Returns:
        Table ``decisions``, one row per hit, in the order of ``hits``.

    Raises:
        ModelError: The reranker could not be used.
    """
    judged = hits.with_columns(
        passed=_passes(settings), named=pl.lit(value=False) if named is None else named
    )
    deduplicated = _drop_duplicates(judged.filter("passed"), settings)
    count = max(settings.top_k, reranking.settings.candidates if reranking else 0)
    # A query chunk that found another chunk of a document counts as having found the chunk that stands for it.
    standing = pl.coalesce("duplicate_of", "chunk_id").alias("chunk_id")
    columns = deduplicated.select(
        "window_id", "query_chunk_id", standing, "score", "named", "prior", "place", _weigh_hit()
    )
    windows = columns.partition_by("window_id", maintain_order=True, as_dict=True)
    selections = {
        str(window_id): _select(
            _as_matrix(group, temperature), settings, count, vectors, texts, shown.get(str(window_id), ())
        )
        for (window_id,), group in windows.items()
    }
    chosen = {window_id: selection.chosen for window_id, selection in selections.items()}
    judgements = reranking.judge(chosen) if reranking else {}
    orders = {
        window_id: order_judged(judgements[window_id], listed, settings.top_k, vectors)
        if window_id in judgements
        else keep_order(listed)
        for window_id, listed in chosen.items()
    }
    verdict = pl.DataFrame(
        [
            row
            for window_id, selection in selections.items()
            for row in _judge_window(
                window_id, selection, orders[window_id], settings.top_k, entry_tokens, max_tokens
            )
        ],
        schema=_VERDICTS,
        orient="row",
    )
    notes = pl.DataFrame(
        [
            (window_id, result.note, reranking.list_uncovered(result) if reranking else None)
            for window_id, result in judgements.items()
        ],
        schema={"window_id": pl.String, "rerank_note": pl.String, "uncovered_topics": pl.List(pl.String)},
        orient="row",
    )
    keys = ["window_id", "query_chunk_id", "chunk_id"]
    table = (
        judged.join(deduplicated.select(*keys, "duplicate_of"), on=keys, how="left", maintain_order="left")
        .join(verdict, on=["window_id", "chunk_id"], how="left", maintain_order="left")
        .with_columns(
            cause=pl.when(~pl.col("passed"))
            .then(pl.lit("below_threshold"))
            .when(pl.col("duplicate_of").is_not_null())
            .then(pl.lit("duplicate_document"))
            .otherwise(pl.col("verdict")),
            because_of=pl.when(pl.col("passed")).then(pl.coalesce("duplicate_of", "gave_way_to")),
        )
        .with_columns(kept=pl.col("cause") == "kept")
        .with_columns(rank=pl.when("kept").then("rank_in_context"))
        .join(notes, on="window_id", how="left", maintain_order="left")
    )
    return conform(table, schemas.Decisions)


def _passes(settings: RAGSettings) -> pl.Expr:
    """Return whether each hit is evidence of anything."""
    parts = pl.col("query_chunk_id").n_unique().over("window_id")
    least = (
        pl.when("is_single")
        .then(_LEAST_OF_SINGLE)
        .when(parts < _FEW_PARTS)
        .then(_LEAST_OF_FEW)
        .otherwise(_LEAST_PROBABILITY)
    )
    is_evidence = pl.col("probability") >= least
    if settings.min_similarity is None:
        return is_evidence
    return is_evidence & (pl.col("similarity") >= settings.min_similarity)


def _weigh_hit() -> pl.Expr:
    """Return the factor of the evidence of each hit: that of a short message counts as far as it is probable."""
    weight = pl.col("probability").pow(_PROBABILITY_EXPONENT)
    return pl.when("is_single").then(weight).otherwise(1.0).alias("weight")


def _drop_duplicates(hits: pl.DataFrame, settings: RAGSettings) -> pl.DataFrame:
    if settings.dedup_strategy == "none":
        return hits.with_columns(duplicate_of=pl.lit(None, dtype=pl.String))
    order = ["window_id", "document_id", "best", "chunk_id"]
    chunks = (
        hits.group_by("window_id", "document_id", "chunk_id")
        .agg(best=pl.col("score").max())
        .sort(order, descending=[False, False, True, False])
        .with_columns(
            place=pl.int_range(pl.len()).over("window_id", "document_id"),
            first=pl.col("chunk_id").first().over("window_id", "document_id"),
        )
        .with_columns(duplicate_of=pl.when(pl.col("place") >= settings.dedup_max_per_doc).then("first"))
    )
    return hits.join(
        chunks.select("window_id", "chunk_id", "duplicate_of"),
        on=["window_id", "chunk_id"],
        how="left",
        maintain_order="left",
    )


def list_kept(decisions: pl.DataFrame) -> dict[str, list[str]]:
    """List the kept chunks of each window, by its id."""
    kept = decisions.filter("kept").select("window_id", "chunk_id").unique(maintain_order=True)
    return dict(kept.group_by("window_id", maintain_order=True).agg("chunk_id").iter_rows())


def append_decisions(hits: pl.DataFrame, first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Append the decisions on some hits to those on the others, with the ranks after theirs.

    Args:
        hits: Table ``hits``, with the hits of both.
        first: Table ``decisions``.
        second: Table ``decisions`` of the other hits, judged without a reranker.

    Returns:
        Table ``decisions``, in the order of ``hits``. All rows of a window repeat what the reranker reported about it.
    """
    before = {window_id: len(kept) for window_id, kept in list_kept(first).items()}
    places = pl.col("window_id").replace_strict(before, default=0, return_dtype=pl.Int64)
    notes = first.group_by("window_id").agg(pl.col("rerank_note", "uncovered_topics").first())
    later = (
        second.with_columns(rank=pl.col("rank") + places)
        .drop("rerank_note", "uncovered_topics")
        .join(notes, on="window_id", how="left", maintain_order="left")
    )
    keys = ["query_chunk_id", "chunk_id"]
    together = pl.concat([first, later.select(first.columns)])
    table = hits.select(keys).join(together, on=keys, how="left", maintain_order="left")
    return conform(table, schemas.Decisions)


def _select(
    window: WindowMatrix,
    settings: RAGSettings,
    count: int,
    vectors: VectorSources,
    texts: Mapping[str, str],
    shown: Sequence[str],
) -> _Selection:
    repeated = _find_repeated(window, settings, vectors, shown)
    near_duplicate_of = _near_duplicates(window, settings, vectors, texts, repeated)
    for dropped in np.flatnonzero(near_duplicate_of >= 0):
        # A query chunk that found a near-duplicate counts as having found the better chunk.
        better = near_duplicate_of[dropped]
        window.scores[:, better] = np.maximum(window.scores[:, better], window.scores[:, dropped])
        window.named[:, better] |= window.named[:, dropped]
        window.weights[:, better] = np.maximum(window.weights[:, better], window.weights[:, dropped])
    candidates = np.array(
        [i for i in np.flatnonzero(near_duplicate_of < 0) if window.chunk_ids[i] not in repeated], np.int64
    )
    most = min(count, len(candidates))
    chosen = candidates
    if most:
        chosen = candidates[STRATEGIES[settings.strategy](window, candidates, settings, most, vectors)]
    return _Selection(
        window.chunk_ids,
        {
            window.chunk_ids[i]: window.chunk_ids[near_duplicate_of[i]]
            for i in np.flatnonzero(near_duplicate_of >= 0)
        }
        | repeated,
        _list_candidates(window, chosen),
    )


def _list_candidates(window: WindowMatrix, chosen: NDArray[np.int64]) -> Shortlist:
    """Return the chosen candidates of a window, with those of its queries that found one of them."""
    scores = window.scores[:, chosen]
    asking = np.flatnonzero(np.isfinite(scores).any(axis=1))
    return Shortlist(
        [window.query_ids[i] for i in asking], [window.chunk_ids[i] for i in chosen], scores[asking]
    )


def _judge_window(
    window_id: str,
    selection: _Selection,
    order: Order,
    top_k: int,
    entry_tokens: EntryTokens,
    max_tokens: int,
) -> list[tuple[str, str, str, str | None, int | None]]:
    """Return a row of ``_VERDICTS`` for each candidate of one window."""
    first = order.chunk_ids[:top_k]
    within = np.cumsum(entry_tokens(first)) <= max_tokens
    kept = [chunk_id for chunk_id, fits in zip(first, within, strict=True) if fits]
    verdicts: dict[str, tuple[str, str | None, int | None]] = {
        **dict.fromkeys(selection.chunk_ids, ("not_selected", None, None)),
        **dict.fromkeys(order.rejected, ("below_rating", None, None)),
        **dict.fromkeys(first, ("over_budget", None, None)),
        **{chunk_id: ("kept", None, rank) for rank, chunk_id in enumerate(kept, start=1)},
        **{dropped: ("near_duplicate", better, None) for dropped, better in selection.duplicate_of.items()},
    }
    return [(window_id, chunk_id, *verdict) for chunk_id, verdict in verdicts.items()]


def _as_matrix(group: pl.DataFrame, temperature: float) -> WindowMatrix:
    found = list(
        zip(*(group[name].to_list() for name in ("query_chunk_id", "chunk_id", "score")), strict=True)
    )
    best: dict[str, float] = {}
    for _, chunk_id, score in found:
        best[chunk_id] = max(score, best.get(chunk_id, score))
    place = dict(group.select("chunk_id", "place").iter_rows())
    chunk_ids = sorted(best, key=lambda chunk_id: (-best[chunk_id], place[chunk_id], chunk_id))
    columns = {chunk_id: column for column, chunk_id in enumerate(chunk_ids)}
    rows: dict[str, int] = {}
    places = [(rows.setdefault(query_id, len(rows)), columns[chunk_id]) for query_id, chunk_id, _ in found]
    scores = np.full((len(rows), len(chunk_ids)), -np.inf)
    named = np.zeros(scores.shape, dtype=bool)
    cells = tuple(np.array(places).T)
    np.maximum.at(scores, cells, [score for _, _, score in found])
    np.logical_or.at(named, cells, group["named"].to_numpy())
    weights = np.zeros(scores.shape)
    np.maximum.at(weights, cells, group["weight"].to_numpy())
    prior = np.zeros(len(chunk_ids))
    np.maximum.at(prior, cells[1], group["prior"].to_numpy())
    return WindowMatrix(list(rows), chunk_ids, scores, named, weights, prior, temperature)


def _near_duplicates(
    window: WindowMatrix,
    settings: RAGSettings,
    vectors: VectorSources,
    texts: Mapping[str, str],
    repeated: Collection[str],
) -> NDArray[np.int64]:
    """Return the position of the better candidate that each candidate nearly repeats, or -1.

    Chunks of one text are duplicates under any setting, whatever their documents are called. A candidate that is
    dropped because the context holds the like already gives way to none, and none to it.
    """
    duplicate_of = np.full(len(window.chunk_ids), -1, dtype=np.int64)
    words = [" ".join(texts[chunk_id].split()) for chunk_id in window.chunk_ids]
    _, same = np.unique(words, return_inverse=True)
    alike = same[:, None] == same
    if settings.near_duplicate_similarity is not None:
        found = vectors.of_chunks(window.chunk_ids)
        alike |= found @ found.T >= settings.near_duplicate_similarity
    stays = np.array([chunk_id not in repeated for chunk_id in window.chunk_ids])
    alike &= stays[:, None] & stays
    for i in range(1, len(window.chunk_ids)):
        earlier = np.flatnonzero(alike[i, :i] & (duplicate_of[:i] < 0))
        if earlier.size:
            duplicate_of[i] = earlier[0]
    return duplicate_of


def _find_repeated(
    window: WindowMatrix, settings: RAGSettings, vectors: VectorSources, shown: Sequence[str]
) -> dict[str, str]:
    """Return the shown chunk that each candidate nearly repeats."""
    if settings.near_duplicate_similarity is None or not shown:
        return {}
    alike = vectors.of_chunks(window.chunk_ids) @ vectors.of_chunks(shown).T
    best = alike.argmax(axis=1)
    near = np.flatnonzero(alike.max(axis=1) >= settings.near_duplicate_similarity)
    return {window.chunk_ids[i]: shown[best[i]] for i in near}
