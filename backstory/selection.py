"""From hits to decisions: every hit is kept, or dropped with its cause."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory import schemas
from backstory.embedders.protocol import Vectors
from backstory.settings import RAGSettings

logger = logging.getLogger(__name__)

# Measured on the labelled sets, see docs/quality.md. The temperature is in units of cosine.
_TEMPERATURE = 0.04
_NORMALIZED = 0.8
_RESEMBLANCE_EXPONENT = 0.6
_LARGEST_EXPONENT = 500.0

_VERDICTS = {
    "window_id": pl.String,
    "chunk_id": pl.String,
    "verdict": pl.String,
    "gave_way_to": pl.String,
    "rank_in_context": pl.Int64,
}

ChunkVectors = Callable[[Sequence[str]], Vectors]
EntryTokens = Callable[[Sequence[str]], NDArray[np.int64]]


def deduplicate_by_document(results: Iterable[Mapping[str, Any]], n: int = 1) -> list[dict[str, Any]]:
    """Keep the ``n`` best results of each document.

    Args:
        results: Results with ``document_id`` and ``similarity``; a missing similarity counts as 0, a result
            without a document is dropped.
        n: Number of results to keep per document.

    Returns:
        Copies of the kept results: documents in the order of their first appearance, the results of each by
        falling similarity, equal ones in the order given.

    Raises:
        ValueError: ``n`` is below 1.
    """
    if n < 1:
        raise ValueError(f"n is {n}; keep at least 1 result per document")
    by_document: dict[Any, list[dict[str, Any]]] = {}
    count = 0
    for result in results:
        count += 1
        if result.get("document_id"):
            by_document.setdefault(result["document_id"], []).append(dict(result))
    kept = [
        result
        for group in by_document.values()
        for result in sorted(group, key=lambda row: -float(row.get("similarity") or 0.0))[:n]
    ]
    logger.debug("deduplicated results=%d kept=%d documents=%d n=%d", count, len(kept), len(by_document), n)
    return kept


@dataclass(frozen=True)
class _Window:
    """The hits of one window that passed threshold and dedup, as a matrix.

    Attributes:
        chunk_ids: Candidates, best score first, ties by id.
        scores: Score of each candidate for each query chunk, shape ``(queries, candidates)``; -inf where the
            query chunk did not find the candidate.
    """

    chunk_ids: list[str]
    scores: NDArray[np.float64]

    @property
    def best(self) -> NDArray[np.float64]:
        best: NDArray[np.float64] = self.scores.max(axis=0)
        return best


def judge_hits(
    hits: pl.DataFrame,
    settings: RAGSettings,
    *,
    min_similarity: float,
    chunk_vectors: ChunkVectors,
    entry_tokens: EntryTokens,
    max_tokens: int,
) -> pl.DataFrame:
    """Judge the hits of any number of windows.

    The order is: threshold, at most ``dedup_max_per_doc`` chunks per document, near-duplicates, selection of
    ``top_k`` chunks by the strategy, token budget.

    Args:
        hits: Table ``hits``.
        settings: The ``rag`` settings.
        min_similarity: Cosine below which a hit is no evidence.
        chunk_vectors: Gives the unit vectors of stored chunks, shape ``(len(ids), dimension)``.
        entry_tokens: Gives the tokens that each stored chunk takes in the text of a context.
        max_tokens: Token budget of one context.

    Returns:
        Table ``decisions``, one row per hit, in the order of ``hits``.
    """
    judged = hits.with_columns(passed=pl.col("similarity") >= min_similarity)
    deduplicated = _drop_duplicates(judged.filter("passed"), settings)
    survivors = deduplicated.filter(pl.col("duplicate_of").is_null())
    columns = survivors.select("window_id", "query_chunk_id", "chunk_id", "score")
    windows = columns.partition_by("window_id", maintain_order=True, as_dict=True)
    verdicts = [
        verdict
        for (window_id,), group in windows.items()
        for verdict in _judge_window(window_id, group, settings, chunk_vectors, entry_tokens, max_tokens)
    ]
    verdict = pl.DataFrame(verdicts, schema=_VERDICTS, orient="row")
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
    )
    return schemas.conform(table, schemas.Decisions)


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


def _judge_window(
    window_id: object,
    group: pl.DataFrame,
    settings: RAGSettings,
    chunk_vectors: ChunkVectors,
    entry_tokens: EntryTokens,
    max_tokens: int,
) -> list[tuple[object, ...]]:
    window = _as_matrix(group)
    near_duplicate_of = _near_duplicates(window, settings, chunk_vectors)
    for dropped in np.flatnonzero(near_duplicate_of >= 0):
        # What asked for a near-duplicate asked for the chunk that stands for it.
        better = near_duplicate_of[dropped]
        window.scores[:, better] = np.maximum(window.scores[:, better], window.scores[:, dropped])
    candidates = np.flatnonzero(near_duplicate_of < 0)
    chosen = candidates[_STRATEGIES[settings.strategy](window, candidates, settings, chunk_vectors)]
    costs = entry_tokens([window.chunk_ids[i] for i in chosen])
    within = np.cumsum(costs) <= max_tokens
    kept = chosen[within]
    rows: list[tuple[object, ...]] = []
    for i, chunk_id in enumerate(window.chunk_ids):
        verdict, gave_way_to, rank = "not_selected", None, None
        if near_duplicate_of[i] >= 0:
            verdict, gave_way_to = "near_duplicate", window.chunk_ids[near_duplicate_of[i]]
        elif i in kept:
            verdict, rank = "kept", int(np.flatnonzero(kept == i)[0]) + 1
        elif i in chosen:
            verdict = "over_budget"
        rows.append((window_id, chunk_id, verdict, gave_way_to, rank))
    return rows


def _as_matrix(group: pl.DataFrame) -> _Window:
    found = list(
        zip(*(group[name].to_list() for name in ("query_chunk_id", "chunk_id", "score")), strict=True)
    )
    best: dict[str, float] = {}
    for _, chunk_id, score in found:
        best[chunk_id] = max(score, best.get(chunk_id, score))
    chunk_ids = sorted(best, key=lambda chunk_id: (-best[chunk_id], chunk_id))
    columns = {chunk_id: column for column, chunk_id in enumerate(chunk_ids)}
    rows: dict[str, int] = {}
    places = [(rows.setdefault(query_id, len(rows)), columns[chunk_id]) for query_id, chunk_id, _ in found]
    scores = np.full((len(rows), len(chunk_ids)), -np.inf)
    scores[tuple(np.array(places).T)] = [score for _, _, score in found]
    return _Window(chunk_ids, scores)


def _near_duplicates(
    window: _Window, settings: RAGSettings, chunk_vectors: ChunkVectors
) -> NDArray[np.int64]:
    """Give for each candidate the position of the better one that it nearly repeats, or -1."""
    duplicate_of = np.full(len(window.chunk_ids), -1, dtype=np.int64)
    if settings.near_duplicate_similarity is None:
        return duplicate_of
    vectors = chunk_vectors(window.chunk_ids)
    alike = vectors @ vectors.T >= settings.near_duplicate_similarity
    for i in range(1, len(window.chunk_ids)):
        earlier = np.flatnonzero(alike[i, :i] & (duplicate_of[:i] < 0))
        if earlier.size:
            duplicate_of[i] = earlier[0]
    return duplicate_of


def _select_by_similarity(
    _window: _Window, candidates: NDArray[np.int64], settings: RAGSettings, _: ChunkVectors
) -> NDArray[np.int64]:
    return np.arange(min(settings.top_k, len(candidates)))


def _select_by_mmr(
    window: _Window, candidates: NDArray[np.int64], settings: RAGSettings, chunk_vectors: ChunkVectors
) -> NDArray[np.int64]:
    """Select by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998)."""
    vectors = chunk_vectors([window.chunk_ids[i] for i in candidates])
    relevance = window.best[candidates]
    redundancy = np.zeros(len(candidates))
    open_ = np.ones(len(candidates), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(settings.top_k, len(candidates)):
        marginal = settings.mmr_lambda * relevance - (1 - settings.mmr_lambda) * redundancy
        pick = int(np.argmax(np.where(open_, marginal, -np.inf)))
        chosen.append(pick)
        open_[pick] = False
        redundancy = np.maximum(redundancy, vectors @ vectors[pick])
    return np.array(chosen, dtype=np.int64)


def _select_by_coverage(
    window: _Window, candidates: NDArray[np.int64], settings: RAGSettings, chunk_vectors: ChunkVectors
) -> NDArray[np.int64]:
    """Serve every part of the window before serving any part twice.

    Every query chunk is evidence for the candidates that it found. The next choice is the candidate that adds most
    evidence to that of the chosen ones (greedy facility location; Nemhauser, Wolsey and Fisher, 1978), less the
    more it resembles one of them. When nothing adds any, a further round begins with what is left.
    """
    evidence = _weigh_evidence(window.scores[:, candidates])
    alike = _compare_topics(chunk_vectors([window.chunk_ids[i] for i in candidates]))
    best = np.zeros(len(evidence))
    novelty = np.ones(len(candidates))
    open_ = np.ones(len(candidates), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(settings.top_k, len(candidates)):
        added = np.maximum(evidence - best[:, None], 0).sum(axis=0) * novelty
        pick = int(np.argmax(np.where(open_, added, -np.inf)))
        if added[pick] <= 0 and best.any():
            best[:] = 0
            continue
        chosen.append(pick)
        open_[pick] = False
        best = np.maximum(best, evidence[:, pick])
        novelty = np.minimum(novelty, 1 - alike[pick] ** _RESEMBLANCE_EXPONENT)
    return np.array(chosen, dtype=np.int64)


def _weigh_evidence(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn the scores of each query chunk into evidence, shape ``(queries, candidates)``, 0 where nothing was found.

    With ``_NORMALIZED`` 1 this is a softmax over the candidates, which a query chunk that found nothing good shares
    out like one that did; with 0 it is the absolute score, by which one dominant topic takes every place.
    """
    scaled = scores / _TEMPERATURE
    peak = np.maximum(scaled.max(axis=1, keepdims=True), -_LARGEST_EXPONENT)
    total = peak + np.log(np.exp(scaled - peak).sum(axis=1, keepdims=True))
    evidence: NDArray[np.float64] = np.exp(np.minimum(scaled - _NORMALIZED * total, _LARGEST_EXPONENT))
    return evidence


def _compare_topics(vectors: Vectors) -> NDArray[np.float64]:
    """Give how alike the candidates are beyond what all of a window have in common, from 0 to 1."""
    own = vectors - vectors.mean(axis=0)
    lengths = np.linalg.norm(own, axis=1, keepdims=True)
    directions = np.divide(own, lengths, out=np.zeros_like(own), where=lengths > 0)
    alike: NDArray[np.float64] = np.clip(directions @ directions.T, 0, 1).astype(np.float64)
    return alike


_STRATEGIES = {
    "coverage": _select_by_coverage,
    "similarity": _select_by_similarity,
    "mmr": _select_by_mmr,
}
