"""The map of probabilities: it keeps the order and small talk, and gives back odds that were distorted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.retrieval.evidence.logistic import fit_logistic
from backstory.retrieval.evidence.probability_map import ProbabilityMap, list_logarithms

PROBABILITIES = np.array([0.0, 0.001, 0.1, 0.19, 0.5, 0.9, 0.99])
WEIGHTS = st.floats(0.2, 4)


@given(small=WEIGHTS, large=WEIGHTS, intercept=st.floats(-3, 3))
def test_a_map_keeps_the_order_and_small_talk(small: float, large: float, intercept: float) -> None:
    mapped = ProbabilityMap(small, large, intercept).apply(PROBABILITIES)
    assert mapped[0] == 0
    assert (np.diff(mapped) > 0).all()
    assert ((mapped >= 0) & (mapped <= 1)).all()


def test_weights_of_one_change_no_probability() -> None:
    assert ProbabilityMap(1.0, 1.0, 0.0).apply(PROBABILITIES) == pytest.approx(PROBABILITIES)


@pytest.mark.parametrize(
    "values", [(0.0, 1.0, 0.0), (1.0, -1.0, 0.0), (float("nan"), 1.0, 0.0), (1.0, 1.0, float("inf"))]
)
def test_a_map_that_would_turn_the_order_is_not_sound(values: tuple[float, float, float]) -> None:
    assert not ProbabilityMap(*values).is_sound
    assert ProbabilityMap(0.5, 2.0, -1.0).is_sound


def test_a_fit_adds_to_what_is_known_of_the_odds() -> None:
    rng = np.random.default_rng(3)
    logarithms = list_logarithms(rng.uniform(0.02, 0.98, 20_000))
    odds = logarithms @ np.array([1.2, 0.5]) - 0.3
    true = rng.uniform(size=len(odds)) < 1 / (1 + np.exp(-odds))
    fitted = fit_logistic(logarithms, true.astype(float), np.ones(len(odds)), offset=logarithms.sum(axis=1))
    assert fitted == pytest.approx([-0.3, 0.2, -0.5], abs=0.08)


def test_a_fit_far_from_what_is_known_converges() -> None:
    logarithms = list_logarithms(np.repeat([0.001, 0.02, 0.9], [900, 90, 10]))
    true = np.arange(len(logarithms)) % 3 == 0
    offset = logarithms.sum(axis=1)
    fitted = fit_logistic(
        logarithms, true.astype(float), np.ones(len(logarithms)), ridge=0.002, offset=offset
    )
    expected = 1 / (1 + np.exp(-(fitted[0] + logarithms @ fitted[1:] + offset)))
    assert expected.mean() == pytest.approx(true.mean(), abs=1e-6)
