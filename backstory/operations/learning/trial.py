"""Fits a prior of documents on the earlier half of the labelled days, and tests it on the later half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.operations.evaluation.scoring import resample_windows
from backstory.operations.learning.examples import Examples
from backstory.retrieval.evidence.document_fit import FEATURES, DocumentFit
from backstory.retrieval.evidence.logistic import fit_logistic

LEAST_DAYS: Final = 20
"""Fewer labelled days say nothing about the next ones."""
_FOLDS: Final = 4
"""Runs of days of the earlier half; for the strength, fits on the first of them are tested on the next one."""
_STRENGTHS: Final = (0.25, 0.5, 1.0)
_RIDGE: Final = 0.01
"""The features of documents are many and alike, and the documents of a window are no independent examples."""
_INTERVAL: Final = (0.025, 0.975)
_DECIMALS: Final = 6


@dataclass(frozen=True)
class Trial:
    """What a fit on the earlier half of the days gains on the later half.

    Attributes:
        fitted: Number of windows that it was fitted on.
        tested: Number of windows that it was tested on.
        since: First day of the test.
        before: Mean ncov@5 without a fit; a day counts once.
        after: Mean ncov@5 with the fit.
        gain: Difference of the two.
        gain_low: Lower end of its paired 95 % bootstrap interval over the days.
        gain_high: Upper end of it.
        fit: A fit of the same strength on all days.
    """

    fitted: int
    tested: int
    since: date
    before: float
    after: float
    gain: float
    gain_low: float
    gain_high: float
    fit: DocumentFit

    @property
    def is_gain(self) -> bool:
        """Whether the fit gains beyond the interval."""
        return self.gain_low > 0


def try_fit(examples: Examples) -> Trial | None:
    """Fit on the earlier half of the days, and test on the later half.

    Args:
        examples: The labelled windows.

    Returns:
        The trial; None if there are too few labelled days.
    """
    days = examples.list_days()
    if len(days) < LEAST_DAYS:
        return None
    earlier, later = days[: len(days) // 2], days[len(days) // 2 :]
    documents = examples.compare_documents()
    strength = _choose_strength(examples, documents, earlier)
    fit = _fit(documents.filter(pl.col("day").is_in(earlier)), strength)
    before, after = examples.score(later, None), examples.score(later, fit)
    gains = after - before
    low, high = bound_gain(gains)
    tested = len(examples.windows.filter(pl.col("day").is_in(later)))
    return Trial(
        fitted=len(examples.windows) - tested,
        tested=tested,
        since=later[0],
        before=float(before.mean()),
        after=float(after.mean()),
        gain=float(gains.mean()),
        gain_low=low,
        gain_high=high,
        fit=_fit(documents, strength),
    )


def bound_gain(gains: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the 95 % bootstrap interval of the mean gain, from the gain of each day, shape ``(days,)``."""
    low, high = np.quantile(gains[resample_windows(len(gains))].mean(axis=1), _INTERVAL)
    return float(low), float(high)


def _choose_strength(examples: Examples, documents: pl.DataFrame, days: Sequence[date]) -> float:
    """Choose the strength that covers most: every run of days after the first is tested with a fit on all before it."""
    starts = [len(days) * run // _FOLDS for run in range(1, _FOLDS)]
    covered = dict.fromkeys(_STRENGTHS, 0.0)
    for start, end in pairwise([*starts, len(days)]):
        fit = _fit(documents.filter(pl.col("day").is_in(days[:start])), 1.0)
        for strength in _STRENGTHS:
            covered[strength] += examples.score(days[start:end], replace(fit, strength=strength)).sum()
    return max(_STRENGTHS, key=lambda strength: covered[strength])


def _fit(documents: pl.DataFrame, strength: float) -> DocumentFit:
    """Fit the odds that a document is named. Every window weighs the same."""
    rows = documents.select(FEATURES).to_numpy()
    weights = documents.select(1 / pl.len().over("window_id")).to_series().to_numpy()
    weights = weights / weights.mean()
    centre = np.average(rows, axis=0, weights=weights)
    spread = np.sqrt(np.average((rows - centre) ** 2, axis=0, weights=weights))
    spread[spread == 0] = 1.0  # a feature that is the same for all documents
    fitted = fit_logistic((rows - centre) / spread, documents["named"].to_numpy(), weights, ridge=_RIDGE)
    slopes = (fitted[1:] / spread).round(_DECIMALS)
    return DocumentFit(
        dict(zip(FEATURES, slopes.tolist(), strict=True)),
        round(float(fitted[0] - centre @ slopes), _DECIMALS),
        strength,
    )
