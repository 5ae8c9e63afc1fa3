"""Languages: what a text is written in, when that cannot be told, and what a model knows.

Of the real windows every sixteenth is tried, all in a long run.
"""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from backstory.base.wording import LANGUAGE_NAMES
from backstory.text.languages import (
    detect_language,
    detect_languages,
    is_known,
)
from tests.long_tests import LONG_TESTS

EVERY = 1 if LONG_TESTS else 16

CHATS = {
    "de": ["Hat jemand noch Tomatensetzlinge übrig?", "Ja, drei Stück", "Super, ich hol sie morgen ab!", "👍"],
    "es": ["¿Alguien sabe a qué hora cierra la piscina?", "A las nueve creo", "Vale, llegamos tarde jaja"],
    "ja": ["明日の集合は何時でしたっけ?", "九時に駅前です", "了解です!"],
    "pt": ["Alguém viu o gato da vizinha?", "Tá dormindo no meu sofá", "Ufa, vou avisar ela"],
    "en": ["Is the drip line broken again?", "yep, the frost got the elbow", "ugh, I'll bring a spare"],
    "hr": ["Idemo li u subotu na tržnicu po povrće?", "Može, ja donosim kolač", "Super, vidimo se"],
    "id": ["Kemarin punyaku telat setengah jam, parah", "Sabtu jadi ke pasar beli sayur?", "Boleh, aku bawa kue"],
    "ru": ["Кто-нибудь видел новый трамвай?", "Ещё нет, говорят, ходит каждые десять минут"],
    "ar": ["هل رأى أحدكم الترام الجديد في وسط المدينة؟", "ليس بعد"],
}  # fmt: skip
MADE_UP = [
    "magumi gorsi panor lifupormo vuformaiku vorli berai zubipor furuge vortolo nobufure",
    "roto fizape paipaitu lafane zula vomor korzinai guvesai busaidogu zuzegisai kaisaifaizor",
    "dorkulai maipaikuna mazo raibordu luraiba musai vote laiso pefozodor musai supimora gabu",
    "lepe moda daza vatorfabu napozu rifuva kibudabe navomaizo zenordabi saigomi gorniza",
]


@pytest.mark.parametrize("language", CHATS)
def test_the_language_of_a_chat_is_told(language: str) -> None:
    assert detect_language(CHATS[language]) == language


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [None, ""],
        ["ok", "haha", "👍👍"],
        ["https://example.org/guten-tag/wie-geht-es-dir-heute", "www.beispiel.de/noch/eine/lange/adresse"],
        ["<Media omitted>", "@Anna", "12:30", "+49 170 1234567"],
        ["member-0123456789 member-abcdef0123"],
        MADE_UP,
        [*CHATS["ja"] * 2, *CHATS["ru"] * 2, *CHATS["ar"] * 4],
    ],
    ids=["nothing", "nulls", "exclamations", "addresses", "placeholders", "pseudonyms", "made up", "three languages"],
)  # fmt: skip
def test_what_no_language_can_be_told_of_has_none(texts: list[str | None]) -> None:
    assert detect_language(texts) is None


def test_code_addresses_and_mentions_do_not_count() -> None:
    aside = "```\nif this then that, and print the result of the whole thing\n``` `run the tests` https://the.example/of"
    assert detect_language([*CHATS["de"], aside, "<a href='the'>"]) == "de"


@pytest.mark.parametrize(("german", "language"), [(5, "de"), (1, "en")])
def test_the_main_language_of_a_mixed_chat_is_the_one_with_most_text(german: int, language: str) -> None:
    assert detect_language(CHATS["de"] * german + CHATS["en"] * 3) == language


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=200), max_size=5))
def test_any_text_gives_a_language_that_has_a_name_or_none_and_always_the_same(texts: list[str]) -> None:
    language = detect_language(texts)
    assert language is None or language in LANGUAGE_NAMES
    assert detect_language(texts) == language


def test_groups_are_told_apart_in_the_order_of_their_first_rows() -> None:
    rows = [(group, text) for group in ("ja", "de", "en") for text in [*CHATS[group], None]]
    frame = pl.DataFrame([*rows, ("ja", "はい"), ("x", None)], schema=["chat", "message"], orient="row")
    found = detect_languages(frame, by="chat", text="message")
    assert found.rows() == [("ja", "ja"), ("de", "de"), ("en", "en"), ("x", None)]
    empty = detect_languages(frame.clear(), by="chat", text="message")
    assert empty.schema == {"chat": pl.String(), "language": pl.String()}


@pytest.mark.parametrize(
    ("language", "known", "expected"),
    [
        ("de", ("en",), False),
        ("en", ("en",), True),
        ("de", ("en", "de"), True),
        ("sr", ("hr",), True),
        ("ms", ("en", "id"), True),
        ("de", None, True),
        (None, ("en",), True),
    ],
)
def test_only_a_language_that_is_told_and_not_stated_is_unknown(
    language: str | None, known: tuple[str, ...] | None, expected: bool
) -> None:
    assert is_known(language, known) is expected


def test_the_names_are_of_the_languages_that_the_detector_knows_by_two_letters() -> None:
    labels = LanguageIdentifier.from_model_file(MODEL_FILE).labels
    assert set(LANGUAGE_NAMES) == {label for label in labels if len(label) == 2}
    assert len(set(LANGUAGE_NAMES.values())) == len(LANGUAGE_NAMES)


@pytest.mark.parametrize("name", ["optech", "topicalchat", "qmsum", "rustblog"])
def test_english_windows_are_english(shared_data: Path, name: str) -> None:
    windows = pl.read_parquet(shared_data / "eval" / name / "windows.parquet")
    some = windows["window_id"].unique(maintain_order=True).gather_every(EVERY)
    found = detect_languages(
        windows.filter(pl.col("window_id").is_in(some.implode())), by="window_id", text="message"
    )
    assert set(found["language"]) == {"en"}


@pytest.mark.parametrize("name", ["windows", "unrelated_windows", "docs"])
def test_windows_and_posts_of_four_languages_are_told(shared_data: Path, name: str) -> None:
    rows = pl.read_parquet(shared_data / "eval" / "multilingual" / f"{name}.parquet")
    key, text = ("doc_id", "text") if name == "docs" else ("window_id", "message")
    found = detect_languages(rows, by=key, text=text)
    expected = found[key].str.extract(r"(?:^|-)(de|es|ja|pt)[-/]")
    assert found["language"].to_list() == expected.to_list()


def test_a_long_text_without_blanks_is_read_to_its_end() -> None:
    assert detect_language(["x" * 500_000]) is None
