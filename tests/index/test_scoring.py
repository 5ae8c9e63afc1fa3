"""The one scoring of rows: any cut into blocks, thresholds, missing words, and the fusion of two scores by hand."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.index import scoring, snapshot
from backstory.index.graph import VssGraph
from backstory.index.request import Scope, SearchRequest
from backstory.index.scoring import Matches, find_best, pair_similarities
from backstory.index.search import open_index
from tests.long_tests import some


def unit_rows(count: Any, dimension: int = 8, seed: int = 0) -> Any:
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def by_definition(vectors: Any, queries: Any, limit: int, least: float | None, scope: Scope) -> Matches:
    similarities = (queries.astype(float) @ vectors.astype(float).T).clip(-1, 1).round(9)
    pairs = [
        (query, row, similarities[query, row])
        for query in range(len(queries))
        for row in np.lexsort((np.arange(len(vectors)), -similarities[query]))
        if row < scope.stop[query]
        and (scope.mask is None or scope.mask[row])
        and (least is None or similarities[query, row] >= least)
    ]
    kept = [pair for pair in pairs if sum(p[0] == pair[0] for p in pairs[: pairs.index(pair)]) < limit]
    columns = list(zip(*kept, strict=True)) or [(), (), ()]
    return Matches(
        np.array(columns[0], np.int64), np.array(columns[1], np.int64), np.array(columns[2], float)
    )


def search(vectors: Any, queries: Any, request: SearchRequest, scope: Scope) -> Matches:
    found = find_best(queries, vectors, request, scope)
    return replace(found, score=pair_similarities(queries, vectors, found.query, found.row))


def everything(rows: Any, queries: Any) -> Any:
    return Scope(rows, np.full(queries, rows), None)


def same(found: Matches, expected: Matches) -> bool:
    return all(
        np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("query", "row", "score")
    )


@settings(max_examples=some(80), deadline=None)
@given(data=st.data())
def test_any_cut_into_blocks_gives_the_same(data: Any) -> None:
    rows = data.draw(st.integers(0, 40))
    queries = data.draw(st.integers(0, 11))
    vectors, asked = unit_rows(rows, seed=1), unit_rows(queries, seed=2)
    if rows and data.draw(st.booleans()):
        vectors = vectors[data.draw(st.lists(st.integers(0, min(rows, 3) - 1), min_size=rows, max_size=rows))]
    stop = np.array(data.draw(st.lists(st.integers(0, rows), min_size=queries, max_size=queries)), np.int64)
    mask = data.draw(st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows).map(np.array))
    mask = None if mask is None else mask.astype(bool)
    scope = Scope(rows, stop, mask)
    limit = data.draw(st.integers(1, 9))
    least = data.draw(st.none() | st.floats(-1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "CELLS_AT_ONCE", data.draw(st.integers(4, 60)))
        patch.setattr(scoring, "LEAST_QUERIES", data.draw(st.integers(1, 5)))
        patch.setattr(scoring, "_CROWD", data.draw(st.integers(0, 3)))
        found = search(vectors, asked, SearchRequest(top_k=limit, min_similarity=least), scope)
    assert same(found, by_definition(vectors, asked, limit, least, scope))


def test_many_equal_rows_keep_the_first_ones() -> None:
    vectors = np.repeat(unit_rows(1, 64), 5_000, axis=0)
    found = search(vectors, vectors[:300], SearchRequest(top_k=5), everything(5_000, 300))
    assert found.row.tolist() == [0, 1, 2, 3, 4] * 300


def test_a_large_batch_agrees_with_the_definition() -> None:
    vectors, queries = unit_rows(9_000, 16, seed=3), unit_rows(1_500, 16, seed=4)
    found = search(vectors, queries, SearchRequest(top_k=4), everything(9_000, 1_500))
    similarities = (queries.astype(float) @ vectors.astype(float).T).round(9)
    expected = np.argsort(-similarities, axis=1, kind="stable")[:, :4]
    assert np.array_equal(found.row.reshape(1_500, 4), expected)


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


@pytest.mark.parametrize("engine", ["vss", "exact"])
def test_first_searches_at_once_open_each_part_once(
    folders: dict[str, Path], corpus: Any, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened = folders[engine], list[str]()
    for owner, name in ((VssGraph, "__init__"), (snapshot, "read_terms")):
        opening = getattr(owner, name)

        def note(*arguments: Any, opening: Any = opening, name: str = name) -> Any:
            opened.append(name)
            return opening(*arguments)

        monkeypatch.setattr(owner, name, note)
    started = threading.Barrier(6)
    with open_index(folder) as index:

        def search_first() -> None:
            started.wait()
            index.search(corpus.queries(1), SearchRequest(top_k=3, ranking="hybrid"), texts=["topic1"])

        threads = [threading.Thread(target=search_first) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(opened) == ["__init__"] * (engine == "vss") + ["read_terms"]


def matches(*pairs: Any) -> Matches:
    query, row, score = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Matches(np.array(query, np.int64), np.array(row, np.int64), np.array(score, np.float64))
