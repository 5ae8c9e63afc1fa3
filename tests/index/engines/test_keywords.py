"""BM25 against an independent computation of the published formula."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.index.engines.keywords import read_keywords, write_keywords
from backstory.index.engines.scope import Scope
from backstory.index.request import SearchRequest

K1, B = 1.5, 0.75


def okapi(texts: Any, query: Any) -> Any:
    """Robertson and Zaragoza 2009, equation 3.15, with Lucene's idf that is never negative."""
    rows = [text.split() for text in texts]
    average = sum(map(len, rows)) / len(rows)
    scores = []
    for row in rows:
        counts, score = Counter(row), 0.0
        for word in set(query.split()):
            holders = sum(word in other for other in rows)
            idf = math.log(1 + (len(rows) - holders + 0.5) / (holders + 0.5))
            frequency = counts[word]
            score += idf * frequency / (frequency + K1 * (1 - B + B * len(row) / average)) if holders else 0.0
        scores.append(score)
    return scores


def search(keywords: Any, texts: Any, limit: Any, scope: Any) -> Any:
    return keywords.search(keywords.find_terms(texts, most=32), SearchRequest(top_k=limit), scope)


def everything(rows: Any, queries: int = 1) -> Any:
    return Scope(rows, np.full(queries, rows), None, np.full(queries, rows))


sentences = st.lists(st.sampled_from(["ant", "bee", "cat", "dog", "elk", "fox"]), max_size=8).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(sentences, min_size=1, max_size=12), query=sentences, limit=st.integers(1, 15))
def test_scores_are_those_of_the_formula(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, limit: int
) -> None:
    folder = tmp_path_factory.mktemp("keywords")
    count = write_keywords(folder, texts, "none")
    assert count == len(set(" ".join(texts).split()))
    found = search(read_keywords(folder, "none", count), [query], limit, everything(len(texts)))
    expected = okapi(texts, query)
    assert found.score == pytest.approx([expected[row] for row in found.row], rel=1e-5)
    best = sorted((score for score in expected if score > 0), reverse=True)[:limit]
    assert found.score == pytest.approx(best, rel=1e-5)
    assert np.array_equal(np.lexsort((found.row, -found.score)), np.arange(len(found)))


@pytest.fixture
def keywords(tmp_path: Path) -> Any:
    texts = ["Closing a channel", "channels CVE-2024-1234", "the fee market", "channel channel fee", ""]
    return read_keywords(tmp_path, "english", write_keywords(tmp_path, texts, "english"))


def test_a_batch_is_answered_query_by_query(keywords: Any) -> None:
    found = search(
        keywords, ["the closed channels", "", "cve-2024-1234", "the of", "unheard"], 9, everything(5, 5)
    )
    pairs = list(zip(found.query.tolist(), found.row.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 3), (0, 1), (2, 1)]


def test_rows_outside_the_scope_are_not_found(keywords: Any) -> None:
    mask = np.array([True, False, True, True, True])
    scope = Scope(5, np.array([3, 5]), mask, np.array([2, 4]))
    found = search(keywords, ["channel", "channel"], 9, scope)
    assert list(zip(found.query.tolist(), found.row.tolist(), strict=True)) == [(0, 0), (1, 3), (1, 0)]


def test_rows_without_any_word_make_an_index_that_finds_nothing(tmp_path: Path) -> None:
    count = write_keywords(tmp_path, ["", "the of", "..."], "english")
    assert count == 0
    assert len(search(read_keywords(tmp_path, "english", count), ["the word"], 5, everything(3))) == 0


def test_of_a_long_query_the_rarest_words_are_compared_once_each(tmp_path: Path) -> None:
    texts = ["ant bee", "ant cat", "ant bee dog", "ant"]
    keywords = read_keywords(tmp_path, "none", write_keywords(tmp_path, texts, "none"))

    def scores(query: str, most: int | None) -> Any:
        terms = keywords.find_terms([query], most)
        return keywords.score(terms, 0, 1, 0, len(texts))[0].tolist()

    assert scores("ant ant bee bee bee dog dog cat", 2) == pytest.approx(okapi(texts, "cat dog"), rel=1e-5)
    assert scores("dog ant bee", 3) == pytest.approx(okapi(texts, "ant bee dog"), rel=1e-5)


def test_without_a_limit_words_count_by_the_logarithm_of_their_number(tmp_path: Path) -> None:
    texts = ["ant bee", "cat", "bee"]
    keywords = read_keywords(tmp_path, "none", write_keywords(tmp_path, texts, "none"))
    found = keywords.score(keywords.find_terms(["bee bee bee"], None), 0, 1, 0, 3)[0]
    expected = (1 + math.log(3)) * np.array(okapi(texts, "bee"))
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_scores_do_not_depend_on_what_is_scored_beside(
    keywords: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    queries = ["closing channels", "", "fee market", "channel fee cve 1234", "the fee"]
    terms = keywords.find_terms(queries, 32)
    together = keywords.score(terms, 0, 5, 0, 5)
    found = keywords.search(terms, SearchRequest(top_k=2), everything(5, 5))
    monkeypatch.setattr("backstory.index.engines.keywords.CELLS_AT_ONCE", at_once)
    for query in range(5):
        for start, stop in ((0, 4), (1, 5), (2, 2)):
            alone = keywords.score(terms, query, query + 1, start, stop)[0]
            assert np.array_equal(alone, together[query, start:stop])
    again = keywords.search(terms, SearchRequest(top_k=2), everything(5, 5))
    assert [again.query.tolist(), again.row.tolist(), again.score.tolist()] == [
        found.query.tolist(),
        found.row.tolist(),
        found.score.tolist(),
    ]
