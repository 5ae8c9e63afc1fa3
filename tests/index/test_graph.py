"""What is measured of an HNSW index when it is published."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backstory.index.graph import GOOD_RECALL, SAMPLED_QUERIES, make_queries, share_found
from backstory.index.scoring import Matches
from backstory.index.snapshot import read_manifest


def matches(*pairs: tuple[int, int, float]) -> Matches:
    query, row, score = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Matches(np.array(query, np.int64), np.array(row, np.int64), np.array(score, np.float64))


EXACT = ((0, 4, 0.9), (0, 1, 0.8), (1, 7, 0.7), (1, 2, 0.6))


@pytest.mark.parametrize(
    ("found", "share"),
    [
        (EXACT, 1.0),
        (((0, 4, 0.9), (0, 9, 0.8), (1, 7, 0.7), (1, 8, 0.6)), 1.0),  # as similar as the exact ones
        (((0, 4, 0.9), (0, 3, 0.7), (1, 7, 0.7), (1, 2, 0.6)), 0.75),
        (((1, 5, 0.5), (1, 6, 0.4)), 0.0),
        ((), 0.0),
    ],
)
def test_a_row_counts_that_is_as_similar_as_the_exact_ones(
    found: tuple[tuple[int, int, float], ...], share: float
) -> None:
    assert share_found(matches(*found), matches(*EXACT)) == share


def test_nothing_to_find_is_all_found_and_no_answer_is_nothing() -> None:
    assert share_found(matches(), matches()) == 1.0
    assert share_found("the index left queries short", matches(*EXACT)) == 0.0


def test_queries_are_like_the_rows_but_not_among_them(new_corpus: Any) -> None:
    vectors = new_corpus(300).vectors
    queries = make_queries(vectors, 100)
    assert np.allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-5)
    best = (queries @ vectors.T).max(axis=1)
    assert best.max() < 1 - 1e-4
    assert best.mean() > np.abs(vectors @ vectors.T).mean()
    assert np.array_equal(queries, make_queries(vectors, 100))


def test_the_manifest_says_what_was_found_and_of_how_many(new_corpus: Any, tmp_path: Path) -> None:
    corpus = new_corpus(100)
    build = corpus.build(tmp_path, ann_min_rows=0)
    record = read_manifest(build.folder).hnsw
    assert record is not None
    assert (record.recall_at_5, record.sampled_rows) == (build.recall, SAMPLED_QUERIES)
    assert f"{build.recall:.1%} of the best five of {SAMPLED_QUERIES} queries" in record.describe()


def test_too_little_found_is_a_warning_that_says_what_to_raise(
    new_corpus: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "backstory.index.graph"):
        build = new_corpus(1000).build(
            tmp_path, ann_min_rows=0, hnsw_m=2, hnsw_ef_construction=8, ef_search=1
        )
    assert build.recall < GOOD_RECALL
    assert "raise index.ef_search" in caplog.text
    assert "index.hnsw_ef_construction" in caplog.text
