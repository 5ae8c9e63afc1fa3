"""A fitted prior of documents: the odds that a document is one of those that a window's people would name.

It is a logistic regression with a row for each document that a window found. Every value is relative to the other
documents of the window: how many standard deviations it lies above their mean, and the logarithm of its rank. So no
length and no density tells one document from others. Equal values share a rank, since their order would tell the order
of the ids. ``backstory learn`` fits it on the labels of a workspace; docs/studies/evidence.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Final

import numpy as np
import polars as pl

from backstory.base.ids import digest_json
from backstory.base.wording import count

_MOST: Final = (
    "score",
    "probability",
    "part_deviations",
    "gap_to_mean",
    "log_share",
    "keywords",
    "rarest_shared_word",
    "shared_phrases",
    "title_share",
    "neighbour_deviations",
    "neighbours_above_window",
    "neighbour_words",
    "document_second",
    "document_mass",
    "document_found",
)
"""Values of hits of which a document has the most of its hits."""
_NEXT_BEST: Final = (2, 3)
"""Places among the shares of a document's hits that are values, too."""
_NO_SHARE: Final = -9.0
"""Logarithm of the share of a hit that a document does not have."""
_LEAST_DEVIATION, _MOST_DEVIATION = -4.0, 6.0
_TINY: Final = 1e-6
# Values of equal texts differ in their last digits, and must share a rank.
_DECIMALS: Final = 6

VALUES: Final = (*_MOST, "mean_share", *(f"share_{place}" for place in _NEXT_BEST))
FEATURES: Final = (*VALUES, *(f"rank_of_{name}" for name in VALUES))
"""Names of the columns that :func:`compare_documents` adds."""


@dataclass(frozen=True)
class DocumentFit:
    """A fitted prior: the weight of each of :data:`FEATURES`, in their order, and the log odds where all are 0."""

    weights: Mapping[str, float]
    intercept: float

    @property
    def digest(self) -> str:
        """Hash of all values: two fits with the same digest give the same priors."""
        return digest_json(asdict(self), length=16)

    @property
    def is_sound(self) -> bool:
        """Whether there is a finite number for each feature."""
        values = [*self.weights.values(), self.intercept]
        return tuple(self.weights) == FEATURES and all(
            isinstance(value, int | float) and isfinite(value) for value in values
        )

    def weigh(self, documents: pl.DataFrame) -> pl.Series:
        """Return a factor for each document of :func:`compare_documents`, its odds."""
        columns = documents.select(list(self.weights)).to_numpy()
        odds = self.intercept + columns @ np.array(list(self.weights.values()))
        return pl.Series("prior", np.exp(odds.round(_DECIMALS)), dtype=pl.Float64)


@dataclass(frozen=True, kw_only=True)
class LearnedFit:
    """A fit with what it was learned from, as a workspace keeps it.

    Attributes:
        fit: The fit.
        embedder: Id of the embedder whose hits it was fitted on; the hits of another differ too much.
        windows: Number of labelled windows.
        links: Number of labels: pairs of a window and a document.
        gain: What a fit on the earlier half of the days gained on the later half, in ncov@5.
        gain_low: Lower end of the 95 % bootstrap interval of the gain.
        gain_high: Upper end of it.
    """

    fit: DocumentFit
    embedder: str
    windows: int
    links: int
    gain: float
    gain_low: float
    gain_high: float

    def describe(self) -> str:
        """Describe the fit in a line."""
        return (
            f"fit {self.fit.digest} of {count(self.links, 'link')} of {count(self.windows, 'window')}, "
            f"which gained {self.gain:+.3f} [{self.gain_low:+.3f}, {self.gain_high:+.3f}] in ncov@5"
        )


def compare_documents(hits: pl.DataFrame) -> pl.DataFrame:
    """Compare each document that a window found with the others that it found.

    Args:
        hits: ``window_id``, ``document_id``, ``score``, ``probability``, and the features of
            :mod:`backstory.retrieval.evidence.pair_features`.

    Returns:
        ``window_id``, ``document_id`` and :data:`FEATURES`, in the order of the documents' first hits.
    """
    share = pl.col("log_share")
    documents = hits.group_by("window_id", "document_id", maintain_order=True).agg(
        pl.col(_MOST).max(),
        mean_share=share.mean(),
        **{
            f"share_{place}": pl.when(pl.len() >= place).then(share.top_k(place).min()).otherwise(_NO_SHARE)
            for place in _NEXT_BEST
        },
    )
    values = [pl.col(name).round(_DECIMALS) for name in VALUES]
    deviations = [
        ((value - value.mean().over("window_id")) / (value.std(ddof=0).over("window_id") + _TINY)).clip(
            _LEAST_DEVIATION, _MOST_DEVIATION
        )
        for value in values
    ]
    ranks = [
        value.rank("average", descending=True).over("window_id").log().alias(f"rank_of_{name}")
        for name, value in zip(VALUES, values, strict=True)
    ]
    return documents.select("window_id", "document_id", *deviations, *ranks)
