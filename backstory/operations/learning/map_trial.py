"""Fits a map of probabilities on the earlier half of the labelled days, and tests it on the later half."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.operations.learning.trial import LEAST_DAYS, bound_gain
from backstory.retrieval.evidence.logistic import fit_logistic
from backstory.retrieval.evidence.probability_map import ProbabilityMap, list_logarithms

_RIDGE: Final = 0.002
"""Draws both weights to 1, where the map changes nothing but the share of pairs that are true."""
_DECIMALS: Final = 6
_NEVER: Final = 1e-6


@dataclass(frozen=True)
class MapTrial:
    """What a map of the earlier half of the days gains on the later half.

    Attributes:
        fitted: Number of pairs that it was fitted on.
        tested: Number of pairs that it was tested on.
        since: First day of the test.
        before: Mean log loss of a pair as the model of pairs has it; a window counts once in its day, and a day once.
        after: Mean log loss with the map.
        gain: Difference of the two.
        gain_low: Lower end of its paired 95 % bootstrap interval over the days.
        gain_high: Upper end of it.
        map: A map of all days.
    """

    fitted: int
    tested: int
    since: date
    before: float
    after: float
    gain: float
    gain_low: float
    gain_high: float
    map: ProbabilityMap

    @property
    def is_gain(self) -> bool:
        """Whether the map gains beyond the interval, and keeps the order of probabilities."""
        return self.gain_low > 0 and self.map.is_sound


def try_map(pairs: pl.DataFrame) -> MapTrial | None:
    """Fit on the earlier half of the days, and test on the later half.

    Args:
        pairs: ``window_id``, ``day``, ``probability`` and ``true`` of the pairs of a part and a document that it found;
            see :meth:`backstory.operations.learning.examples.Examples.list_pairs`.

    Returns:
        The trial; None if there are too few labelled days.
    """
    days = pairs["day"].unique().sort().to_list()
    if len(days) < LEAST_DAYS:
        return None
    since = days[len(days) // 2]
    earlier, later = pairs.filter(pl.col("day") < since), pairs.filter(pl.col("day") >= since)
    fitted = fit_map(earlier)
    mapped = fitted.apply(later["probability"].to_numpy())
    before = _measure_loss(later)
    after = _measure_loss(later.with_columns(probability=pl.Series(mapped, dtype=pl.Float64)))
    gains = before - after
    low, high = bound_gain(gains)
    return MapTrial(
        fitted=len(earlier),
        tested=len(later),
        since=since,
        before=float(before.mean()),
        after=float(after.mean()),
        gain=float(gains.mean()),
        gain_low=low,
        gain_high=high,
        map=fit_map(pairs),
    )


def fit_map(pairs: pl.DataFrame) -> ProbabilityMap:
    """Fit a map of probabilities. Every window weighs the same."""
    logarithms = list_logarithms(pairs["probability"].to_numpy())
    weights = pairs.select(1 / pl.len().over("window_id")).to_series().to_numpy()
    fitted = fit_logistic(
        logarithms,
        pairs["true"].to_numpy().astype(np.float64),
        weights / weights.mean(),
        ridge=_RIDGE,
        offset=logarithms.sum(axis=1),
    )
    intercept, small, large = (round(float(value), _DECIMALS) for value in fitted)
    return ProbabilityMap(small=1 + small, large=1 + large, intercept=intercept)


def _measure_loss(pairs: pl.DataFrame) -> NDArray[np.float64]:
    """Measure the mean log loss of each day, in the order of the days."""
    said = pl.col("probability").clip(_NEVER, 1 - _NEVER)
    loss = -pl.when("true").then(said).otherwise(1 - said).log()
    by_window = pairs.group_by("day", "window_id").agg(loss=loss.mean())
    return by_window.group_by("day").agg(pl.col("loss").mean()).sort("day")["loss"].to_numpy()
