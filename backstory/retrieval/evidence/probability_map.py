"""A fitted map of probabilities, which keeps their order and learns how far small and large ones may be trusted.

It is the beta calibration of Kull, Silva Filho and Flach, "Beta calibration: a well-founded and easily implemented
improvement on logistic calibration for binary classifiers" (AISTATS 2017). ``backstory learn --set`` fits it on labels
that tell which documents serve which part; docs/studies/evidence.md has the figures.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Final

import numpy as np

from backstory.base.ids import digest_json
from backstory.base.wording import count
from backstory.retrieval.evidence.shared_words import Values

_LEAST: Final = 1e-4
"""A probability nearer to 0 or 1 counts as so near: its logarithm would decide any fit."""


@dataclass(frozen=True)
class ProbabilityMap:
    """A map of probabilities: the log odds of p become ``intercept + small * ln(p) - large * ln(1 - p)``.

    Attributes:
        small: Weight of ln(p), which decides where p is small. The map changes nothing if both weights are 1, and the
            intercept 0.
        large: Weight of -ln(1 - p), which decides where p is large.
        intercept: What is added.
    """

    small: float
    large: float
    intercept: float

    @property
    def digest(self) -> str:
        """Hash of the values: two maps with the same digest give the same probabilities."""
        return digest_json([asdict(self), _LEAST], length=16)

    @property
    def is_sound(self) -> bool:
        """Whether the values are finite numbers, and the map keeps the order of probabilities."""
        values = (self.small, self.large, self.intercept)
        are_finite = all(isinstance(value, int | float) and isfinite(value) for value in values)
        return are_finite and min(self.small, self.large) > 0

    def apply(self, probabilities: Values) -> Values:
        """Map probabilities; 0, the probability of small talk, stays 0."""
        odds = self.intercept + list_logarithms(probabilities) @ np.array([self.small, self.large])
        mapped: Values = np.where(probabilities > 0, np.exp(-np.logaddexp(0, -odds)), 0.0)
        return mapped


@dataclass(frozen=True, kw_only=True)
class LearnedMap:
    """A map with what it was learned from, as a workspace keeps it.

    Attributes:
        map: The map.
        embedder: Id of the embedder whose hits it was fitted on.
        source: Name of the labelled set.
        pairs: Number of labelled pairs of a part and a document.
        gain: By how much a map of the earlier half of the days lowered the log loss of a pair on the later half.
        gain_low: Lower end of the 95 % bootstrap interval of the gain.
        gain_high: Upper end of it.
    """

    map: ProbabilityMap
    embedder: str
    source: str
    pairs: int
    gain: float
    gain_low: float
    gain_high: float

    def describe(self) -> str:
        """Describe the map in a line."""
        return (
            f"map {self.map.digest} of {count(self.pairs, 'pair')} of the set {self.source}, which lowered the log "
            f"loss by {self.gain:.3f} [{self.gain_low:+.3f}, {self.gain_high:+.3f}]"
        )


def list_logarithms(probabilities: Values) -> Values:
    """Return ln(p) and -ln(1 - p) of each probability, whose sum is its log odds, shape ``(probabilities, 2)``."""
    inner = np.clip(probabilities, _LEAST, 1 - _LEAST)
    logarithms: Values = np.stack([np.log(inner), -np.log1p(-inner)], axis=1)
    return logarithms
