"""When names are the same, and where they are found."""

import unicodedata

import polars as pl
import pytest

from backstory.ingest.privacy.names import NameFinder, Place, normalize_name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann Miller", "ann  miller"),
        ("Ann Miller", "\u200eAnn\u00a0Miller "),
        ("Ann Miller", "~\u202fAnn Miller"),
        ("Ann Miller", "\u2068Ann Miller\u2069"),
        ("Zoë", unicodedata.normalize("NFD", "Zoë")),
        ("STRASSER", "Straßer"),
        ("+49 151 2345678", "\u202a+49\u00a0151\u00a02345678\u202c"),
        ("+1 (555) 123-4567", "+1 555 123\u20114567"),
    ],
)
def test_one_person_has_one_name(one: str, other: str) -> None:
    assert normalize_name(one) == normalize_name(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Ann", "Anne"), ("Ann", "Ann 🤓"), ("+49 151 2345678", "+49 151 2345679")]
)
def test_different_people_have_different_names(one: str, other: str) -> None:
    assert normalize_name(one) != normalize_name(other)


def find(text: str, *names: str, app_line: bool = False, members: tuple[str, ...] = ()) -> str:
    finder = NameFinder(names, members)
    place: Place = "app line" if app_line else "message"
    return str(finder.replace(pl.Series([text]), place, lambda person: f"<{person}>")[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi @Ann!", "hi @<ann>!"),
        ("hi @ann", "hi @<ann>"),
        ("hi @\u2068Ann\u2069, yes", "hi @<ann>, yes"),
        ("hi @\u2068~\u202fAnn\u2069", "hi @<ann>"),
        ("@Ann's dog", "@<ann>'s dog"),
        ("'of Zed Banks', Zed Banks's dog", "'of <zed banks>', <zed banks>'s dog"),
        ("@Anna and @Annabel", "@Anna and @Annabel"),
        ("Ann says", "Ann says"),
        ("@Ben Lee Jr and @Ben Lee", "@<ben lee jr> and @<ben lee>"),
        ("Ben Lee Jr, ben  lee.", "<ben lee jr>, <ben lee>."),
        ("Ben\nLee", "<ben lee>"),
        ("Reuben Leeds", "Reuben Leeds"),
        ("Mia Roth came", "<mia roth 🤓> came"),
        ("@Mia Roth 🤓!", "@<mia roth 🤓>!"),
        ("@Mia knows", "@<mia roth 🤓> knows"),
        ("@Ben knows", "@<ben> knows"),
        ("@🐙 too", "@<🐙> too"),
        ("call +49 151 234-5678 now", "call <+491512345678> now"),
        ("call 00491512345678", "call <+491512345678>"),
        ("call +491512345679", "call +491512345679"),
        ("@491512345678 and @4917000000", "@<+491512345678> and @<+4917000000>"),
        ("@\u2068Somebody Else\u2069", "@<somebody else>"),
        ("write to @someone", "write to @someone"),
    ],
)
def test_names_in_messages(text: str, expected: str) -> None:
    names = ("Ann", "Ben Lee", "Ben Lee Jr", "Zed Banks", "Mia Roth 🤓", "🐙", "+49 151 2345678")

    assert find(text, *names) == expected


def test_decomposed_text_holds_the_composed_name() -> None:
    assert find(unicodedata.normalize("NFD", "with Zoë Groß"), "Zoë Groß") == "with <zoë gross>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann added Ben Lee", "<ann> added <ben lee>"),
        ("Ann added Zoe and +49 170 1234567", "<ann> added <zoe> and <+491701234567>"),
        ("🐙 left", "<🐙> left"),
        ("will the group", "will the group"),
        ("Will changed this", "<will> changed this"),
    ],
)
def test_names_in_lines_of_the_app(text: str, expected: str) -> None:
    assert find(text, "Ann", "Ben Lee", "🐙", "Will", app_line=True, members=("Zoe",)) == expected


def test_an_object_that_a_chat_shows_is_in_no_name() -> None:
    text = "\ufffc said hello to @\ufffc and @Ada Lind \ufffc"
    assert find(text, "\ufffc", "Ada \ufffcLind") == text.replace("@Ada Lind", "@<ada lind>")
    assert find(text, "\ufffc", app_line=True) == text


def test_members_are_found_only_where_a_name_is_meant() -> None:
    assert find("Zoe Hill and @Zoe Hill", "Ann", members=("Zoe Hill",)) == "Zoe Hill and @<zoe hill>"


@pytest.mark.parametrize("text", ["chat_ann.txt", "WhatsApp Chat with Ann.txt", "ANN", "ann-ben"])
def test_names_in_identifiers(text: str) -> None:
    finder = NameFinder(["Ann"])

    assert finder.find(text, "identifier")
    assert not finder.find("anniversary", "identifier")


def test_without_names_only_certain_mentions_are_found() -> None:
    assert find("Ann, @Ann, @\u2068Ann\u2069") == "Ann, @Ann, @<ann>"
    assert not NameFinder([]).find("Ann", "identifier")
