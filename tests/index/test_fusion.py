"""Reciprocal rank fusion, by hand."""

from typing import Any

import numpy as np
import pytest

from backstory.index.fusion import fuse
from backstory.index.matches import Matches


def matches(*pairs: Any) -> Any:
    query, row, score = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Matches(np.array(query, np.int64), np.array(row, np.int64), np.array(score, np.float64))


DENSE = matches((0, 7, 0.9), (0, 3, 0.8), (1, 5, 0.4))
KEYWORD = matches((0, 3, 12.0), (0, 9, 2.0), (2, 1, 1.0))


def test_ranks_are_weighted_and_added() -> None:
    fused = fuse(DENSE, KEYWORD, 0.25)
    assert fused.query.tolist() == [0, 0, 0, 1, 2]
    assert fused.row.tolist() == [3, 7, 9, 5, 1]
    assert fused.score.tolist() == pytest.approx(
        [0.75 / 62 + 0.25 / 61, 0.75 / 61, 0.25 / 62, 0.75 / 61, 0.25 / 61], rel=1e-12
    )


@pytest.mark.parametrize(("weight", "rows"), [(0.0, [7, 3, 5]), (1.0, [3, 9, 1])])
def test_a_ranking_without_weight_adds_nothing(weight: float, rows: list[int]) -> None:
    assert fuse(DENSE, KEYWORD, weight).row.tolist() == rows


def test_equal_scores_are_ordered_by_row() -> None:
    assert fuse(matches((0, 8, 0.5)), matches((0, 2, 3.0)), 0.5).row.tolist() == [2, 8]


def test_nothing_fused_with_nothing_is_nothing() -> None:
    assert len(fuse(matches(), matches(), 0.5)) == 0
