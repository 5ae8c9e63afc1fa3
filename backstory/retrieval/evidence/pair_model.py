"""The model of pairs: the probability that a chunk tells something about a part of a window.

It is a logistic regression on the features of :mod:`backstory.retrieval.evidence.pair_features`, with further weights
for parts that are one short message. ``python -m benchmarks.train_pairs`` fits it on labelled sets and writes
``pair_model.json``; docs/studies/evidence.md has the figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import polars as pl

from backstory.base.ids import digest_json
from backstory.retrieval.evidence.logistic import LogisticModel, as_probabilities
from backstory.retrieval.evidence.shared_words import Values

SERVES: Final = 0.5
"""A chunk serves a part from this probability on."""

CHOSEN_SERVES: Final = 0.4
"""The same for a document that was chosen to serve several parts together: to be chosen is evidence, too."""

MAY_SERVE: Final = 0.2
"""Whether a chunk serves a part is unsure from this probability on; below it, the chunk counts as serving nothing."""

OF_PARTS: Final = (
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
    "document_above_part",
    "document_second",
    "document_mass",
    "document_found",
    "parts",
)
"""Features that weigh every pair."""

OF_SINGLE: Final = ("part_share", "part_words")
"""Features that weigh the pairs of one short message, too."""

_RIDGE_OF_SINGLE: Final = 1e-2
MODEL_FILE: Final = Path(__file__).with_name("pair_model.json")
_OWN_DEVIATIONS: Final = 1.5
_OWN_WORD: Final = 0.7
_MOST_BORROWED: Final = 0.19
"""Most probability of a pair whose cosine lies less than :data:`_OWN_DEVIATIONS` above chance, and whose rarest shared
word is less rare than :data:`_OWN_WORD`. Only neighbours speak for it, and of such pairs a fifth are right."""


@dataclass(frozen=True)
class PairModel:
    """A fitted model of pairs.

    Attributes:
        parts: The log odds of every pair.
        single: What is added to them for parts that are one message of a window of short ones. Such a part has few
            words, and no topic of its neighbours.
    """

    parts: LogisticModel
    single: LogisticModel

    @property
    def digest(self) -> str:
        """Hash of all values: two models with the same digest give the same probabilities."""
        borrowed = [_OWN_DEVIATIONS, _OWN_WORD, _MOST_BORROWED]
        return digest_json({**self.as_record(), "borrowed": borrowed}, length=16)

    @property
    def fitted_on(self) -> tuple[str, ...]:
        """Names of the labelled sets."""
        return tuple(dict.fromkeys((*self.parts.fitted_on, *self.single.fitted_on)))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the model of a record that :meth:`as_record` gave."""
        return cls(*(LogisticModel.from_record(record[name]) for name in ("parts", "single")))

    def as_record(self) -> dict[str, Any]:
        """Return the model as JSON-serializable data."""
        return {"parts": self.parts.as_record(), "single": self.single.as_record()}

    def fit_single(
        self, features: Mapping[str, Values], positive: Values, weights: Values, fitted_on: tuple[str, ...]
    ) -> Self:
        """Fit what is added for parts that are one short message, on pairs of such parts.

        Args:
            features: From :func:`backstory.retrieval.evidence.pair_features.measure_pairs`.
            positive: 1 or 0, shape ``(pairs,)``.
            weights: Weight of each pair, shape ``(pairs,)``.
            fitted_on: Names of the labelled sets.
        """
        own = {name: features[name] for name in OF_SINGLE}
        odds = self.parts.find_odds(features)
        fitted = LogisticModel.fit(own, positive, weights, fitted_on, ridge=_RIDGE_OF_SINGLE, offset=odds)
        return replace(self, single=fitted)

    def estimate(self, features: Mapping[str, Values]) -> Values:
        """Estimate the probability that the chunk of each pair tells something about its part.

        Args:
            features: From :func:`backstory.retrieval.evidence.pair_features.measure_pairs`.

        Returns:
            Probabilities, shape ``(pairs,)``.
        """
        odds = self.parts.find_odds(features) + features["is_single"] * self.single.find_odds(features)
        probabilities = as_probabilities(odds)
        has_own = (features["part_deviations"] >= _OWN_DEVIATIONS) | (
            features["rarest_shared_word"] >= _OWN_WORD
        )
        estimated: Values = np.where(has_own, probabilities, np.minimum(probabilities, _MOST_BORROWED))
        return estimated

    def write(self, path: Path) -> None:
        """Write the model as JSON."""
        path.write_text(json.dumps(self.as_record(), indent=2) + "\n", encoding="utf-8")


@cache
def read_pair_model(path: Path = MODEL_FILE) -> PairModel:
    """Read the model that ships with the library, or another one."""
    return PairModel.from_record(json.loads(path.read_text(encoding="utf-8")))


def is_served_by_chosen() -> pl.Expr:
    """Tell of each hit of a chosen document whether the document serves the part, in all hits of any windows."""
    is_alone = pl.col("query_chunk_id").n_unique().over("window_id") == 1
    return pl.col("probability") >= pl.when(is_alone).then(SERVES).otherwise(CHOSEN_SERVES)
