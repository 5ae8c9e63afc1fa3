"""The words of texts that the keyword index knows, and how rare they are."""

from pathlib import Path

import numpy as np

from backstory.index.engines.keywords import read_keywords, write_keywords

ROWS = ["frost on the elbow", "frost and solar panels", "frost at night", ""]


def test_known_words_come_once_a_text_with_their_rarity(tmp_path: Path) -> None:
    words = write_keywords(tmp_path, ROWS, "english")
    terms = read_keywords(tmp_path, "english", words).terms_of(["panel frost panels", "unheard", "elbows"])
    assert terms["text"].to_list() == [0, 0, 2]
    assert terms["term"].n_unique() == 3
    by_place = dict(terms.group_by("text").agg("rarity").iter_rows())
    common, rare = sorted(by_place[0])
    assert rare == by_place[2][0] == 1.0
    # Three of four rows hold frost; one holds the others.
    assert np.isclose(common, np.log1p(1.5 / 3.5) / np.log1p(3.5 / 1.5))


def test_an_index_without_words_knows_none(tmp_path: Path) -> None:
    assert read_keywords(tmp_path, "english", 0).terms_of(["frost"]).is_empty()
