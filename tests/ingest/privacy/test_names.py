"""Names in texts, in every form: what is hidden, what is not, and that the check finds what is left."""

import time
import unicodedata
from collections.abc import Callable, Sequence
from urllib.parse import quote

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backstory.ingest.privacy.forms import contract
from backstory.ingest.privacy.names import NameFinder, Place, normalize_name
from backstory.ingest.privacy.pseudonyms import find_real_names
from tests.ingest.chats.chat_strategies import AUTHORS, TEXTS
from tests.long_tests import each_of, some

HIDDEN = "member-0123456789"


def replace(text: str, *names: str, place: Place = "message", members: Sequence[str] = ()) -> str:
    finder = NameFinder(names, members)
    return str(finder.replace(pl.Series([text]), place, lambda person: f"<{person}>")[0])


def hide(text: str, names: Sequence[str], place: Place = "message") -> str:
    return str(NameFinder(names).replace(pl.Series([text]), place, lambda _: HIDDEN)[0])


def is_held(text: str, names: Sequence[str], place: Place = "message") -> bool:
    kind = "system" if place == "app line" else "message"
    table = pl.DataFrame({"source": [text]} if place == "identifier" else {"text": [text], "kind": [kind]})
    return not find_real_names(table, names).is_empty()


def check(text: str, names: Sequence[str], place: Place = "message") -> str:
    """Hide names, and show that the check finds them before and not after, and that hiding again changes nothing."""
    hidden = hide(text, names, place)
    assert is_held(text, names, place) == (hidden != text), text
    assert not is_held(hidden, names, place), text
    assert hide(hidden, names, place) == hidden
    return hidden


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("Ann Miller", "ann  miller", True), ("Ann Miller", "\u200eAnn\u00a0Miller ", True),
        ("Ann Miller", "~\u202fAnn Miller", True), ("Ann Miller", "\u2068Ann Miller\u2069", True),
        ("Zoë", unicodedata.normalize("NFD", "Zoë"), True), ("STRASSER", "Straßer", True),
        ("+49 151 2345678", "\u202a+49\u00a0151\u00a02345678\u202c", True),
        ("+1 (555) 123-4567", "+1 555 123\u20114567", True),
        ("Ann", "Anne", False), ("Ann", "Ann 🤓", False), ("+49 151 2345678", "+49 151 2345679", False),
    ],
)  # fmt: skip
def test_one_person_has_one_name(one: str, other: str, *, is_same: bool) -> None:
    assert (normalize_name(one) == normalize_name(other)) == is_same


ORDERS = [
    "{first} {last}", "{last}, {first}", "{last} {first}", "{LAST} {first}", "{LAST}, {first}", "{last}.{first}",
]  # fmt: skip
JOINED = [
    "{first}.{last}", "{first}_{last}", "{first}-{last}", "{first}{last}", "{last}{first}", "{last}_{first}",
]  # fmt: skip
ENDINGS = [
    "{first} {last}s", "{first} {last}'s", "{first} {last}’s", "{first} {last}s'", "{f}. {last}s", "{f}. {last}'s",
]  # fmt: skip
INITIALS = [
    "{f}. {last}", "{f}.{last}", "{f} {last}", "{f}. {LAST}", "{last}, {f}.", "{last} {f}.", "{F}{last}",
    "{first} J. {last}", "{first} J {last}", "{first} J.K. {last}", "{first}-J.-{last}", "{f}. J. {last}",
    "{f}.J. {last}",
]  # fmt: skip
MARKED = [
    "**{first}** {last}", "**{first}** **{last}**", "_{first} {last}_", "~~{first}~~ {last}", "`{first} {last}`",
    "[{first} {last}](https://mail.org)", "<b>{first} {last}</b>", '<a title="{first} {last}">x</a>',
]  # fmt: skip
JOINTS = ["%20", "\u00a0", "\u202f", "\n", " \u200b", "+", " – ", "\ufffd"]
HANDLES = [
    "{f}{last}",
    "{f}.{last}",
    "{f}_{last}",
    "{last}{f}",
    "{last}.{f}",
    "@{f}{last}",
    "{f}{last}@mail.org",
]
FORMS = [*ORDERS, *JOINED, *ENDINGS, *INITIALS, *MARKED, *(f"{{first}}{joint}{{last}}" for joint in JOINTS)]
MEMBERS = [
    ("Anna", "Lindqvist"), ("Björn", "Håkansson"), ("Jürgen", "Großmüller"), ("José", "Fernández"),
    ("Анна", "Петровская"), ("Ελένη", "Παπαδοπούλου"),
]  # fmt: skip


def write(form: str, first: str, last: str) -> str:
    return form.format(first=first, last=last, f=first[0], F=first[0].upper(), LAST=last.upper())


@pytest.mark.parametrize(("first", "last"), each_of(MEMBERS, 2))
def test_every_form_of_a_name_is_replaced_and_found(first: str, last: str) -> None:
    handles = [write(form, first.lower(), last.lower()) for form in HANDLES]
    for written in [*(write(form, first, last) for form in FORMS), *handles]:
        for spelled in (written, unicodedata.normalize("NFD", written)):
            hidden = check(f"(yes, {spelled} knows)", [f"{first} {last}"]).lower()

            assert HIDDEN in hidden
            assert last.lower() not in hidden
            assert first.lower() not in hidden


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Björn Håkansson", "Bjorn Hakansson, Bjoern Haakansson, Bjoern Hakansson, B. Haakansson, bhakansson"),
        ("Kaj Åström", "Kaj Astrom, Kaj Aastroem, Kaj Astroem, Kaj Aastrom"),
        ("Thomas Mueller", "Thomas Müller, Thomas Muller, T. Müller, Müller, Thomas"),
        ("Hakan Mueller", "Håkan Müller"),
        ("Jürgen Müller", "Ju\u0308rgen Mueller, JUERGEN MUELLER, Jürgen Müllers, J\u00adürg\u200ben Müller"),
        ("Karl Strauß", "Karl Strauss, K. Strauss, Karl Strausses"),
        ("Søren Ångström", "Soeren Aangstroem, Soren Angstrom"),
        ("Anna Maria Lindqvist", "Anna M. Lindqvist, A. M. Lindqvist, A.M. Lindqvist, A. Lindqvist, Anna Lindqvist"),
        ("Anna Maria Lindqvist", "amlindqvist, alindqvist, Lindqvist, Anna Maria, Lindqvist, A."),
        ("Jan van den Berg", "J. van den Berg, jvandenberg, van den Berg, Jan, Berg, Jan van den, J. Van den Bergs"),
        ("Anna-Lena Lind", "A.-L. Lind, A. Lind, Lind, Anna-Lena, Anna Lena Lind, annalena lind"),
        ("Sean O'Brien", "S. O'Brien, O’Brien, Sean, sean.obrien, Sean O'Briens, Sean J. O'Brien, SEAN O'BRIEN"),
        ("Li Wei", "L. Wei, Wei Li, Wei, Li, Li Weis, L. Wei's, @lwei, lwei@mail.org"),
        ("Åsa Ek", "Å. Ek, A. Ek, Ek, Åsa, aek@mail.org"),
        ("Linda Ek", "Linda Ek, lindaek, LindaEk, Ek, Linda"),
        ("JoEllen Ek", "Joellen Ek, JOELLEN EK, Jo Ellen Ek"),
        ("anna.lindqvist", "Anna Lindqvist, A. Lindqvist, alindqvist"),
        ("José Lind", "Jose Lind, JOSÉ LIND, 𝐉𝐨𝐬𝐞 Ｌｉｎｄ"),
        ("Łukasz Strauß", "lukasz strauss"),
        ("राम शर्मा", "राम शर्मा"),
    ],
)  # fmt: skip
def test_forms_are_of_their_person(name: str, text: str) -> None:
    replaced = replace(text, name, "Somebody Else")

    assert replaced.replace(f"<{normalize_name(name)}>", "").strip(",. @smailorg'") == ""
    check(text, [name])


NAMES_OF_A_CHAT = ("Ann", "Ben Lee", "Ben Lee Jr", "Zed Banks", "Mia Roth 🤓", "🐙", "+49 151 2345678")


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (NAMES_OF_A_CHAT, "@Ann!, @ann, @\u2068Ann\u2069, @\u2068~\u202fAnn\u2069", "@<ann>!, @<ann>, @<ann>, @<ann>"),
        (NAMES_OF_A_CHAT, "@Ann's dog, 'of Zed Banks', Zed Banks's", "@<ann>'s dog, 'of <zed banks>', <zed banks>'s"),
        (NAMES_OF_A_CHAT, "@Anna and @Annabel, Ann says, Reuben Leeds, @someone", None),
        (NAMES_OF_A_CHAT, "@Ben Lee Jr, ben  lee. Ben\nLee", "@<ben lee jr>, <ben lee>. <ben lee>"),
        (NAMES_OF_A_CHAT, "Mia Roth, @Mia Roth 🤓!, @Mia", "<mia roth 🤓>, @<mia roth 🤓>!, @<mia roth 🤓>"),
        (NAMES_OF_A_CHAT, "@Ben", "@<ben>"),
        (NAMES_OF_A_CHAT, "@🐙 too", "@<🐙> too"),
        (NAMES_OF_A_CHAT, "+49 151 234-5678, 00491512345678", "<+491512345678>, <+491512345678>"),
        (NAMES_OF_A_CHAT, "@491512345678 and @4917000000", "@<+491512345678> and @<+4917000000>"),
        (NAMES_OF_A_CHAT, "@\u2068Somebody Else\u2069", "@<somebody else>"),
        ([], "Ann, @Ann, @\u2068Ann\u2069", "Ann, @Ann, @<ann>"),
        (["Zoë Groß"], unicodedata.normalize("NFD", "with Zoë Groß"), "with <zoë gross>"),
        (["José Lind", "Jose Lind"], "JOSÉ LIND, jose lind, Jose_Lind", "<josé lind>, <jose lind>, <jose_lind>"),
        (["Anna Lind", "Asa Lind"], "A. Lind and Anna Lind", "<a. lind> and <anna lind>"),
        (["Anna Lind", "A. Lind"], "A. Lind", "<a. lind>"),
        (["Jo Park", "Joe Park"], "Jo Park, Joe Park", "<jo park>, <joe park>"),
        (["\ufffc", "Ada \ufffcLind"], "\ufffc @\ufffc and @Ada Lind \ufffc", "\ufffc @\ufffc and @<ada lind> \ufffc"),
        (["Anna Lind"], "anna.lind@mail.org, /u/AnnaLind84", "<anna lind>@mail.org, /u/<anna lind>84"),
        (["Anna Lind"], "so_anna_lind_so, <b>Anna Lind</b>!", "so_<anna lind>_so, <b><anna lind></b>!"),
        (["Anna Lind"], '<a title="Anna Lind" href="x">Lind</a>', '<a title="<anna lind>" href="x">Lind</a>'),
        (["@annalind"], "@annalind says", "@<@annalind> says"),
        (["Ada Lind"], "100%Ada Lind, 5%20Ada%20Lind", "100%<ada lind>, 5%20<ada lind>"),
        (["Al So"], "also Al So, AlSo, al_so", "also <al so>, <al so>, <al so>"),
        (["王小明"], "王小明说好，问王小明吧", "<王小明>说好，问<王小明>吧"),
        (["김민수"], unicodedata.normalize("NFD", "김민수") + "가", "<김민수>가"),
        (["山田 太郎"], "山田太郎さん", "<山田 太郎>さん"),
        (["+44 7700 900123"], "07700 900123, (07700) 900-123", "<+447700900123>, (<+447700900123>"),
        (["+44 7700 900123"], "7700900123, ٠٧٧٠٠٩٠٠١٢٣", "<+447700900123>, <+447700900123>"),
        (["+44 7700 900123"], "+44 (0) 7700 900123; 0044 7700 900123", "<+447700900123>; <+447700900123>"),
        (["+44 7700 900123"], "004407700 900123, 0044 (0)7700 900123", "<+447700900123>, <+447700900123>"),
        (["+1 555 234 5678", "+39 06 12345678"], "(555) 234-5678, 06 12345678", "(<+15552345678>, <+390612345678>"),
        (["+44 7700 900123"], "07700 900124, +44 7700 900122, 17:30, 2024-01-15 21:05", None),
        (["Will Long"], "How long will it take? Not as long, will you. A long will. along, wlong", None),
        (["Amy Cross"], "across the road, a cross, A cross, crossa, Plan A crosses", None),
        (["Ben Rivers", "Sara Carpenter"], "drivers, b rivers, two carpenters, a carpenter's house, a/s", None),
        (["Ian Green", "Mark Green"], "green, I think; Green, I think, the green mark", None),
        (["Anna Long", "Xavier Ray"], "A Long Way, an x-ray", None),
        (["Anna Lind"], "Anna Linden, Hanna Lind, Lind, Anne; alinds, Havanna Lindt", None),
        (["Michael Long"], "@Michal", None),
        (["王小明", "王明", "김민수", "علي محمد"], "小明王, 王明说, 김민숙이 왔다, محمد علي", None),
        (["Anna Lindqvist"], "Anna and Lindqvist, anna; 5%Anna", None),
        (["राम शर्मा"], "रामा शर्मा", None),
        # Entities, escapes and tags inside of a name are not read.
        (["Anna Lind"], r"Anna&nbsp;Lind or <b>Anna</b> Lind or Anna\u0020Lind or Anna=20Lind", None),
    ],
)  # fmt: skip
def test_names_in_messages(names: Sequence[str], text: str, expected: str | None) -> None:
    assert replace(text, *names) == (expected or text)
    check(text, names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann added Ben Lee", "<ann> added <ben lee>"),
        ("Ann added Zoe and +49 170 1234567", "<ann> added <zoe> and <+491701234567>"),
        ("🐙 left", "<🐙> left"),
        ("will the group", "will the group"),
        ("Will changed this", "<will> changed this"),
        ("\ufffc changed it", "\ufffc changed it"),
    ],
)
def test_names_in_lines_of_the_app(text: str, expected: str) -> None:
    names = ("Ann", "Ben Lee", "🐙", "Will", "\ufffc")
    assert replace(text, *names, place="app line", members=("Zoe", "Zoe Hill")) == expected
    # In messages, a member is found only where a name is meant.
    assert replace("Zoe Hill and @Zoe Hill", "Ann", members=("Zoe Hill",)) == "Zoe Hill and @<zoe hill>"


@pytest.mark.parametrize(
    ("name", "identifier", "expected"),
    [
        ("First Last", "WhatsApp_Chat_with_First_Last.txt", "WhatsApp_Chat_with_{}.txt"),
        ("First Last", "WhatsApp-Chat-with-First-Last(1).txt", "WhatsApp-Chat-with-{}(1).txt"),
        ("First Last", "WhatsApp.Chat.with.first.last.zip", "WhatsApp.Chat.with.{}.zip"),
        ("First Last", "WhatsApp%20Chat%20with%20First%20Last.txt", "WhatsApp Chat with {}.txt"),
        ("First Last", "WhatsApp+Chat+with+First+Last.txt", "WhatsApp+Chat+with+{}.txt"),
        ("First Last", "WhatsAppChatWithFirstLast2024.txt", "WhatsAppChatWith{}2024.txt"),
        ("First Last", "whatsappchatwithfirstlast.txt", "whatsappchatwith{}.txt"),
        ("First Last", "CHAT_FIRST_LAST/_chat.txt", "CHAT_{}/_chat.txt"),
        ("Al So", "chat_also.txt", "chat_{}.txt"),
        ("Ann", "chat_ann.txt", "chat_{}.txt"),
        ("Ann", "ANN", "{}"),
        ("Zoë Müller", "Chat mit Zoe_Mueller.txt", "Chat mit {}.txt"),
        ("Zoë Müller", "Chat%20mit%20Zo%C3%AB%20M%C3%BCller.txt", "Chat mit {}.txt"),
        ("Zoë Müller", "100%2520 Zo%C3%AB M%C3%BCller", "100%20 {}"),
        ("Zoë Müller", unicodedata.normalize("NFD", "chatzoëmüllerx.txt"), "chat{}x.txt"),
        ("Müller Zoe", "schatmüllerzoex", "schat{}x"),
        ("O'Brien", "chat_with_obrien.txt", "chat_with_{}.txt"),
        ("Anna Lindqvist", "chat_lindqvist_anna, A. Lindqvist, alindqvist-2.json", "chat_{}, {}, {}-2.json"),
        ("王小明", "与王小明的聊天.txt", "与{}的聊天.txt"),
        ("+44 7700 900123", "WhatsApp Chat with +44 7700 900123.txt", "WhatsApp Chat with {}.txt"),
        ("+44 7700 900123", "chat_07700900123.txt", "chat_{}.txt"),
        ("First Last", "firstly-lasting.txt", None),
        ("First Last", "100%20%zz of it", None),
        ("Ann", "anniversary_plans.txt", None),
    ],
)  # fmt: skip
def test_names_in_the_names_of_files(name: str, identifier: str, expected: str | None) -> None:
    assert check(identifier, [name], "identifier") == (expected or identifier).replace("{}", HIDDEN)


# Of letters that stand beside each other in two words, none may be read as an umlaut.
LETTERS = st.characters(
    categories=["Lu", "Ll"], include_characters="äöüÄÖÜéçñåøßłæ王小明김민수", max_codepoint=0x24F
)
NAMES = (
    st.lists(st.text(LETTERS, min_size=3, max_size=8), min_size=2, max_size=3)
    .map(" ".join)
    .filter(lambda name: contract(bare(name)) == bare(name))
)
FILLERS = st.text(
    st.sampled_from("0123456789 .,:;!?()[]/\n\t🐙…„“€%&#*\u200e\u00a0"), min_size=1, max_size=12
).filter(lambda text: text.strip("\u200e"))
SPELLINGS: list[Callable[[str], str]] = [
    str, str.upper, str.lower, str.title, str.swapcase, "\u200b".join, lambda text: unicodedata.normalize("NFD", text),
    lambda text: unicodedata.normalize("NFKC", text),
    lambda text: "".join(part for part in unicodedata.normalize("NFD", text) if not unicodedata.combining(part)),
]  # fmt: skip


@st.composite
def spellings(draw: st.DrawFn, name: str) -> str:
    """Write a name as somebody may: another case, other accents, other signs between its words."""
    one, other = draw(st.sampled_from(SPELLINGS)), draw(st.sampled_from(SPELLINGS))
    joint = draw(st.sampled_from([" ", "  ", "\n", "\u00a0", "_", ".", "-", "+", "'", "’", "\u2060 ", ""]))
    return joint.join(other(one(word)) for word in name.split(" "))


def bare(text: str) -> str:
    """Strip a text to its letters by the standard library alone."""
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(part for part in decomposed if part.isalnum())


@settings(max_examples=some(80), deadline=None)
@given(name=NAMES, fillers=st.lists(FILLERS, min_size=1, max_size=4), data=st.data())
def test_no_spelling_of_a_name_is_left(name: str, fillers: list[str], data: st.DataObject) -> None:
    written = [data.draw(spellings(name)) for _ in fillers]
    text = "".join(part for pair in zip(fillers, written, strict=True) for part in pair)

    hidden = check(text, [name])

    assert bare(name) not in bare(hidden)
    assert hidden.count(HIDDEN) == len(written)
    for identifier in (f"Chat with {written[0]}.txt", quote(f"Chat with {written[0]}.txt")):
        assert bare(name) not in bare(check(identifier, [name], "identifier"))


@settings(max_examples=some(60), deadline=None)
@given(names=st.lists(NAMES, min_size=1, max_size=4), text=TEXTS)
@example(["Ann Alin"], "Anna Lin")
@example(["Max Muster"], "Maximum usteria, %4d%zz 100%, e\u0301 ①Ⅷŉ")
def test_text_without_a_name_stays_as_it_was(names: list[str], text: str) -> None:
    if "@" not in text and not any(contract(bare(name)) in contract(bare(text)) for name in names):
        assert hide(text, names) == text


@settings(max_examples=some(80), deadline=None)
@given(
    names=st.lists(AUTHORS, min_size=1, max_size=4, unique=True),
    text=TEXTS,
    place=st.sampled_from(["message", "app line", "identifier"]),
    data=st.data(),
)
@example(["A b", "b C d"], "A b C d bCd AbC", "message", None)
@example(["0 0", "00"], "0-0 00 0_0", "app line", None)
@example(["Ä"], "AÄ", "message", None)
@example(["ൗ"], "ൗ", "message", None)
@example(["A0 000000", "A"], "AA0 000000", "message", None)
def test_what_is_replaced_is_all_that_the_check_looks_for(
    names: list[str], text: str, place: Place, data: st.DataObject | None
) -> None:
    parts = [text, *names, *(f"@{name}" for name in names), *("".join(name.split()) for name in names)]
    joined = data.draw(st.lists(st.sampled_from(parts), max_size=6).map("".join)) if data else text

    assert not is_held(hide(joined, names, place), names, place)


PARTS = st.sampled_from(
    ["Anna", "Lindqvist", "anna", "A.", "L.", "s", "@", " ", ", ", ".", "<b>", "</b>", "*", "_", "&nbsp;", r"\n",
     "\\u00", "Åsa", "Ek", "Ö", "&", "<a title='", "'>", "\u200b", "\ufffc", "%20", "=C3", "é", "+", "Li", "ue"]
)  # fmt: skip


@settings(max_examples=some(150), deadline=None)
@given(text=st.lists(PARTS, max_size=14).map("".join))
def test_hiding_is_complete_in_any_composition(text: str) -> None:
    names = ["Anna Lindqvist", "Åsa Ek", "Li Anna", "Öe"]

    hidden = hide(text, names)

    assert hide(hidden, names) == hidden
    assert not is_held(hidden, names)


@settings(max_examples=some(60), deadline=None)
@given(
    country=st.integers(1, 999),
    national=st.integers(10**8, 10**10 - 1),
    cuts=st.lists(st.integers(1, 9), max_size=3),
)
def test_no_form_of_a_phone_number_is_left(country: int, national: int, cuts: list[int]) -> None:
    number, digits = f"+{country} {national}", list(str(national))
    for cut in sorted(set(cuts), reverse=True):
        digits.insert(min(cut, len(digits) - 1), " ")
    spaced = "".join(digits)
    for text in (
        f"call {spaced}", f"call 0{spaced}.", f"+{country} {spaced}", f"00{country}{spaced}", f"0{national}"
    ):  # fmt: skip
        hidden = check(text, [number])
        assert hidden.count(HIDDEN) == 1
        assert str(national) not in "".join(filter(str.isdigit, hidden.replace(HIDDEN, "")))


@pytest.mark.parametrize(
    "part", each_of(["<a ", "\\", "&amp;", "=C3", "a", "A", "A.", "A. ", "b ", "<b>Anna</b> "], 2)
)
def test_time_grows_with_the_length_only(part: str) -> None:
    def measure(count: int) -> float:
        text = part * count
        started = time.process_time()
        hide(f"{text} Anna Lindqvist", ["Anna Lindqvist"])
        return time.process_time() - started

    measure(100)

    assert measure(20_000) < 25 * measure(2_000) + 0.5


def test_a_word_of_millions_of_letters_is_searched() -> None:
    hidden = hide(f"{'a' * some(10_000_000)} Anna Lindqvist", ["Anna Lindqvist"])

    assert hidden.endswith(f" {HIDDEN}")
