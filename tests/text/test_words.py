"""How texts are split into words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import SettingsError
from backstory.text.words import Words
from tests.errors import raises


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The channels were closing", ["channel", "close"]),
        ("snake_case_name", ["snake_case_name", "snake", "case", "name"]),
        ("v1.2.3", ["v1.2.3", "v1", "2", "3"]),
        ("CVE-2024-1234", ["cve-2024-1234", "cve", "2024", "1234"]),
        ("0xDEADbeef", ["0xdeadbeef"]),
        ("BIP340, taproot.", ["bip340", "taproot"]),
        ("42 nodes", ["42", "node"]),
        ("EIP-1559, notes.txt", ["eip-1559", "eip", "1559", "notes.txt", "note", "txt"]),
        ("Ärger Größe ΚΑΦΈΣ", ["arger", "grosse", "καφεσ"]),
        ("ＦＵＬＬ　ｗｉｄｔｈ", ["full", "width"]),
        ("zero\u200bwidth soft\u00adhyphens x\ufe0f", ["zero", "width", "softhyphen", "x"]),
        ("東京都", ["東", "京", "都", "東京", "京都"]),
        ("ビール、猫", ["ビー", "ール", "猫"]),
        ("한국어 말", ["한국", "국어", "말"]),
        ("สวัสดี", ["สวั", "วัส", "สดี"]),
        ("привет мир", ["привет", "мир"]),
        ("don't o'clock wallet’s", ["o'clock", "wallet"]),
        ("", []),
        ("... --- !", []),
    ],
)
def test_english_words(text: str, words: list[str]) -> None:
    assert Words("english").split(text) == words


def test_other_languages_have_their_own_stems_and_stop_words() -> None:
    assert Words("german").split("die Häuser und der Garten") == ["haus", "gart"]
    assert Words("spanish").split("los gatos del médico") == Words("spanish").split("gato medico")
    assert Words("hindi").split("लड़कियाँ") == Words("hindi").split("लड़की")
    assert Words("none").split("the closing of it") == ["the", "closing", "of", "it"]


def test_an_unknown_language_is_an_error_that_names_the_known_ones() -> None:
    with raises(SettingsError, "unknown_language"):
        Words("latin")


@given(st.text())
def test_any_text_is_split_and_split_the_same_way_again(text: str) -> None:
    words = Words("english").split(text)
    assert words == Words("english").split(text)
    assert all(words)


@given(st.text(st.characters(codec="ascii")))
def test_plain_letters_are_split_as_beside_other_scripts(text: str) -> None:
    assert Words("english").split(text) == Words("english").split(f"{text} 語")[:-1]
