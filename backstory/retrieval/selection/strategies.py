"""Strategies that choose among the candidates of a window: by coverage, similarity or marginal relevance.

Each strategy takes the hits of a window, the candidates (positions in the window's chunks, best first), the settings,
the number of candidates to choose, and the functions that give vectors. It returns the choice as positions among the
candidates. A longer choice begins with every shorter choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import RAGSettings

# Measured on the labelled sets, see docs/studies/defaults.md.
_NORMALIZED = 0.85
_CANDIDATE_EXPONENT = 0.8
_QUERY_EXPONENT = 0.35
_MOST_QUERIES = 2000
"""Query chunks of a window that are compared with each other; of more, evenly spaced ones speak for the window."""
_LARGEST_EXPONENT = 500.0
_NAMED_TITLE = 2.5
"""What a named title adds to the score, in temperatures."""

FindVectors = Callable[[Sequence[str]], Vectors]


@dataclass(frozen=True)
class VectorSources:
    """The sources of the vectors of query chunks and stored chunks.

    Attributes:
        of_queries: Gives the unit vectors of query chunks by id, shape ``(len(ids), dimension)``.
        of_chunks: Gives the unit vectors of stored chunks by id, shape ``(len(ids), dimension)``.
    """

    of_queries: FindVectors
    of_chunks: FindVectors


@dataclass(frozen=True)
class WindowMatrix:
    """The hits of one window that passed threshold and deduplication.

    Attributes:
        query_ids: Query chunks with at least one such hit.
        chunk_ids: Candidates, best score first, ties by id.
        scores: Score of each candidate for each query chunk, shape ``(queries, candidates)``; -inf where the
            query chunk did not find the candidate.
        named: Whether each query chunk found the candidate and names its title, shape ``(queries, candidates)``.
        weights: Factor of the evidence of each query chunk for each candidate, shape ``(queries, candidates)``.
        prior: Factor of the evidence for each candidate's document, shape ``(candidates,)``.
        temperature: Difference in score that changes the evidence by the factor e.
    """

    query_ids: list[str]
    chunk_ids: list[str]
    scores: NDArray[np.float64]
    named: NDArray[np.bool_]
    weights: NDArray[np.float64]
    prior: NDArray[np.float64]
    temperature: float

    @property
    def best(self) -> NDArray[np.float64]:
        """Best score of each candidate, shape ``(candidates,)``."""
        best: NDArray[np.float64] = self.scores.max(axis=0)
        return best


def _select_by_similarity(
    _window: WindowMatrix,
    _candidates: NDArray[np.int64],
    _settings: RAGSettings,
    count: int,
    _: VectorSources,
) -> NDArray[np.int64]:
    return np.arange(count)


def _select_by_mmr(
    window: WindowMatrix,
    candidates: NDArray[np.int64],
    settings: RAGSettings,
    count: int,
    vectors: VectorSources,
) -> NDArray[np.int64]:
    """Select by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998)."""
    found = vectors.of_chunks([window.chunk_ids[i] for i in candidates])
    relevance = window.best[candidates]
    redundancy = np.zeros(len(candidates))
    open_ = np.ones(len(candidates), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < count:
        marginal = settings.mmr_lambda * relevance - (1 - settings.mmr_lambda) * redundancy
        pick = int(np.argmax(np.where(open_, marginal, -np.inf)))
        chosen.append(pick)
        open_[pick] = False
        redundancy = np.maximum(redundancy, found @ found[pick])
    return np.array(chosen, dtype=np.int64)


def _select_by_coverage(
    window: WindowMatrix,
    candidates: NDArray[np.int64],
    _settings: RAGSettings,
    count: int,
    vectors: VectorSources,
) -> NDArray[np.int64]:
    """Serve every part of the window before serving any part twice.

    Every query chunk is evidence for the candidates that it found, see :func:`cover_evidence`, and more so if it names
    their title. The prior of a candidate's document multiplies its evidence. The gain of a candidate is discounted by
    its similarity to chosen candidates.
    """
    chunk_ids = [window.chunk_ids[i] for i in candidates]
    scores = (window.scores + _NAMED_TITLE * window.temperature * window.named)[:, candidates]
    # What a query chunk found may all have been dropped.
    asking = np.flatnonzero(np.isfinite(scores).any(axis=1))
    asking = asking[:: max(1, -(-len(asking) // _MOST_QUERIES))]
    return cover_evidence(
        _weigh_evidence(scores[asking], window.temperature)
        * window.weights[np.ix_(asking, candidates)]
        * window.prior[candidates],
        count,
        rows_alike=compare_queries(vectors.of_queries([window.query_ids[i] for i in asking])),
        candidates_alike=_compare_topics(vectors.of_chunks(chunk_ids)) ** _CANDIDATE_EXPONENT,
    )


def cover_evidence(
    evidence: NDArray[np.float64],
    count: int,
    *,
    rows_alike: NDArray[np.float64] | None = None,
    candidates_alike: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Choose candidates that serve every row before any row twice.

    Each step chooses the candidate that adds most evidence to the best of what is chosen (greedy facility location;
    Nemhauser, Wolsey and Fisher, 1978). When no candidate adds evidence, a further round begins with the remaining
    candidates.

    Args:
        evidence: What each candidate gives to each row, at least 0, shape ``(rows, candidates)``.
        count: Number of candidates to choose, at most all.
        rows_alike: Likeness of rows from 0 to 1, shape ``(rows, rows)``: the evidence of a row is discounted by its
            likeness to rows that chosen candidates serve. None for rows that are about different things.
        candidates_alike: Likeness of candidates from 0 to 1, shape ``(candidates, candidates)``: the gain of a
            candidate is discounted by its likeness to chosen ones. None for no discount.

    Returns:
        Positions of the chosen candidates, in the order of the choice, shape ``(count,)``.
    """
    rows, candidates = evidence.shape
    most = evidence.max(axis=1, keepdims=True)
    served = np.divide(evidence, most, out=np.zeros_like(evidence), where=most > 0)
    best, unserved = np.zeros(rows), np.ones(rows)
    novelty = np.ones(candidates)
    open_ = np.ones(candidates, dtype=bool)
    chosen: list[int] = []
    while len(chosen) < count:
        added = unserved @ np.maximum(evidence - best[:, None], 0) * novelty
        pick = int(np.argmax(np.where(open_, added, -np.inf)))
        if added[pick] <= 0 and best.any():
            best[:], unserved[:] = 0, 1
            continue
        chosen.append(pick)
        open_[pick] = False
        best = np.maximum(best, evidence[:, pick])
        if rows_alike is not None:
            unserved = np.minimum(unserved, 1 - (rows_alike * served[:, pick]).max(axis=1))
        if candidates_alike is not None:
            novelty = np.minimum(novelty, 1 - candidates_alike[pick])
    return np.array(chosen, dtype=np.int64)


def compare_queries(vectors: Vectors) -> NDArray[np.float64]:
    """Compare query chunks for :func:`cover_evidence` by their unit vectors, shape ``(queries, queries)``."""
    return _compare_topics(vectors) ** _QUERY_EXPONENT


def _weigh_evidence(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Turn scores into evidence, shape ``(queries, candidates)``, 0 where a query chunk did not find a candidate.

    With ``_NORMALIZED`` 1 this is a softmax over the candidates, in which every query chunk weighs the same, even one
    that found nothing good. With 0 it depends on the absolute score alone, and one dominant topic fills the context.
    """
    scaled = scores / temperature
    peak = np.maximum(scaled.max(axis=1, keepdims=True), -_LARGEST_EXPONENT)
    total = peak + np.log(np.exp(scaled - peak).sum(axis=1, keepdims=True))
    evidence: NDArray[np.float64] = np.exp(np.minimum(scaled - _NORMALIZED * total, _LARGEST_EXPONENT))
    return evidence


def _compare_topics(vectors: Vectors) -> NDArray[np.float64]:
    """Compute the cosine of texts without their mean vector, clipped to 0 to 1, shape ``(texts, texts)``."""
    own = vectors - vectors.mean(axis=0)
    lengths = np.linalg.norm(own, axis=1, keepdims=True)
    directions = np.divide(own, lengths, out=np.zeros_like(own), where=lengths > 0)
    alike: NDArray[np.float64] = np.clip(directions @ directions.T, 0, 1).astype(np.float64)
    return alike


STRATEGIES = {
    "coverage": _select_by_coverage,
    "similarity": _select_by_similarity,
    "mmr": _select_by_mmr,
}
