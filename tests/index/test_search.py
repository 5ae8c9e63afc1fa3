"""One suite over every engine: the same calls, the same answers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from backstory.base.errors import BackstoryError, InputError
from backstory.index.request import Filters, Ranking, SearchRequest
from backstory.index.search import SearchIndex, open_index
from tests.errors import raises
from tests.index.conftest import EPOCH

COLUMNS = ["query", "chunk_id", "document_id", "similarity", "keyword_score", "score", "rank"]


def test_search_agrees_with_comparing_every_pair(
    engine: str, index: SearchIndex, corpus: Any, listed: Any, share_found: Any
) -> None:
    queries = corpus.queries(60)
    result = index.search(queries, SearchRequest(top_k=5))
    assert result.engine == engine
    found, expected = listed(result.hits, 60), corpus.nearest(queries, 5)
    if engine == "exact":
        assert found == expected
    assert share_found(found, expected) >= 0.95


def test_every_result_names_its_engine_and_why(engine: str, index: SearchIndex, corpus: Any) -> None:
    ann, exact = (
        index.search(corpus.queries(2), SearchRequest(top_k=1, mode=mode)) for mode in ("ann", "exact")
    )
    reasons = {
        "exact": f"{index.manifest.rows} rows are below ann_min_rows 1000000",
        "vss": f"HNSW index of {index.manifest.rows} rows with ef_search 256, which found ",
        "milvus": f"Milvus collection {index.manifest.collection}_{index.manifest.version} of "
        f"{index.manifest.rows} rows with ef_search 264, which ",
    }
    assert ann.engine == engine
    assert ann.reason.startswith(reasons[engine])
    recall = index.manifest.recall_at_5
    assert recall is None or f"{recall:.1%}" in ann.reason
    assert (exact.engine, exact.reason) == ("exact", "the request sets mode exact")


def test_hits_are_a_table_ordered_by_query_and_rank(index: SearchIndex, corpus: Any) -> None:
    hits = index.search(corpus.queries(10), SearchRequest(top_k=4)).hits
    assert hits.columns == COLUMNS
    assert hits.schema["keyword_score"] == pl.Float64
    assert hits["query"].to_list() == [query for query in range(10) for _ in range(4)]
    assert hits["rank"].to_list() == [1, 2, 3, 4] * 10
    assert hits["score"].equals(hits["similarity"], check_names=False)
    assert hits["keyword_score"].null_count() == len(hits)


def test_a_query_is_answered_alone_as_in_a_batch(index: SearchIndex, corpus: Any, listed: Any) -> None:
    queries = corpus.queries(20)
    together = listed(index.search(queries, SearchRequest(top_k=5)).hits, 20)
    alone = [listed(index.search(queries[i : i + 1], SearchRequest(top_k=5)).hits, 1)[0] for i in range(20)]
    assert together == alone


def test_no_queries_give_no_hits(index: SearchIndex) -> None:
    result = index.search(np.empty((0, index.manifest.dimension), np.float32), SearchRequest(top_k=5))
    assert result.hits.shape == (0, len(COLUMNS))


def test_more_asked_for_than_there_is_gives_all(
    engine: str, settings_of: Any, new_corpus: Any, tmp_path: Path, listed: Any
) -> None:
    small = new_corpus(9)
    small.build(tmp_path, **settings_of(engine))
    queries = small.queries(3)
    with open_index(tmp_path) as index:
        result = index.search(queries, SearchRequest(top_k=500))
    assert result.engine == engine
    assert listed(result.hits, 3) == small.nearest(queries, 500)


def test_an_empty_index_answers(engine: str, settings_of: Any, new_corpus: Any, tmp_path: Path) -> None:
    nothing = new_corpus(0)
    build = nothing.build(tmp_path, **settings_of(engine))
    assert (build.rows, build.built) == (0, True)
    query = np.eye(1, 24, dtype=np.float32)
    with open_index(tmp_path) as index:
        for ranking in ("dense", "keyword", "hybrid"):
            result = index.search(query, SearchRequest(top_k=5, ranking=ranking), texts=["words"])
            assert result.hits.shape == (0, len(COLUMNS))
        assert index.search(query, SearchRequest(top_k=5)).reason == "the index is empty"


def test_a_threshold_admits_what_reaches_it(index: SearchIndex, corpus: Any, listed: Any) -> None:
    queries = corpus.queries(15)
    boundary = corpus.nearest(queries, 3)[0][2][1]
    found = listed(index.search(queries, SearchRequest(top_k=5, min_similarity=boundary)).hits, 15)
    assert found == corpus.nearest(queries, 5, boundary)
    assert found[0][-1][1] == boundary
    above = listed(index.search(queries, SearchRequest(top_k=5, min_similarity=boundary + 1e-9)).hits, 15)
    assert above[0] == found[0][:-1]


def test_equal_vectors_are_ordered_by_date_then_chunk(
    engine: str, settings_of: Any, new_corpus: Any, tmp_path: Path, listed: Any
) -> None:
    twins = new_corpus(40)
    twins.vectors[:] = twins.vectors[0]
    twins.build(tmp_path, **settings_of(engine))
    with open_index(tmp_path) as index:
        result = index.search(twins.vectors[:2], SearchRequest(top_k=80))
    # Among many equal rows, a graph may not lead to all.
    assert result.engine in (engine, "exact")
    assert listed(result.hits, 2) == twins.nearest(twins.vectors[:2], 80)


@pytest.mark.parametrize("ranking", ["keyword", "hybrid"])
def test_similarity_is_the_cosine_under_every_ranking(
    index: SearchIndex, corpus: Any, ranking: Ranking
) -> None:
    queries = corpus.queries(6)
    texts = [f"topic{number} item{number * 3}" for number in range(6)]
    hits = index.search(queries, SearchRequest(top_k=8, ranking=ranking), texts=texts).hits
    expected = dict(enumerate(dict(found) for found in corpus.nearest(queries, 10_000)))
    assert hits.height == 48
    for query, chunk_id, similarity in hits.select("query", "chunk_id", "similarity").iter_rows():
        assert similarity == expected[query][chunk_id]


@pytest.mark.parametrize("ranking", ["dense", "keyword", "hybrid"])
def test_a_threshold_and_filters_hold_under_every_ranking(
    index: SearchIndex, corpus: Any, ranking: Ranking
) -> None:
    queries = corpus.queries(6)
    texts = [f"topic{number}" for number in range(6)]
    filters = Filters(kinds=["post"], tenant="north")
    hits = index.search(
        queries, SearchRequest(top_k=8, ranking=ranking, min_similarity=0.1, filters=filters), texts=texts
    ).hits
    admitted = {(q, c) for q, f in enumerate(corpus.nearest(queries, 9999, 0.1, filters)) for c, _ in f}
    assert hits.height
    assert set(hits.select("query", "chunk_id").iter_rows()) <= admitted
    assert set(hits["rank"]) <= set(range(1, 9))


def test_keywords_find_the_words_of_the_text(index: SearchIndex, corpus: Any) -> None:
    result = index.search(
        corpus.queries(1), SearchRequest(top_k=3, ranking="keyword"), texts=["where is ITEM42?"]
    )
    assert result.engine == "bm25"
    assert set(result.hits["document_id"]) == {"doc00042"}
    assert result.hits["score"].equals(result.hits["keyword_score"], check_names=False)


def test_hybrid_gives_both_rankings_their_weight(index: SearchIndex, corpus: Any) -> None:
    query, texts = corpus.queries(1), ["item42"]
    dense = index.search(query, SearchRequest(top_k=3)).hits["chunk_id"].to_list()
    first = {
        weight: index.search(
            query, SearchRequest(top_k=3, ranking="hybrid", keyword_weight=weight), texts=texts
        )
        .hits["chunk_id"]
        .to_list()
        for weight in (0.0, 0.9, 1.0)
    }
    assert first[0.0] == dense
    assert first[0.9][0] == first[1.0][0] == "doc00042#rev:r1#p:0#m:t#c:0"
    assert dense[0] in first[0.9]


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("least", [None, 0.4])
def test_hybrid_agrees_with_fusing_the_scores_of_every_pair(
    index: SearchIndex,
    corpus: Any,
    share_found: Any,
    monkeypatch: pytest.MonkeyPatch,
    restricted: bool,
    least: float | None,
) -> None:
    count = 24
    queries = corpus.queries(count)
    texts = [f"topic{number % 7} item{number * 5} topic{number % 3}" for number in range(count)]
    moments = [EPOCH + timedelta(days=3 * number) for number in range(count)]
    filters = Filters(as_of=moments, tags=["bitcoin", "mining"]) if restricted else Filters()
    everything = len(corpus.chunks)
    by_words = SearchRequest(top_k=everything, ranking="keyword", filters=filters, min_similarity=least)
    keywords = index.search(queries, by_words, texts=texts).hits
    bonus = {(q, c): 0.1 * s**0.5 for q, c, s in keywords.select("query", "chunk_id", "score").iter_rows()}
    expected = [
        [
            chunk_id
            for _, _, chunk_id in sorted((-s - bonus.get((number, c), 0.0), -s, c) for c, s in found)[:6]
        ]
        for number, found in enumerate(corpus.nearest(queries, everything, least, filters))
    ]
    # Several groups of queries, and several blocks of rows in each.
    monkeypatch.setattr("backstory.index.scoring.CELLS_AT_ONCE", 3000)
    monkeypatch.setattr("backstory.index.scoring.LEAST_QUERIES", 7)
    result = index.search(
        queries, SearchRequest(top_k=6, ranking="hybrid", filters=filters, min_similarity=least), texts=texts
    )
    found = [result.hits.filter(query=number)["chunk_id"].to_list() for number in range(count)]
    scores = result.hits.with_columns(
        fused=pl.col("similarity") + 0.1 * pl.col("keyword_score").fill_null(0).sqrt()
    )
    assert scores["score"].to_list() == pytest.approx(scores["fused"].to_list(), abs=1e-12)
    if result.engine == "exact":
        assert [set(row) for row in found] == [set(row) for row in expected]
    else:
        assert (
            share_found([[(c, 0) for c in row] for row in found], [[(c, 0) for c in row] for row in expected])
            > 0.95
        )


def test_descriptions_and_vectors_come_in_the_order_asked_for(index: SearchIndex, corpus: Any) -> None:
    wanted = corpus.chunks["chunk_id"].gather([30, 3, 3, 17])
    described = index.describe(wanted)
    assert described.select(corpus.chunks.columns).equals(corpus.chunks[[30, 3, 3, 17]])
    assert described["title"].to_list() == ["Post 15", "Post 1", "Post 1", "Post 8"]
    assert described["published_at"].equals(corpus.documents["published_at"][[15, 1, 1, 8]])
    assert np.array_equal(index.vectors_of(wanted), corpus.vectors[[30, 3, 3, 17]])
    assert index.describe([]).height == 0
    assert index.vectors_of([]).shape == (0, 24)
    with raises(InputError, "unknown_chunk", "other"):
        index.describe(["other"])


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        *(({name: 0}, "out_of_range", [name, 0]) for name in ("top_k", "nprobe", "overfetch")),
        *(({name: 1.5}, "out_of_range", [name, 1.5]) for name in ("min_similarity", "keyword_weight")),
        ({"ranking": "keyword"}, "wrong_count", ["keyword", 2]),
        ({"ranking": "hybrid", "texts": ["one"]}, "wrong_count", ["hybrid", 2]),
        ({"filters": Filters(as_of=[None])}, "wrong_count", ["as_of", 1, 2]),
        ({"queries": np.ones((2, 24), np.float32)}, "unusable_vectors", [0]),
        ({"queries": np.full((2, 24), np.nan, np.float32)}, "unusable_vectors", [0]),
        ({"queries": np.eye(2, 25, dtype=np.float32)}, "embedder_mismatch", [24, 25]),
    ],
)
def test_a_wrong_argument_is_an_error_that_says_so(
    folders: Any, corpus: Any, arguments: dict[str, Any], code: str, named: list[object]
) -> None:
    asked = {"top_k": 5} | arguments
    queries, texts = asked.pop("queries", corpus.queries(2)), asked.pop("texts", None)
    with open_index(folders["exact"]) as index, raises(BackstoryError, code, *named):
        index.search(queries, SearchRequest(**asked), texts=texts)
