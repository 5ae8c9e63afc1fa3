"""A prior of documents: those whose phrases and titles a window repeats are more probably what it is about.

It needs no labels of the documents at hand. docs/studies/evidence.md has what it gains on each labelled set, and the
variants that were tried.
"""

from __future__ import annotations

from typing import Final

import polars as pl

_STRENGTH: Final = 0.5
"""The prior is the exponential of so many times the mean deviation of a document's features."""
_LEAST, _MOST = -4.0, 6.0
_LEAST_PARTS: Final = 10
"""In a window of fewer parts, one shared phrase would decide; the probabilities of its pairs weigh its documents."""
_MOST_NAMED: Final = 0.125
"""Where parts name the whole titles of so many found documents, they mention names in passing; there is no prior."""
_NAMED: Final = 0.99
_FEATURES: Final = ("shared_phrases", "title_share", "score", "document_mass")
_TINY: Final = 1e-6


def weigh_documents(hits: pl.DataFrame) -> pl.Series:
    """Weigh the document of each hit against the other documents that its window found.

    The features are the most of its hits' shared phrases, title shares and scores, and its mass. Each is compared with
    its mean over the documents of the window, in standard deviations. In a window of few parts, the odds of a
    document's most probable pair take their place.

    Args:
        hits: ``window_id``, ``query_chunk_id``, ``document_id``, ``score``, ``probability`` and the features
            ``shared_phrases``, ``title_share`` and ``document_mass`` of
            :func:`backstory.retrieval.evidence.pair_features.measure_pairs`.

    Returns:
        A factor for each hit; 1 where the window has no prior.
    """
    keys = ["window_id", "document_id"]
    # The sum of the rarities, whose logarithm the feature is.
    phrases = pl.col("shared_phrases").exp() - 1
    documents = (
        hits.with_columns(shared_phrases=phrases)
        .group_by(keys, maintain_order=True)
        .agg(pl.col(*_FEATURES, "probability").max())
    )
    windows = (
        documents.group_by("window_id")
        .agg(named=(pl.col("title_share") >= _NAMED).mean())
        .join(hits.group_by("window_id").agg(parts=pl.col("query_chunk_id").n_unique()), on="window_id")
    )
    deviations = [
        (
            (pl.col(name) - pl.col(name).mean().over("window_id"))
            / (pl.col(name).std(ddof=0).over("window_id") + _TINY)
        ).clip(_LEAST, _MOST)
        for name in _FEATURES
    ]
    odds = pl.col("probability") / (1 - pl.col("probability") + _TINY)
    weighed = documents.join(windows, on="window_id", maintain_order="left").select(
        *keys,
        prior=pl.when((pl.col("parts") >= _LEAST_PARTS) & (pl.col("named") < _MOST_NAMED))
        .then((_STRENGTH * pl.mean_horizontal(deviations)).exp())
        .when(pl.col("parts") < _LEAST_PARTS)
        .then(odds.pow(_STRENGTH))
        .otherwise(1.0),
    )
    return hits.select(keys).join(weighed, on=keys, how="left", maintain_order="left")["prior"]
