"""BM25 against an independent computation of the published formula."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.index.keywords import KeywordIndex
from backstory.index.request import Scope, SearchRequest
from backstory.index.terms import count_rows, order_entries, read_terms, score_rows, write_terms
from tests.long_tests import some

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


def build(folder: Path, texts: list[str], stemmers: list[str], counted: Any = None) -> Any:
    """Write a keyword index into a folder that is not there yet, and open it."""
    rows = list(zip(range(len(texts)), stemmers, texts, strict=True))
    counts = [True] * len(texts) if counted is None else counted
    statistics, people = count_rows(row for row, counts in zip(rows, counts, strict=True) if counts)
    others = score_rows((row for row, counts in zip(rows, counts, strict=True) if not counts), statistics)
    write_terms(folder, order_entries([people, others], statistics), statistics)
    return KeywordIndex(*read_terms(folder, statistics.languages, statistics.mean_words))


def index(folder: Path, texts: list[str], stemmer: str) -> Any:
    return build(folder / "terms", texts, [stemmer] * len(texts))


def search(keywords: Any, texts: Any, limit: Any, scope: Any) -> Any:
    return keywords.search(keywords.find_terms(texts, most=32), SearchRequest(top_k=limit), scope)


def everything(rows: Any, queries: int = 1) -> Any:
    return Scope(rows, np.full(queries, rows), None)


sentences = st.lists(st.sampled_from(["ant", "bee", "cat", "dog", "elk", "fox"]), max_size=8).map(" ".join)


@settings(max_examples=some(60), deadline=None)
@given(texts=st.lists(sentences, min_size=1, max_size=12), query=sentences, limit=st.integers(1, 15))
def test_scores_are_those_of_the_formula(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, limit: int
) -> None:
    keywords = index(tmp_path_factory.mktemp("keywords"), texts, "none")
    assert keywords.statistics.numbers.keys() == {f"none {word}" for word in " ".join(texts).split()}
    found = search(keywords, [query], limit, everything(len(texts)))
    expected = okapi(texts, query)
    assert found.score == pytest.approx([expected[row] for row in found.row], rel=1e-5)
    best = sorted((score for score in expected if score > 0), reverse=True)[:limit]
    assert found.score == pytest.approx(best, rel=1e-5)
    assert np.array_equal(np.lexsort((found.row, -found.score)), np.arange(len(found)))


@pytest.fixture
def keywords(tmp_path: Path) -> Any:
    texts = ["Closing a channel", "channels CVE-2024-1234", "the fee market", "channel channel fee", ""]
    return index(tmp_path, texts, "english")


def test_a_batch_is_answered_query_by_query(keywords: Any) -> None:
    found = search(
        keywords, ["the closed channels", "", "cve-2024-1234", "the of", "unheard"], 9, everything(5, 5)
    )
    pairs = list(zip(found.query.tolist(), found.row.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 3), (0, 1), (2, 1)]


def test_rows_outside_the_scope_are_not_found(keywords: Any) -> None:
    mask = np.array([True, False, True, True, True])
    scope = Scope(5, np.array([3, 5]), mask)
    found = search(keywords, ["channel", "channel"], 9, scope)
    assert list(zip(found.query.tolist(), found.row.tolist(), strict=True)) == [(0, 0), (1, 3), (1, 0)]


def test_of_a_long_query_the_rarest_words_are_compared_once_each(tmp_path: Path) -> None:
    texts = ["ant bee", "ant cat", "ant bee dog", "ant"]
    keywords = index(tmp_path, texts, "none")

    def scores(query: str, most: int | None) -> Any:
        terms = keywords.find_terms([query], most)
        return keywords.score(terms, 0, 1, 0, len(texts))[0].tolist()

    assert scores("ant ant bee bee bee dog dog cat", 2) == pytest.approx(okapi(texts, "cat dog"), rel=1e-5)
    assert scores("dog ant bee", 3) == pytest.approx(okapi(texts, "ant bee dog"), rel=1e-5)


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_scores_do_not_depend_on_what_is_scored_beside(
    keywords: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    queries = ["closing channels", "", "fee market", "channel fee cve 1234", "the fee"]
    terms = keywords.find_terms(queries, 32)
    together = keywords.score(terms, 0, 5, 0, 5)
    found = keywords.search(terms, SearchRequest(top_k=2), everything(5, 5))
    monkeypatch.setattr("backstory.index.keywords.CELLS_AT_ONCE", at_once)
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


FROST = ["frost on the elbow", "frost and solar panels", "frost at night", ""]
MIXED = {
    "german": ["Die Häuser am Hafen", "Ein Haus im Garten von Málaga", "Der Hafen", "Im Garten"],
    "portuguese": ["As casas de Malaga", "Uma casa perto do porto"],
    "none": ["東京の家", "猫と犬"],
}
ROWS = [(row, stemmer) for stemmer, rows in MIXED.items() for row in rows]


@pytest.fixture
def mixed(tmp_path: Path) -> Any:
    return build(tmp_path / "terms", *map(list, zip(*ROWS, strict=True)))


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("ein Haus, das Häuschen", {0, 1}),
        ("casas", {4, 5}),
        ("wohin in Malaga", {1, 4}),
        ("MÁLAGA", {1, 4}),
        ("die, um, as", set()),
        ("東京 neko 猫", {6, 7}),
    ],
)
def test_words_are_found_in_the_form_of_each_language(mixed: Any, query: str, rows: set[int]) -> None:
    assert set(search(mixed, [query], 9, everything(len(ROWS))).row.tolist()) == rows


def test_a_word_weighs_the_same_beside_other_languages(mixed: Any, tmp_path_factory: Any) -> None:
    alone = index(tmp_path_factory.mktemp("german"), MIXED["german"], "german")
    queries = ["Haus am Hafen", "Garten Häuser Haus", "Málaga"]
    scores = [each.score(each.find_terms(queries, 32), 0, 3, 0, 4) for each in (alone, mixed)]
    by_itself, beside = scores
    assert np.array_equal(np.argsort(-by_itself, kind="stable"), np.argsort(-beside, kind="stable"))
    assert np.array_equal(by_itself > 0, beside > 0)


def test_few_rows_of_a_wrong_language_do_not_say_which_words_are_rare(tmp_path: Path) -> None:
    texts = [f"the fox and server {number}" if number < 2 else f"a server {number}" for number in range(20)]
    texts.append("the server of the house")
    keywords = build(tmp_path / "terms", texts, ["english"] * 20 + ["french"])
    terms = keywords.find_terms(["is the fox of the server"], most=1)
    scores = keywords.score(terms, 0, 1, 0, len(texts))[0]
    assert np.flatnonzero(scores).tolist() == [0, 1]


def test_a_stop_word_of_one_language_is_a_word_of_another_that_has_enough_rows(tmp_path: Path) -> None:
    german, english = ["der Hund und die Katze"] * 12, ["the war of the roses", *["a garden"] * 10]
    keywords = build(tmp_path / "terms", german + english, ["german"] * 12 + ["english"] * 11)
    scores = keywords.score(keywords.find_terms(["war"], most=32), 0, 1, 0, 23)[0]
    assert np.flatnonzero(scores).tolist() == [12]


def test_rows_that_do_not_count_change_no_score(tmp_path: Path) -> None:
    texts, stemmers = map(list, zip(*ROWS, strict=True))
    written = [*texts, "Das Haus am Hafen", "La casa de Málaga"]
    counted = np.array([True] * len(texts) + [False] * 2)
    without = build(tmp_path / "a", texts, stemmers)
    beside = build(tmp_path / "b", written, [*stemmers, "german", "spanish"], counted)
    queries = ["Haus am Hafen", "casas Malaga", "猫"]
    expected = without.score(without.find_terms(queries, 32), 0, 3, 0, len(texts))
    found = beside.score(beside.find_terms(queries, 32), 0, 3, 0, len(written))
    assert np.array_equal(found[:, : len(texts)], expected)
    assert (found[:, len(texts) :] > 0).tolist() == [[True, False], [False, False], [False, False]]


def test_rows_without_any_word_make_an_index_that_finds_nothing(tmp_path: Path) -> None:
    keywords = index(tmp_path, ["", "the of", "..."], "english")
    assert keywords.statistics.languages == ()
    assert len(search(keywords, ["the word"], 5, everything(3))) == 0
    assert keywords.terms_of(["frost"]).is_empty()


def test_any_number_of_words_may_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.index.keywords.KEPT_WORDS", 3)
    texts = [f"frost elbow night panels {number}" for number in range(9)]
    few, found = (build(tmp_path / name, FROST, ["english"] * 4) for name in "ab")
    for word in (word for text in texts for word in text.split()):
        assert few._found[word] == found._found[word]
        assert len(few._found) <= 3
    monkeypatch.undo()
    assert few.terms_of(texts).equals(found.terms_of(texts))


def test_known_words_come_once_a_text_with_their_rarity(tmp_path: Path) -> None:
    keywords = build(tmp_path / "terms", FROST, ["english"] * 4)
    found = keywords.terms_of(["panel frost panels", "unheard", "elbows"])
    assert found["text"].to_list() == [0, 0, 2]
    assert found["term"].n_unique() == 3
    by_place = dict(found.group_by("text").agg("rarity").iter_rows())
    common, rare = sorted(by_place[0])
    assert rare == by_place[2][0] == 1.0
    # Three of four rows hold frost; one holds the others.
    assert np.isclose(common, np.log1p(1.5 / 3.5) / np.log1p(3.5 / 1.5))


def test_a_word_of_several_languages_comes_once(tmp_path: Path) -> None:
    rows = ["Häuser in Lisboa", "Casas em Lisboa", "casa", "garden houses"]
    stemmers = ["german", "portuguese", "portuguese", "english"]
    keywords = build(tmp_path / "terms", rows, stemmers)
    terms = keywords.terms_of(["Lisboa", "Haus Häuser", "a casa, as casas", "LISBOA!"])
    assert terms["text"].to_list() == [0, 1, 2, 3]
    assert terms["term"][0] == terms["term"][3]
    # In its own language a word is as rare as it is there: both rows in Portuguese hold a house.
    assert terms["rarity"].to_list() == [1.0, 1.0, np.log1p(0.5 / 2.5) / np.log1p(1.5 / 1.5), 1.0]
