"""The exact engine at the edges of its blocks and of its running bar."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.index.engines import exact
from backstory.index.engines.exact import ExactEngine
from backstory.index.engines.matches import Matches
from backstory.index.engines.scope import Scope
from backstory.index.request import SearchRequest
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


def everything(rows: Any, queries: Any) -> Any:
    return Scope(rows, np.full(queries, rows), None, np.full(queries, rows))


def same(found: Matches, expected: Matches) -> bool:
    return all(
        np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("query", "row", "score")
    )


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "QUERIES_AT_ONCE", 4)
    monkeypatch.setattr(exact, "QUERIES_PER_POOL", 2)
    monkeypatch.setattr(exact, "SCORES_AT_ONCE", 28)
    monkeypatch.setattr(exact, "RUN_OF_ROWS", 3)
    monkeypatch.setattr(exact, "SAMPLED_SCORES", 4)
    monkeypatch.setattr(exact, "CROWD", 1)


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
    scope = Scope(rows, stop, mask, stop)
    limit = data.draw(st.integers(1, 9))
    least = data.draw(st.none() | st.floats(-1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "QUERIES_AT_ONCE", 4)
        patch.setattr(exact, "QUERIES_PER_POOL", 2)
        patch.setattr(exact, "RUN_OF_ROWS", data.draw(st.integers(1, 6)))
        patch.setattr(exact, "GATHERING_COST", data.draw(st.sampled_from([0, 10_000])))
        patch.setattr(exact, "SCORES_AT_ONCE", data.draw(st.integers(4, 60)))
        patch.setattr(exact, "SAMPLED_SCORES", data.draw(st.integers(1, 8)))
        patch.setattr(exact, "CROWD", data.draw(st.integers(0, 3)))
        found = ExactEngine(vectors).search(asked, SearchRequest(top_k=limit, min_similarity=least), scope)
    assert same(found, by_definition(vectors, asked, limit, least, scope))


@pytest.mark.usefixtures("tiny_blocks")
def test_rows_in_ascending_order_of_similarity_are_all_looked_at() -> None:
    angles = np.linspace(np.pi, 0, 200)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    query = np.array([[1, 0]], np.float32)
    found = ExactEngine(vectors).search(query, SearchRequest(top_k=3), everything(200, 1))
    assert found.row.tolist() == [199, 198, 197]


def test_many_equal_rows_keep_the_first_ones() -> None:
    vectors = np.repeat(unit_rows(1, 64), 5_000, axis=0)
    found = ExactEngine(vectors).search(vectors[:300], SearchRequest(top_k=5), everything(5_000, 300))
    assert found.row.tolist() == [0, 1, 2, 3, 4] * 300


def test_a_large_batch_agrees_with_the_definition() -> None:
    vectors, queries = unit_rows(9_000, 16, seed=3), unit_rows(1_500, 16, seed=4)
    found = ExactEngine(vectors).search(queries, SearchRequest(top_k=4), everything(9_000, 1_500))
    similarities = (queries.astype(float) @ vectors.astype(float).T).round(9)
    expected = np.argsort(-similarities, axis=1, kind="stable")[:, :4]
    assert np.array_equal(found.row.reshape(1_500, 4), expected)
