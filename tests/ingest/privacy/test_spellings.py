"""Names in every spelling: the pseudonymised tables hold none, and texts without names stay as they were."""

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import quote

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backstory.ingest.privacy.leaks import find_real_names
from backstory.ingest.privacy.names import NameFinder, Place, normalize_name
from backstory.ingest.privacy.pseudonyms import make_pseudonym, pseudonymize_messages, pseudonymize_sources
from tests.builders.messages import raw_messages
from tests.ingest.chats.chat_strategies import AUTHORS, TEXTS
from tests.long_tests import some

SECRET = bytes(range(32))
MEMBER = "member-0123456789"


def chat(
    author: str, text: str, *, kind: str = "message", conversation: str = "team", source: str = "team.txt"
) -> pl.DataFrame:
    moment = datetime(2024, 1, 15, 21, 5, tzinfo=UTC)
    rows = [
        (conversation, moment, 0, author, "", "message", source),
        (conversation, moment, 1, author if kind == "message" else None, text, kind, source),
    ]
    return raw_messages(rows)


def pseudonym(name: str) -> str:
    return make_pseudonym(normalize_name(name), SECRET)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Sean O'Brien", "ask Sean O’Brien, sean obrien or Sean Oʼ Brien's", "ask {}, {} or {}'s"),
        ("Sean O’Brien", "SEAN O'BRIEN", "{}"),
        ("José Lind", "Jose Lind, JOSÉ LIND, Jos\u0065\u0301 Lind", "{}, {}, {}"),
        ("Jose Lind", "with José Lind", "with {}"),
        ("Jürgen Müller", "Juergen Müller, Jurgen Mueller, JUERGEN MUELLER", "{}, {}, {}"),
        ("Juergen Mueller", "Jürgen Müller", "{}"),
        ("Søren Ångström", "Soeren Aangstroem, Soren Angstrom", "{}, {}"),
        ("Łukasz Strauß", "lukasz strauss", "{}"),
        ("Anna Lind", "anna_lind anna.lind Anna-Lind anna+lind AnnaLind annalind", "{} {} {} {} {} {}"),
        ("Anna Lind", "mail anna.lind@mail.org, /u/AnnaLind84, Anna%20Lind", "mail {}@mail.org, /u/{}84, {}"),
        ("Anna Lind", "Havanna Lindt, Anna Linden, Hanna Lind", None),
        ("Anna Lind", "An\u00adna Li\u200bnd, 𝐀𝐧𝐧𝐚 Ｌｉｎｄ", "{}, {}"),
        ("Anna-Lena Lind", "Anna Lena Lind, annalena lind", "{}, {}"),
        ("anna.lind", "is it Anna Lind?", "is it {}?"),
        ("@annalind", "@annalind says", "@{} says"),
        ("Ada Lind", "100%Ada Lind, 5%20Ada%20Lind", "100%{}, 5%20{}"),
        ("Al So", "also Al So, AlSo, al_so", "also {}, {}, {}"),
        ("王小明", "王小明说好，问王小明吧", "{}说好，问{}吧"),
        ("王明", "王明说", None),
        ("김민수", "김민수가 왔다", "{}가 왔다"),
        ("김민수", "김민숙이 왔다", None),
        ("김민수", unicodedata.normalize("NFD", "김민수") + "가", "{}" + "가"),
        ("山田 太郎", "山田太郎さん", "{}さん"),
        ("Анна Линд", "с Анна ЛИНД", "с {}"),
        ("राम शर्मा", "राम शर्मा से, रामा शर्मा", "{} से, रामा शर्मा"),
        ("Mia Roth 🤓", "Mia Roth and mia_roth🤓", "{} and {}"),
        ("+44 7700 900123", "07700 900123, (07700) 900-123, 7700900123", "{}, ({}, {}"),
        ("+44 7700 900123", "+44 (0) 7700 900123; 0044 7700 900123; +447700900123", "{}; {}; {}"),
        ("+44 7700 900123", "٠٧٧٠٠٩٠٠١٢٣", "{}"),
        ("+44 7700 900123", "07700 900124, 17:30, 2024-01-15 21:05", None),
        ("+1 555 234 5678", "(555) 234-5678", "({}"),
        ("+39 06 12345678", "06 12345678", "{}"),
    ],
)
def test_name_in_a_text_is_found_however_it_is_spelled(name: str, text: str, expected: str | None) -> None:
    messages = pseudonymize_messages(chat(name, text), SECRET)

    assert messages["text"][1] == (expected or text).replace("{}", pseudonym(name))
    assert find_real_names(messages, [name]).is_empty()
    breaches = find_real_names(chat(MEMBER, text), [name])
    assert breaches["column"].to_list() == (["text"] if expected else [])


@pytest.mark.parametrize(
    ("name", "identifier", "expected"),
    [
        ("First Last", "WhatsApp_Chat_with_First_Last.txt", "WhatsApp_Chat_with_{}.txt"),
        ("First Last", "WhatsApp-Chat-with-First-Last(1).txt", "WhatsApp-Chat-with-{}(1).txt"),
        ("First Last", "WhatsApp.Chat.with.first.last.zip", "WhatsApp.Chat.with.{}.zip"),
        ("First Last", "WhatsApp Chat mit First Last (2).txt", "WhatsApp Chat mit {} (2).txt"),
        ("First Last", "WhatsApp%20Chat%20with%20First%20Last.txt", "WhatsApp Chat with {}.txt"),
        ("First Last", "WhatsApp+Chat+with+First+Last.txt", "WhatsApp+Chat+with+{}.txt"),
        ("First Last", "WhatsAppChatWithFirstLast2024.txt", "WhatsAppChatWith{}2024.txt"),
        ("First Last", "whatsappchatwithfirstlast.txt", "whatsappchatwith{}.txt"),
        ("First Last", "CHAT_FIRST_LAST/_chat.txt", "CHAT_{}/_chat.txt"),
        ("Al So", "chat_also.txt", "chat_{}.txt"),
        ("Zoë Müller", "Chat mit Zoe_Mueller.txt", "Chat mit {}.txt"),
        ("Zoë Müller", "Chat%20mit%20Zo%C3%AB%20M%C3%BCller.txt", "Chat mit {}.txt"),
        ("Zoë Müller", unicodedata.normalize("NFD", "chatzoëmüllerx.txt"), "chat{}x.txt"),
        ("Müller Zoe", "schatmüllerzoex", "schat{}x"),
        ("O'Brien", "chat_with_obrien.txt", "chat_with_{}.txt"),
        ("王小明", "与王小明的聊天.txt", "与{}的聊天.txt"),
        ("+44 7700 900123", "WhatsApp Chat with +44 7700 900123.txt", "WhatsApp Chat with {}.txt"),
        ("+44 7700 900123", "chat_07700900123.txt", "chat_{}.txt"),
        ("First Last", "firstly-lasting.txt", None),
        ("Ann", "anniversary_plans.txt", None),
    ],
)
def test_name_in_the_name_of_a_file_is_found_however_it_is_joined(
    name: str, identifier: str, expected: str | None
) -> None:
    rows = chat(name, "hi", conversation=identifier, source=identifier)

    messages = pseudonymize_messages(rows, SECRET)

    written = (expected or identifier).replace("{}", pseudonym(name))
    assert messages.select("conversation_id", "source").unique().row(0) == (written, written)
    assert pseudonymize_sources(rows.select("source"), [name], SECRET)["source"][0] == written
    assert find_real_names(messages, [name]).is_empty()
    breaches = find_real_names(chat(MEMBER, "hi", conversation=identifier), [name])
    assert breaches["column"].unique().to_list() == (["conversation_id"] if expected else [])


def test_people_whose_names_differ_by_an_accent_keep_their_own_pseudonyms() -> None:
    finder = NameFinder(["José Lind", "Jose Lind"])

    assert [finder.person(name) for name in ("JOSÉ LIND", "jose lind")] == ["josé lind", "jose lind"]
    assert finder.person("Jose_Lind") == "jose_lind"


LETTERS = st.characters(
    categories=["Lu", "Ll"], include_characters="äöüÄÖÜéçñåøßłæ王小明김민수", max_codepoint=0x24F
)
NAMES = st.lists(st.text(LETTERS, min_size=3, max_size=8), min_size=2, max_size=3).map(" ".join)
FILLERS = st.text(
    st.sampled_from("0123456789 .,:;!?()[]/\n\t🐙…„“€%&#*\u200e\u00a0"), min_size=1, max_size=12
).filter(lambda text: text.strip("\u200e"))


@st.composite
def spellings(draw: st.DrawFn, name: str) -> str:
    """Write a name as somebody may: another case, other accents, other signs between its words."""
    writings: list[Callable[[str], str]] = [str, str.upper, str.lower, str.title, str.swapcase]
    recase = draw(st.sampled_from(writings))
    respell = draw(
        st.sampled_from(
            [
                lambda text: text,
                lambda text: unicodedata.normalize("NFD", text),
                lambda text: unicodedata.normalize("NFKC", text),
                lambda text: "".join(
                    part for part in unicodedata.normalize("NFD", text) if not unicodedata.combining(part)
                ),
                lambda text: "\u200b".join(text),
            ]
        )
    )
    joint = draw(st.sampled_from([" ", "  ", "\n", "\u00a0", "_", ".", "-", "+", "'", "’", "\u2060 ", ""]))
    return joint.join(respell(recase(word)) for word in name.split(" "))


def bare(text: str) -> str:
    """Strip a text to its letters by the standard library alone."""
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(part for part in decomposed if part.isalnum())


@settings(max_examples=some(80), deadline=None)
@given(name=NAMES, fillers=st.lists(FILLERS, min_size=1, max_size=4), data=st.data())
def test_no_spelling_of_a_name_is_left(name: str, fillers: list[str], data: st.DataObject) -> None:
    written = [data.draw(spellings(name)) for _ in fillers]
    text = "".join(part for pair in zip(fillers, written, strict=True) for part in pair)
    identifier = f"Chat with {data.draw(spellings(name))}.txt"
    rows = chat(name, text, conversation=identifier, source=quote(identifier))

    messages = pseudonymize_messages(rows, SECRET)

    assert bare(name) not in bare(messages["text"][1])
    assert bare(name) not in bare(messages["conversation_id"][1])
    assert messages["text"][1].count(pseudonym(name)) == len(written)
    assert find_real_names(messages, [name]).is_empty()
    leaking = messages.with_columns(text=pl.lit(text), source=pl.lit(identifier))
    assert set(find_real_names(leaking, [name])["column"]) == {"text", "source"}


@settings(max_examples=some(60), deadline=None)
@given(names=st.lists(NAMES, min_size=1, max_size=4), text=TEXTS)
@example(["Ann Alin"], "Anna Lin")
@example(["Max Muster"], "Maximum usteria, %4d%zz 100%, e\u0301 ①Ⅷŉ")
def test_text_without_a_name_stays_as_it_was(names: list[str], text: str) -> None:
    letters = bare(text)
    rows = pl.concat(chat(name, text) for name in names)

    messages = pseudonymize_messages(rows, SECRET)

    if "@" not in text and not any(bare(name) in letters for name in names) and "%" not in text:
        assert messages["text"].to_list() == rows["text"].to_list()


@settings(max_examples=some(80), deadline=None)
@given(
    names=st.lists(AUTHORS, min_size=1, max_size=4, unique=True),
    text=TEXTS,
    place=st.sampled_from(["message", "system"]),
    data=st.data(),
)
@example(["A b", "b C d"], "A b C d bCd AbC", "message", None)
@example(["0 0", "00"], "0-0 00 0_0", "system", None)
@example(["Ä"], "AÄ", "message", None)
@example(["ൗ"], "ൗ", "message", None)
@example(["A0 000000", "A"], "AA0 000000", "message", None)
def test_what_is_replaced_is_all_that_the_check_looks_for(
    names: list[str], text: str, place: str, data: st.DataObject | None
) -> None:
    parts = [text, *names, *(f"@{name}" for name in names), *("".join(name.split()) for name in names)]
    joined = data.draw(st.lists(st.sampled_from(parts), max_size=6).map("".join)) if data else text
    rows = pl.concat(chat(name, joined, kind=place, conversation=joined) for name in names)

    messages = pseudonymize_messages(rows, SECRET)

    assert find_real_names(messages, names).is_empty()


@settings(max_examples=some(60), deadline=None)
@given(
    country=st.integers(1, 999),
    national=st.integers(10**8, 10**10 - 1),
    cuts=st.lists(st.integers(1, 9), max_size=3),
)
def test_no_form_of_a_phone_number_is_left(country: int, national: int, cuts: list[int]) -> None:
    number = f"+{country} {national}"
    digits = list(str(national))
    for cut in sorted(set(cuts), reverse=True):
        digits.insert(min(cut, len(digits) - 1), " ")
    spaced = "".join(digits)
    texts = [
        f"call {spaced}",
        f"call 0{spaced}.",
        f"+{country} {spaced}",
        f"00{country}{spaced}",
        f"0{national}",
    ]
    rows = pl.concat(chat(number, text) for text in texts)

    messages = pseudonymize_messages(rows, SECRET)

    assert (
        not messages["text"]
        .str.replace_all("member-[0-9a-f]{10}", "|")
        .str.replace_all(r"[^\d|]", "")
        .str.contains(str(national))
        .any()
    )
    assert messages["text"].str.count_matches(pseudonym(number)).sum() == len(texts)
    assert find_real_names(messages, [number]).is_empty()


@pytest.mark.parametrize("place", ["message", "app line", "identifier"])
def test_quick_selection_misses_nothing(place: Place) -> None:
    names = ["Anna Lind", "Jürgen Groß", "王小明", "+44 7700 900123", ".", "Will"]
    texts = pl.Series(
        ["ANNA-LIND", "Juergen Gross", "王小明说", "07700 900123", "@.", "@will", "nobody", None]
    )
    finder = NameFinder(names)

    found = [bool(text and finder.find(text, place)) for text in texts]

    assert all(may for may, held in zip(finder.may_hold(texts, place), found, strict=True) if held)
    assert sum(found) >= 4
