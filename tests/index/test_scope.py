"""Hiding and admitting are one rule."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backstory.index.request import Scope

ROWS = 12


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    stop = np.array(draw(st.lists(st.integers(0, ROWS), min_size=1, max_size=5)), np.int64)
    mask = draw(st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS).map(np.array))
    return Scope(ROWS, stop, mask)


def shown(scope: Scope, first: int = 0, start: int = 0, rows: int = ROWS) -> list[list[bool]]:
    scores = np.zeros((len(scope.stop) - first, rows - start), np.float32)
    scope.hide(scores, first, start)
    assert set(np.unique(scores)) <= {0, -np.inf}
    visible: list[list[bool]] = (scores == 0).tolist()
    return visible


@given(scopes(), st.integers(0, 4), st.integers(0, ROWS - 1))
def test_a_row_is_hidden_unless_it_is_admitted(scope: Scope, first: int, start: int) -> None:
    first = min(first, len(scope.stop) - 1)
    expected = [
        [bool(scope.admits(np.array([query]), np.array([row]))[0]) for row in range(start, ROWS)]
        for query in range(first, len(scope.stop))
    ]
    assert shown(scope, first, start) == expected
    assert [sum(row) for row in shown(scope)] == scope.allowed.tolist()
