"""The words of texts that the keyword index knows, and how rare they are."""

from pathlib import Path

import numpy as np
import pytest

from backstory.index import keywords
from backstory.index.keywords import FoundTerms
from backstory.index.terms import Statistics, name_term
from tests.index.test_keywords import build

ROWS = ["frost on the elbow", "frost and solar panels", "frost at night", ""]


def test_known_words_come_once_a_text_with_their_rarity(tmp_path: Path) -> None:
    keywords = build(tmp_path / "terms", ROWS, ["english"] * 4)
    found = keywords.terms_of(["panel frost panels", "unheard", "elbows"])
    assert found["text"].to_list() == [0, 0, 2]
    assert found["term"].n_unique() == 3
    by_place = dict(found.group_by("text").agg("rarity").iter_rows())
    common, rare = sorted(by_place[0])
    assert rare == by_place[2][0] == 1.0
    # Three of four rows hold frost; one holds the others.
    assert np.isclose(common, np.log1p(1.5 / 3.5) / np.log1p(3.5 / 1.5))


def test_any_number_of_words_may_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keywords, "KEPT_WORDS", 3)
    stored = build(tmp_path / "terms", ROWS, ["english"] * 4)
    texts = [f"frost elbow night panels {number}" for number in range(9)]
    few = stored.terms_of(texts)
    numbers = {name_term("english", "frost"): 0, name_term("english", "elbow"): 1}
    statistics = Statistics(stored.statistics.languages, numbers, np.ones(2, np.int64), 1.0)
    found = FoundTerms(statistics, np.ones(2))
    for word in (word for text in texts for word in text.split()):
        assert found[word] == {"frost": [0, 0], "elbow": [1, 1]}.get(word, [])
        assert len(found) <= 3
    monkeypatch.undo()
    assert few.equals(build(tmp_path / "again", ROWS, ["english"] * 4).terms_of(texts))


def test_an_index_without_words_knows_none(tmp_path: Path) -> None:
    assert build(tmp_path / "terms", [], []).terms_of(["frost"]).is_empty()


def test_a_word_of_several_languages_comes_once(tmp_path: Path) -> None:
    rows = ["Häuser in Lisboa", "Casas em Lisboa", "casa", "garden houses"]
    stemmers = ["german", "portuguese", "portuguese", "english"]
    keywords = build(tmp_path / "terms", rows, stemmers)
    terms = keywords.terms_of(["Lisboa", "Haus Häuser", "a casa, as casas", "LISBOA!"])
    assert terms["text"].to_list() == [0, 1, 2, 3]
    assert terms["term"][0] == terms["term"][3]
    # In its own language a word is as rare as it is there: both rows in Portuguese hold a house.
    assert terms["rarity"].to_list() == [1.0, 1.0, np.log1p(0.5 / 2.5) / np.log1p(1.5 / 1.5), 1.0]
