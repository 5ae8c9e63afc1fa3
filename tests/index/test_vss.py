"""The approximate engine: that the index is used, and what happens where it does not suffice."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from backstory.base.errors import SearchIndexError
from backstory.index.graph import VssGraph, _nearest, make_queries
from backstory.index.request import Filters, Scope, SearchRequest
from backstory.index.search import open_index
from backstory.index.snapshot import GRAPH_FILE
from tests.errors import raises

ABSENT = np.empty((0, 24), np.float32)


@pytest.fixture
def connection(folders: dict[str, Path]) -> Any:
    """The connection of a graph that has searched once."""
    folder = folders["vss"]
    version = (folder / "CURRENT").read_text().strip()
    graph = VssGraph(folder / version / GRAPH_FILE, ABSENT, 64)
    stop = np.ones(1, np.int64)
    graph._fetch(
        np.eye(1, 24, dtype=np.float32), np.arange(1), 5, SearchRequest(top_k=5), Scope(1, stop, None)
    )
    yield graph._connection
    graph.close()


def test_the_plan_uses_the_index_and_nothing_is_downloaded_or_written(connection: Any) -> None:
    plan = "\n".join(str(text) for _, text in connection.execute(f"EXPLAIN {_nearest(5)}").fetchall())
    assert "HNSW_INDEX_JOIN" in plan
    assert "SEQ_SCAN" in plan  # of the queries
    connection.execute("SET disabled_optimizers = ''")
    assert "HNSW_INDEX_JOIN" not in str(connection.execute(f"EXPLAIN {_nearest(5)}").fetchall())
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        connection.execute("DELETE FROM rows")
    settings = connection.execute(
        "SELECT value FROM duckdb_settings() WHERE name IN ('autoinstall_known_extensions', "
        "'autoload_known_extensions')"
    ).fetchall()
    assert settings == [("false",), ("false",)]


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


def test_a_measured_recall_that_is_low_is_a_warning_and_the_graph_is_not_used(
    folders: dict[str, Path], new_corpus: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_index(folders["vss"]) as index:
        assert (index.manifest.recall_at_5 or 0) >= 0.95
    scattered = new_corpus(1500, dimension=200)
    noise = np.random.default_rng(1).normal(size=scattered.vectors.shape)
    scattered.vectors[:] = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    build = scattered.build(tmp_path, ann_min_rows=0, hnsw_m=2, hnsw_ef_construction=8, ef_search=1)
    assert build.recall < 0.9
    assert "raise index.ef_search" in caplog.text
    with open_index(tmp_path) as index:
        result = index.search(scattered.queries(3), SearchRequest(top_k=5))
    assert result.engine == "exact"
    assert "of the best five when it was built" in result.reason


@pytest.fixture(scope="module")
def large(new_corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("large")
    corpus = new_corpus(1_200, dimension=16)
    corpus.build(folder, ann_min_rows=0, hnsw_m=8, hnsw_ef_construction=64)
    with open_index(folder) as index:
        yield corpus, index


def test_more_is_fetched_until_filters_are_satisfied(large: Any, listed: Any, share_found: Any) -> None:
    corpus, index = large
    queries, filters = corpus.queries(20), Filters(kinds=["digest"], tenant="south")
    result = index.search(queries, SearchRequest(top_k=10, filters=filters, overfetch=1))
    assert result.engine == "vss"
    assert hits_each(result.hits) == {10}
    assert share_found(listed(result.hits, 20), corpus.nearest(queries, 10, filters=filters)) >= 0.95


def test_what_the_index_cannot_satisfy_goes_to_the_exact_engine(
    new_corpus: Any, tmp_path: Path, listed: Any
) -> None:
    # All that qualifies is on the other side of the sphere, beyond what is fetched.
    corpus = new_corpus(1_000)
    corpus.vectors[:1600] = np.abs(corpus.vectors[:1600])
    corpus.vectors[1600:] = -np.abs(corpus.vectors[1600:])
    corpus.build(tmp_path, ann_min_rows=0, hnsw_m=8, hnsw_ef_construction=64)
    queries = np.full((3, 24), 24**-0.5, np.float32)
    filters = Filters(document_ids=[f"doc{number:05d}" for number in range(800, 1000)])
    with open_index(tmp_path) as index:
        result = index.search(queries, SearchRequest(top_k=5, filters=filters))
    assert result.engine == "exact"
    assert result.reason.startswith("the HNSW index left 3 of 3 queries short of 5 hits after 1024 rows")
    assert listed(result.hits, 3) == corpus.nearest(queries, 5, filters=filters)


def test_a_threshold_ends_the_search_for_more(large: Any, listed: Any) -> None:
    corpus, index = large
    queries, filters = corpus.queries(5), Filters(kinds=["digest"])
    result = index.search(queries, SearchRequest(top_k=50, filters=filters, min_similarity=0.95))
    assert result.engine == "vss"
    assert listed(result.hits, 5) == corpus.nearest(queries, 50, 0.95, filters)


def test_nprobe_becomes_ef_search_with_a_warning(large: Any) -> None:
    corpus, index = large
    with pytest.warns(UserWarning, match="nprobe is a parameter of IVF indexes"):
        result = index.search(corpus.queries(2), SearchRequest(top_k=5, nprobe=200))
    assert result.reason.startswith("HNSW index of 2400 rows with ef_search 200,")


def test_looking_at_more_candidates_finds_more(
    new_corpus: Any, tmp_path: Path, listed: Any, share_found: Any
) -> None:
    # Without clusters the nearest are hard to find, so that a narrow search misses some.
    corpus = new_corpus(3_000)
    noise = np.random.default_rng(5).normal(size=corpus.vectors.shape)
    corpus.vectors[:] = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    corpus.build(tmp_path, ann_min_rows=0, hnsw_m=8, hnsw_ef_construction=64)
    queries = corpus.queries(40)
    nearest = corpus.nearest(queries, 5)
    narrow = SearchRequest(top_k=5, nprobe=1)
    with open_index(tmp_path) as index, warnings.catch_warnings(action="ignore"):
        found, *wider = [
            share_found(listed(index.search(queries, request).hits, 40), nearest)
            for request in (narrow, replace(narrow, nprobe=400), replace(narrow, overfetch=40))
        ]
    assert found < min(wider)


def test_the_same_content_gives_the_same_answers_when_built_again(large: Any, tmp_path: Path) -> None:
    corpus, index = large
    corpus.build(tmp_path, ann_min_rows=0, hnsw_m=8, hnsw_ef_construction=64)
    queries = corpus.queries(100, seed=3)
    with open_index(tmp_path) as again:
        assert again.manifest.version == index.manifest.version
        first, second = (opened.search(queries, SearchRequest(top_k=50)).hits for opened in (index, again))
        assert first.equals(second)


def hits_each(hits: Any) -> Any:
    return set(hits.group_by("query").len()["len"])


def test_queries_are_like_the_rows_but_not_among_them(new_corpus: Any) -> None:
    vectors = new_corpus(300).vectors
    queries = make_queries(vectors, 100)
    assert np.allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-5)
    best = (queries @ vectors.T).max(axis=1)
    assert best.max() < 1 - 1e-4
    assert best.mean() > np.abs(vectors @ vectors.T).mean()
    assert np.array_equal(queries, make_queries(vectors, 100))
