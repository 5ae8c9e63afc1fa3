"""A prior of documents: those whose phrases and titles a window repeats are more probably what it is about.

It needs no labels of the documents at hand. A fit on such labels takes its place. docs/studies/evidence.md has what
each gains on labelled sets, and the variants that were tried.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from backstory.retrieval.evidence.document_fit import DocumentFit, compare_documents

_STRENGTH: Final = 0.5
"""The prior is the exponential of so many times the mean deviation of a document's features."""
_LEAST, _MOST = -4.0, 6.0
LEAST_PARTS: Final = 10
"""In a window of fewer parts, one shared phrase would decide; the probabilities of its pairs weigh its documents."""
_MOST_NAMED: Final = 0.125
"""Where parts name the whole titles of so many found documents, they mention names in passing; there is no prior."""
_NAMED: Final = 0.99
_MOST_TELLING: Final = 0.3
"""Where so many found documents tell something, none stands out: a prior would only narrow the choice."""
_TELLS: Final = 0.5
_FEATURES: Final = ("shared_phrases", "title_share", "score", "document_mass")
_TINY: Final = 1e-6


def weigh_documents(hits: pl.DataFrame, fit: DocumentFit | None = None) -> pl.Series:
    """Weigh the document of each hit against the other documents that its window found.

    In a window of few parts, the odds of a document's most probable pair weigh it. In any other, the fit weighs it, or
    else its shared phrases, title shares, scores and mass.

    Args:
        hits: ``window_id``, ``query_chunk_id``, ``document_id``, ``score``, ``probability``, and the features of
            :mod:`backstory.retrieval.evidence.pair_features`.
        fit: What was learned from labels of such windows; None for nothing.

    Returns:
        A factor for each hit; 1 where the window has no prior.
    """
    keys = ["window_id", "document_id"]
    documents = hits.group_by(keys, maintain_order=True).agg(pl.col("probability").max())
    parts = hits.group_by("window_id").agg(parts=pl.col("query_chunk_id").n_unique())
    learned = _weigh_by_phrases(hits) if fit is None else _weigh_by_fit(hits, fit)
    odds = pl.col("probability") / (1 - pl.col("probability") + _TINY)
    weighed = (
        documents.join(parts, on="window_id", maintain_order="left")
        .join(learned, on=keys, maintain_order="left")
        .select(
            *keys,
            prior=pl.when(pl.col("parts") < LEAST_PARTS).then(odds.pow(_STRENGTH)).otherwise("weight"),
        )
    )
    return hits.select(keys).join(weighed, on=keys, how="left", maintain_order="left")["prior"]


def _weigh_by_fit(hits: pl.DataFrame, fit: DocumentFit) -> pl.DataFrame:
    compared = compare_documents(hits)
    return compared.select("window_id", "document_id", weight=fit.weigh(compared))


def _weigh_by_phrases(hits: pl.DataFrame) -> pl.DataFrame:
    """Weigh the most of each document's hits, in deviations from its mean over the documents of the window."""
    keys = ["window_id", "document_id"]
    # The sum of the rarities, whose logarithm the feature is.
    phrases = pl.col("shared_phrases").exp() - 1
    documents = (
        hits.with_columns(shared_phrases=phrases)
        .group_by(keys, maintain_order=True)
        .agg(pl.col(*_FEATURES, "probability").max())
    )
    deviations = [
        (
            (pl.col(name) - pl.col(name).mean().over("window_id"))
            / (pl.col(name).std(ddof=0).over("window_id") + _TINY)
        ).clip(_LEAST, _MOST)
        for name in _FEATURES
    ]
    named = (pl.col("title_share") >= _NAMED).mean().over("window_id")
    telling = (pl.col("probability") >= _TELLS).mean().over("window_id")
    return documents.select(
        *keys,
        weight=pl.when((named < _MOST_NAMED) & (telling < _MOST_TELLING))
        .then((_STRENGTH * pl.mean_horizontal(deviations)).exp())
        .otherwise(1.0),
    )
