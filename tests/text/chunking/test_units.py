from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from backstory.text.chunking.units import join_wrapped, split_graphemes, split_sentences, split_words


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, 0, len(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He said “No.” Then left…  Gone.", ["He said “No.”", "Then left…", "Gone."]),
        ("version 3.14 of a.b is out", ["version 3.14 of a.b is out"]),
        ("- a\n- b\r\n\r\n  c", ["- a", "- b", "c"]),
        ("你好。再见！真的？！是。", ["你好。", "再见！", "真的？！", "是。"]),
        ("她说：“走吧。”他笑了。", ["她说：“走吧。”", "他笑了。"]),
        ("  padded.  ", ["padded."]),
    ],
)
def test_sentences_end_where_readers_see_it(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Bring tools, e.g. a wrench",
        "It is the same, i.e. Monday",
        "Dr. Jones met J. R. Smith and C. J. Marsh at St. Mary's",
        "See No. 5, approx. 3.5 km, at 7.30 p.m. on Monday",
        "Wait... what is that… no",
        "We met at 19.30 and paid 3.50 for it",
        "Ask Mr. and Mrs. Will",
        "“No way!” said Ann (who else?) and left",
        "Nimm z. B. Besen oder z.B. Eimer",
        "Das ist d. h. morgen, vgl. Anm., bzw. am 3. Mai um ca. 5 Uhr",
        "Am 3. und 4. bei Hr. Meier",
        "Du pain, p. ex. Celui de M. Dupont",
        "Trae algo, p. ej. Pan para el Sr. Pérez",
        "Porta qualcosa, ad es. Pane per il dott. Rossi",
        "Traga algo, p. ex. Pão para a Sra. Lima",
        "Neem iets mee, bijv. Brood voor dhr. Smit",
        "Ta med något, t.ex. Bröd, kl. 5",
        "Tag noget med, f.eks. Brød, bl.a. det fra i går",
        "Ta med noe, f. eks. Brød",
        "Tuo jotain, esim. Leipää",
        "Weź coś, np. Chleb, tzn. ten z ul. Długiej",
        "Он, т. е. Иван, жил на ул. Ленина в 5 кв. м и т. д. и т. п. до конца",
        "Vezmi něco, např. Chleba",
        "Принеси щось, напр. Хліб",
        "Bir şey getir, örn. Ekmek",
        "Φέρε κάτι, π.χ. Ψωμί",
    ],
)
def test_no_sentence_ends_after_an_abbreviation_an_initial_or_an_ordinal(text: str) -> None:
    assert sentences(f"{text}. {text}.") == [f"{text}.", f"{text}."]


def test_the_number_of_an_item_belongs_to_its_sentence() -> None:
    assert sentences("1. Open the lid. Wait.\n 2. Close it.") == ["1. Open the lid.", "Wait.", "2. Close it."]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("so do i. then we left. nobody knew", 3),
        ("That is plan B. Then we left. So did I. We met at 7 p.m. It was late.", 5),
        ("It began in 2020. Then it ended. There were 5. Nobody came.", 4),
        ("No. That is all. Yes... Maybe. We live in Main St. The house is red.", 6),
        ("Bring nails, etc. Then come. I like art. He likes the sea.", 4),
        ("Really? no! never (ever). Then", 4),
        ("I came to tell me. In the end it worked, ok. Good", 3),
        ("Stäng av. Sedan går vi. Es war das. Ende", 4),
    ],
)
def test_sentences_still_end_after_words_that_look_like_abbreviations(text: str, count: int) -> None:
    assert len(sentences(text)) == count


@given(st.text("ab.!。！”)\n \u0301é", max_size=60))
def test_only_whitespace_is_left_out(text: str) -> None:
    for ranges in (split_sentences(text, 0, len(text)), split_words(text, 0, len(text))):
        position = 0
        for start, end in ranges:
            assert not text[position:start].strip()
            assert text[start:end] == text[start:end].strip() != ""
            position = end
        assert not text[position:].strip()


@given(st.text("a\u0301👨\u200d👩🇩🇪한가", min_size=1, max_size=40), st.integers(2, 6))
def test_grapheme_clusters_stay_whole(text: str, parts: int) -> None:
    ranges = split_graphemes(text, 0, len(text), parts)
    assert "".join(text[start:end] for start, end in ranges) == text
    assert len(ranges) <= parts
    boundaries = {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}
    assert {edge for edges in ranges for edge in edges} <= boundaries


def test_parts_have_about_the_same_length() -> None:
    assert split_graphemes("x" * 12, 2, 12, 5) == [(2, 4), (4, 6), (6, 8), (8, 10), (10, 12)]


@pytest.mark.parametrize(
    "rows", [["name: Ann; city: Riga", "name: Ben; city: Oslo"], ["Ann | Riga", "Ben | Oslo"]]
)
def test_each_row_of_a_table_is_a_sentence(rows: list[str]) -> None:
    text = "\n".join(rows)
    ranges = join_wrapped(text, split_sentences(text, 0, len(text)))
    assert [text[start:end] for start, end in ranges] == rows
