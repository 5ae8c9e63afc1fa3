"""Exact hybrid search where groups, thresholds and missing words could go wrong."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import SearchIndexError
from backstory.index.engines.scope import Scope
from backstory.index.request import SearchRequest
from backstory.index.snapshot.opening import open_index
from tests.errors import raises


@given(
    stop=st.lists(st.integers(0, 9), max_size=40),
    cells=st.integers(1, 60),
    least=st.integers(1, 5),
)
def test_groups_tile_the_queries_and_keep_to_their_size(stop: list[int], cells: int, least: int) -> None:
    stops = np.array(stop, np.int64)
    groups = list(Scope(9, stops, None, stops).groups(cells, least=least))
    assert [query for first, last in groups for query in range(first, last)] == list(range(len(stop)))
    for first, last in groups:
        assert last - first <= least or (last - first) * stops[first:last].max() <= cells


@pytest.fixture
def wordy(new_corpus: Any) -> Any:
    """2,000 rows: three lie where the query does and hold none of its words, the rest lie across."""
    corpus = new_corpus(1000)
    vectors = np.zeros((2000, 24), np.float32)
    vectors[np.arange(2000), 1 + np.arange(2000) % 23] = 1
    vectors[:3] = np.eye(1, 24, dtype=np.float32)
    corpus.vectors[:] = vectors
    texts = ["zephyr" if row % 64 == 5 else "filler" for row in range(2000)]
    corpus.chunks.replace_column(corpus.chunks.columns.index("text"), pl.Series("text", texts))
    return corpus


def test_words_do_not_crowd_out_what_reaches_the_threshold(wordy: Any, tmp_path: Path) -> None:
    wordy.build(tmp_path)
    asked = SearchRequest(top_k=3, ranking="hybrid", keyword_weight=1.0)
    query = np.eye(1, 24, dtype=np.float32)
    with open_index(tmp_path) as index:
        loud = index.search(query, asked, texts=["zephyr"]).hits
        near = index.search(query, replace(asked, min_similarity=0.5), texts=["zephyr"]).hits
    assert loud["keyword_score"].null_count() == 0
    assert near["similarity"].to_list() == [1.0] * 3
    assert sorted(near["chunk_id"]) == sorted(wordy.chunks["chunk_id"][:3])


@pytest.mark.parametrize("ann_min_rows", [0, 1_000_000])
def test_without_any_known_word_the_vectors_decide(
    new_corpus: Any, tmp_path: Path, ann_min_rows: int
) -> None:
    corpus = new_corpus(30)
    silent = {"text": "...", "heading": ""}
    for column, value in silent.items():
        place = corpus.chunks.columns.index(column)
        corpus.chunks.replace_column(place, pl.Series(column, [value] * len(corpus.chunks)))
    place = corpus.documents.columns.index("title")
    corpus.documents.replace_column(place, pl.Series("title", ["the"] * len(corpus.documents)))
    corpus.build(tmp_path, ann_min_rows=ann_min_rows)
    queries = corpus.queries(4)
    with open_index(tmp_path) as index:
        hybrid = index.search(queries, SearchRequest(top_k=3, ranking="hybrid"), texts=["words"] * 4).hits
        dense = index.search(queries, SearchRequest(top_k=3)).hits
        keyword = index.search(queries, SearchRequest(top_k=3, ranking="keyword"), texts=["words"] * 4).hits
    assert hybrid["chunk_id"].equals(dense["chunk_id"])
    assert keyword.is_empty()


def test_early_windows_take_memory_for_the_rows_that_they_may_be_given(folders: dict[str, Path]) -> None:
    with open_index(folders["exact"]) as index:
        terms = index._engines.keywords.find_terms(["topic1 item3"] * 5, 32)
        early = index._engines.keywords.score(terms, 0, 5, 0, 40)
        late = index._engines.keywords.score(terms, 0, 5, 0, index.rows)
    assert early.shape == (5, 40)
    assert np.array_equal(early, late[:, :40])


def test_only_an_hnsw_index_needs_the_extension(
    new_corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb_extension_vss", None)
    corpus = new_corpus(20)
    corpus.build(tmp_path / "plain")
    with open_index(tmp_path / "plain") as index:
        assert index.describe(corpus.chunks["chunk_id"][:2]).height == 2
    with raises(SearchIndexError, "no_vss_extension"):
        corpus.build(tmp_path / "approximate", ann_min_rows=0)
