"""Fusion of two scores, by hand."""

from typing import Any

import numpy as np
import pytest

from backstory.index.engines.fusion import fuse, unite
from backstory.index.engines.matches import Matches


def matches(*pairs: Any) -> Matches:
    query, row, score = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Matches(np.array(query, np.int64), np.array(row, np.int64), np.array(score, np.float64))


DENSE = matches((0, 7, 0.9), (0, 3, 0.8), (1, 5, 0.4))
KEYWORD = matches((0, 3, 16.0), (0, 9, 4.0), (2, 1, 1.0))


def test_every_pair_is_there_once_with_its_keyword_score() -> None:
    united = unite(DENSE, KEYWORD)
    assert united.query.tolist() == [0, 0, 0, 1, 2]
    assert united.row.tolist() == [3, 7, 9, 5, 1]
    assert united.score.tolist() == [16.0, 0.0, 4.0, 0.0, 1.0]


def test_a_pair_that_keywords_give_twice_counts_once() -> None:
    twice = matches((0, 3, 16.0), (0, 3, 16.0))
    assert unite(DENSE, twice).score.tolist() == [16.0, 0.0, 0.0]


def test_the_root_of_the_keyword_score_is_weighted_and_added() -> None:
    fused = fuse(np.array([0.5, 0.9]), np.array([16.0, 0.0]), 0.05)
    assert fused.tolist() == pytest.approx([0.7, 0.9])


def test_without_weight_the_similarity_decides() -> None:
    similarity = np.array([0.5, 0.9])
    assert fuse(similarity, np.array([16.0, 4.0]), 0.0).tolist() == similarity.tolist()


def test_nothing_united_with_nothing_is_nothing() -> None:
    assert len(unite(matches(), matches())) == 0
