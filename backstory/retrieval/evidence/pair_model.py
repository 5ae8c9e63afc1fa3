"""The model of pairs: the probability that a chunk tells something about a part of a window.

It is a logistic regression on the features of :mod:`backstory.retrieval.evidence.pair_features`. ``python -m
benchmarks.train_pairs`` fits it on labelled sets and writes ``pair_model.json``; docs/studies/evidence.md has the
figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from backstory.base.ids import digest_json
from backstory.retrieval.evidence.logistic import LogisticModel
from backstory.retrieval.evidence.shared_words import Values

SERVES: Final = 0.5
"""A chunk serves a part from this probability on."""

CHOSEN_SERVES: Final = 0.4
"""The same for a document that was chosen to serve several parts together: to be chosen is evidence, too."""

MAY_SERVE: Final = 0.2
"""Whether a chunk serves a part is unsure from this probability on; below it, the chunk counts as serving nothing."""

MODEL_FILE: Final = Path(__file__).with_name("pair_model.json")
_OWN_DEVIATIONS: Final = 1.5
_OWN_WORD: Final = 0.7
_MOST_BORROWED: Final = 0.19
"""Most probability of a pair whose cosine lies less than :data:`_OWN_DEVIATIONS` above chance, and whose rarest shared
word is less rare than :data:`_OWN_WORD`. Only neighbours speak for it, and of such pairs a fifth are right."""


class PairModel(LogisticModel):
    """A fitted model of pairs."""

    @property
    def digest(self) -> str:
        """Hash of all values: two models with the same digest give the same probabilities."""
        borrowed = [_OWN_DEVIATIONS, _OWN_WORD, _MOST_BORROWED]
        return digest_json({**self.as_record(), "borrowed": borrowed}, length=16)

    def estimate(self, features: Mapping[str, Values]) -> Values:
        """Estimate the probability that the chunk of each pair tells something about its part.

        Args:
            features: From :func:`backstory.retrieval.evidence.pair_features.measure_pairs`.

        Returns:
            Probabilities, shape ``(pairs,)``.
        """
        probabilities = super().estimate(features)
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
