"""Logistic regressions on named features: their fit, and the models that ship with the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import numpy as np

from backstory.retrieval.evidence.shared_words import Values

_STEPS: Final = 100
_CONVERGED: Final = 1e-9
_LARGEST_ODDS: Final = 500.0
_FARTHEST: Final = 4.0
"""Features farther from their mean than so many deviations count as so far: no single one decides."""
_RIDGE: Final = 1e-4


@dataclass(frozen=True)
class LogisticModel:
    """A fitted logistic regression.

    Attributes:
        centre: Mean of each feature.
        spread: Standard deviation of each feature.
        weights: Weight of each feature, in deviations from its mean.
        intercept: Log odds where every feature has its mean.
        fitted_on: Names of the labelled sets.
    """

    centre: Mapping[str, float]
    spread: Mapping[str, float]
    weights: Mapping[str, float]
    intercept: float
    fitted_on: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        features: Mapping[str, Values],
        positive: Values,
        weights: Values,
        fitted_on: tuple[str, ...],
        *,
        ridge: float = _RIDGE,
        offset: float | Values = 0.0,
    ) -> Self:
        """Fit a model.

        Args:
            features: The values of each feature, shape ``(rows,)``.
            positive: 1 or 0, shape ``(rows,)``.
            weights: Weight of each row, shape ``(rows,)``.
            fitted_on: Names of the labelled sets.
            ridge: See :func:`fit_logistic`.
            offset: See :func:`fit_logistic`.
        """
        weights = weights / weights.mean()
        centre, spread = {}, {}
        for name, values in features.items():
            centre[name] = round(float(np.average(values, weights=weights)), 6)
            deviation = float(np.sqrt(np.average((values - centre[name]) ** 2, weights=weights)))
            spread[name] = max(round(deviation, 6), 1e-6)
        rows = cls(centre, spread, dict.fromkeys(features, 0.0), 0.0, ()).standardize(features)
        fitted = fit_logistic(rows, positive, weights, ridge=ridge, offset=offset)
        found = dict(zip(features, np.round(fitted[1:], 6).tolist(), strict=True))
        return cls(centre, spread, found, round(float(fitted[0]), 6), fitted_on)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the model of a record that :meth:`as_record` gave."""
        return cls(**{**record, "fitted_on": tuple(record["fitted_on"])})

    def as_record(self) -> dict[str, Any]:
        """Return the model as JSON-serializable data."""
        return asdict(self)

    def standardize(self, features: Mapping[str, Values]) -> Values:
        """Return features in deviations from their means, shape ``(rows, features)``."""
        columns = [(features[name] - self.centre[name]) / self.spread[name] for name in self.weights]
        standard: Values = np.clip(np.stack(columns, axis=1), -_FARTHEST, _FARTHEST)
        return standard

    def find_odds(self, features: Mapping[str, Values]) -> Values:
        """Return the log odds of each row, shape ``(rows,)``."""
        odds: Values = self.intercept + self.standardize(features) @ np.array(list(self.weights.values()))
        return odds

    def estimate(self, features: Mapping[str, Values]) -> Values:
        """Estimate the probability of each row, shape ``(rows,)``."""
        return as_probabilities(self.find_odds(features))


def fit_logistic(
    rows: Values, positive: Values, weights: Values, *, ridge: float = _RIDGE, offset: float | Values = 0.0
) -> Values:
    """Fit a logistic regression by Newton's method, with a ridge so that separable data has a solution.

    A step that would raise the loss is halved until it does not: far from the solution, Newton's steps overshoot.

    Args:
        rows: Standardized predictors, shape ``(pairs, features)``.
        positive: 1 or 0, shape ``(pairs,)``.
        weights: Weight of each pair, with a mean of 1, shape ``(pairs,)``.
        ridge: Penalty of a squared weight, per pair.
        offset: What is known of the log odds, to which the fit adds: of all pairs, or of each.

    Returns:
        Intercept and weights, shape ``(features + 1,)``.
    """
    columns = np.column_stack([np.ones(len(rows)), rows])
    penalty = ridge * len(rows) * np.diag([0.0] + [1.0] * rows.shape[1])

    def measure_loss(at: Values) -> float:
        odds = offset + columns @ at
        return float(weights @ (np.logaddexp(0, odds) - positive * odds) + at @ penalty @ at / 2)

    fitted = np.zeros(columns.shape[1])
    loss = measure_loss(fitted)
    for _ in range(_STEPS):
        expected = as_probabilities(offset + columns @ fitted)
        curvature = columns.T @ (columns * (weights * expected * (1 - expected) + 1e-9)[:, None]) + penalty
        step = np.linalg.solve(curvature, columns.T @ (weights * (positive - expected)) - penalty @ fitted)
        while measure_loss(fitted + step) > loss + _CONVERGED * abs(loss):
            step = step / 2
        fitted = fitted + step
        loss = measure_loss(fitted)
        if np.abs(step).max() < _CONVERGED:
            break
    return fitted


def as_probabilities(values: Values) -> Values:
    """Turn log odds into probabilities."""
    result: Values = 1 / (1 + np.exp(-np.clip(values, -_LARGEST_ODDS, _LARGEST_ODDS)))
    return result
