"""The expected calibration error of probabilities, from sums over windows that a bootstrap can draw again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

_BINS: Final = 10
_PAIRS, _EXPECTED, _SEEN = "pairs", "expected", "seen"


def list_columns(name: str) -> list[str]:
    """List the columns that :func:`sum_bins` adds for the pairs of a name."""
    return [
        f"{name}_{_PAIRS}",
        *(f"{name}_{sums}_{place}" for sums in (_EXPECTED, _SEEN) for place in range(_BINS)),
    ]


def sum_bins(pairs: pl.DataFrame, name: str) -> pl.DataFrame:
    """Sum for each window what its pairs promise and what is true of them, by bins of probability.

    ``pairs`` has ``window_id``, ``probability`` and ``true``. The result has the :func:`list_columns`: the number of
    pairs, and in each bin the sum of the probabilities and the number of pairs that are true.
    """
    place = (pl.col("probability") * _BINS).cast(pl.Int64).clip(0, _BINS - 1)
    sums = [
        value.filter(place == each).sum().alias(f"{name}_{of}_{each}")
        for of, value in ((_EXPECTED, pl.col("probability")), (_SEEN, pl.col("true").cast(pl.Float64)))
        for each in range(_BINS)
    ]
    return pairs.group_by("window_id").agg(pl.len().alias(f"{name}_{_PAIRS}"), *sums)


def measure_calibration_error(name: str) -> Callable[[Mapping[str, float]], float | None]:
    """Return what computes the expected calibration error over ten bins of equal width (Naeini et al., AAAI 2015).

    It takes the sums of :func:`list_columns`, and returns None if there are no pairs.
    """

    def measure(sums: Mapping[str, float]) -> float | None:
        if not sums[f"{name}_{_PAIRS}"]:
            return None
        gaps = (
            abs(sums[f"{name}_{_EXPECTED}_{place}"] - sums[f"{name}_{_SEEN}_{place}"])
            for place in range(_BINS)
        )
        return sum(gaps) / sums[f"{name}_{_PAIRS}"]

    return measure
