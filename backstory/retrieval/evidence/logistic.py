"""The fit of a logistic regression, for the models of the evidence."""

from __future__ import annotations

from typing import Final

import numpy as np

from backstory.retrieval.evidence.shared_words import Values

_STEPS: Final = 100
_CONVERGED: Final = 1e-9
_LARGEST_ODDS: Final = 500.0


def fit_logistic(
    rows: Values, positive: Values, weights: Values, *, ridge: float = 1e-4, offset: float | Values = 0.0
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
        expected = _logistic(offset + columns @ fitted)
        curvature = columns.T @ (columns * (weights * expected * (1 - expected) + 1e-9)[:, None]) + penalty
        step = np.linalg.solve(curvature, columns.T @ (weights * (positive - expected)) - penalty @ fitted)
        while measure_loss(fitted + step) > loss + _CONVERGED * abs(loss):
            step = step / 2
        fitted = fitted + step
        loss = measure_loss(fitted)
        if np.abs(step).max() < _CONVERGED:
            break
    return fitted


def _logistic(values: Values) -> Values:
    result: Values = 1 / (1 + np.exp(-np.clip(values, -_LARGEST_ODDS, _LARGEST_ODDS)))
    return result
