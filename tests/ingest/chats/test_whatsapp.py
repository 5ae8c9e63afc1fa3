"""WhatsApp text: headers, authors, kinds, and what goes to quarantine."""

from datetime import UTC, datetime

import pytest

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.whatsapp import parse_whatsapp
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import decode_lines
from tests.errors import raises
from tests.ingest.chats.conftest import ReadText

MOMENT = datetime(2024, 1, 15, 21, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "header",
    [
        "15/01/24, 21:05 — ",
        "15/01/2024 à 21:05 - ",
        "1/15/24, 9:05\u202fPM - ",
        "1/15/24, 9:05\u00a0PM - ",
        "15/01/24, 9:05 pm - ",
        "15/1/24, 9:05 p.\u00a0m. - ",
        "15.01.24, 9:05 nachm. - ",
        "15/1/24, 9:05 μ.μ. - ",
        "2024/1/15 下午9:05 - ",
        "2024. 1. 15. 오후 9:05 - ",
        "\u200f١٥\u200f/٠١\u200f/٢٠٢٤، ٢١:٠٥ - ",
        "[1/15/24, 9:05:00\u202fPM] ",
        "\u200e[1/15/24, 9:05:00 PM] ",
        "[15/01/24 21:05] ",
        "[2024-01-15, 9:05:00 p.m.] ",
        "15. 01. 2024. u 21:05 - ",
        "15.01.24, 21:05 Uhr - ",
        "15.1.2024 klo 9.05 ip. - ",
        "[15.1.2024 klo 21.05.00] ",
        "15.01.24 г., 9:05 сл.об. - ",
        "[15.01.24 г., 21:05:00 ч.] ",
        "9:05 CH 15/1/24 - ",
        "১৫/১/২৪, ৯:০৫ PM - ",
        "১৫/১/২৪ ৯:০৫ অপরাহ্ণ - ",
        "15/1/24, 9:05 अपराह्न - ",
        "१५/१/२४, ९:०५ pm - ",
        "[2024년 1월 15일 오후 9:05:00] ",
        "2024年1月15日 下午9:05 - ",
    ],
)
def test_header_of_any_locale_is_read(read_text: ReadText, header: str) -> None:
    messages, quarantine = read_text(f"{header}Ann: hello\nsecond line\n{header}Ben: hi")

    assert messages.select("timestamp", "author", "text", "kind", "seq").rows() == [
        (MOMENT, "Ann", "hello\nsecond line", "message", 0),
        (MOMENT, "Ben", "hi", "message", 1),
    ]
    assert quarantine.is_empty()


def test_a_clock_before_the_date_is_another_style_than_one_after_it(read_text: ReadText) -> None:
    messages, _ = read_text(
        "15/01/2024, 21:05 - Ann: look:\n21:06, 15/01/2024 - Ben: copied\n15/01/2024, 21:07 - Ben: yes"
    )

    assert messages["text"].to_list() == ["look:\n21:06, 15/01/2024 - Ben: copied", "yes"]


@pytest.mark.parametrize(
    ("written", "hour"),
    [
        ("12:00 AM", 0),
        ("0:00 AM", 0),
        ("1:00 AM", 1),
        ("12:00 PM", 12),
        ("0:00 PM", 12),
        ("11:00 PM", 23),
        ("13:00 PM", 13),
    ],
)
def test_half_days_are_counted_from_twelve(read_text: ReadText, written: str, hour: int) -> None:
    messages, _ = read_text(f"1/15/24, {written} - Ann: hello")

    assert messages["timestamp"].to_list() == [datetime(2024, 1, 15, hour, tzinfo=UTC)]


@pytest.mark.parametrize(
    "line",
    [
        "12.05.2024",
        "12.05.2024 is the day",
        "12.05.2024, 10:00 Uhr - Zahnarzt: Kontrolle",
        "2024-05-12, 10:00 - Ben: copied from another phone",
        "[12.05.24, 10:00:00] Ben: copied from a tablet",
        "12/05/24, 10:00 - Ben: copied from abroad",
        "5/12/24, 10:00 AM - Ben: copied from abroad",
        "10:00 - Ben: no date",
        "12.05.24, 10:00-11:30 Ben: meeting",
        "10:00, 12.05.24 - Ben: copied from Hanoi",
        "10:00, 12/05/24 - Ben: copied from Hanoi",
        "2024년 5월 12일 오전 10:00 - Ben: copied from Seoul",
    ],
)
def test_line_that_only_looks_like_a_header_stays_in_its_message(read_text: ReadText, line: str) -> None:
    messages, quarantine = read_text(f"15.01.24, 21:05 - Ann: look:\n{line}\n15.01.24, 21:06 - Ben: yes")

    assert messages["text"].to_list() == [f"look:\n{line}", "yes"]
    assert quarantine.is_empty()


def test_style_of_nearly_all_lines_wins_over_a_stray_first_line(read_text: ReadText) -> None:
    chat = "".join(f"15.01.24, 21:{minute:02} - Ann: hello\n" for minute in range(11))

    messages, quarantine = read_text("2024-01-16, 10:00 - exported\n" + chat)

    assert len(messages) == 11
    assert quarantine.rows() == [("chat.txt", 1, "stands before the first message")]


def test_impossible_first_line_does_not_set_the_style(read_text: ReadText) -> None:
    messages, quarantine = read_text("99.99.99, 99:99 - damaged\n15/01/2024, 21:05 - Ann: hello\n")

    assert messages["text"].to_list() == ["hello"]
    assert quarantine["line"].to_list() == [1]


@pytest.mark.parametrize(
    ("rest", "author", "text", "kind"),
    [
        ("Ann: a: b", "Ann", "a: b", "message"),
        ("Ann: I added Ben and he left", "Ann", "I added Ben and he left", "message"),
        ("10:30 Club: hi", "10:30 Club", "hi", "message"),
        ("Ann:", "Ann", "", "message"),
        ("Ann: ", "Ann", "", "message"),
        ("~\u202fAnn Miller: hi", "Ann Miller", "hi", "message"),
        ("\u200e\u202a+49 151 2345678\u202c: hi", "+49 151 2345678", "hi", "message"),
        ("„Ann“ B.: hi", "„Ann“ B.", "hi", "message"),
        ('5" Ann: hi', '5" Ann', "hi", "message"),
        ("Ann: five o'clock \u200e<This message was edited>", "Ann", "five o'clock", "message"),
        ("Ann: This message was deleted", "Ann", "This message was deleted", "system"),
        ("Ann: Diese Nachricht wurde gelöscht.", "Ann", "Diese Nachricht wurde gelöscht.", "system"),
        *(
            (line, None, line, "system")
            for line in (
                "Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt.",
                "Ann added Ben",
                'Ann created group "Trip"',
                'Ann changed the subject from "Trip" to "Trip: Rome"',
                "Ann changed the subject to “Trip: Rome”",
                "Ann:.",
                "+12 345 678 left",
            )
        ),
    ],
)
def test_the_author_ends_at_the_first_colon_before_a_space_and_the_app_has_none(
    read_text: ReadText, rest: str, author: str | None, text: str, kind: str
) -> None:
    messages, quarantine = read_text(f"15.01.24, 21:05 - {rest}\n")

    assert messages.select("author", "text", "kind").rows() == [(author, text, kind)]
    assert quarantine.is_empty()


@pytest.mark.parametrize(
    "line",
    [
        "Trip: \u200eMessages and calls are end-to-end encrypted. No one outside of this chat can read them.",
        "Trip: Messages and calls are end-to-end encrypted.",
        "Trip: \u200eAnn added Ben",
        "Trip: \u200eAnn hat Ben hinzugefügt.",
        "Trip: \u200eAnn criou este grupo",
        "Ann: \u200eMissed voice call",
    ],
)
def test_what_ios_writes_in_the_name_of_the_group_is_a_system_line(read_text: ReadText, line: str) -> None:
    messages, _ = read_text(f"[15.01.24, 21:05:00] {line}\n")

    assert messages["kind"].to_list() == ["system"]
    assert messages["author"].to_list() == [None]


@pytest.mark.parametrize(
    "line",
    [
        "[2024-03-02 09:{0:02}] Hana Sato > number {0}",
        "[2024-03-02 09:{0:02}] <Hana Sato> number {0}",
        "[03/14/2024 9:{0:02} AM] hana.sato\nnumber {0}\n",
        "[2024-03-02 9:{0:02}] Sato, Hana (guest)\nnumber {0}",
        "2024-03-02 09:{0:02}:00 - Hana Sato\nnumber {0}\n",
        "2024-03-02 09:{0:02} - Hana Sato said {0}",
    ],
)
def test_the_text_of_another_program_is_refused_whatever_stands_in_a_few_lines(
    read_text: ReadText, line: str
) -> None:
    lines = [line.format(number) for number in range(10, 20)]
    with raises(ReadError, "foreign"):
        read_text("\n".join([*lines, "[2024-03-02 09:20] Jorge: and a note: two", lines[-1]]))


def test_a_group_that_many_join_is_read(read_text: ReadText) -> None:
    joins = (f"15.01.24, 21:{number} - +49 151 55501{number} joined\n" for number in range(10, 20))
    messages, _ = read_text(
        "15.01.24, 21:05 - Messages are end-to-end encrypted.\n"
        + "".join(joins)
        + "15.01.24, 22:05 - Ann: hello\n"
    )
    assert messages["author"].drop_nulls().to_list() == ["Ann"]


def test_lines_before_the_first_message_are_quarantined(read_text: ReadText) -> None:
    messages, quarantine = read_text("a title\n\nmore\n15.01.24, 21:05 - Ann: hello\n")

    assert messages["text"].to_list() == ["hello"]
    assert quarantine.rows() == [
        ("chat.txt", 1, "stands before the first message"),
        ("chat.txt", 3, "stands before the first message"),
    ]


def test_impossible_dates_and_times_are_quarantined_with_what_follows(read_text: ReadText) -> None:
    messages, quarantine = read_text(
        "15.01.24, 21:05 - Ann: one\n"
        "31.02.24, 21:05 - Ann: two\n"
        "continued\n"
        "15.01.24, 25:05 - Ann: three\n"
        "16.01.24, 21:05 - Ann: four\n"
    )

    assert messages["text"].to_list() == ["one", "four"]
    assert messages["seq"].to_list() == [0, 1]
    assert quarantine["line"].to_list() == [2, 3, 4]
    assert not quarantine["reason"].str.contains("Ann").any()


def test_damaged_line_of_utf8_costs_only_itself(read_text: ReadText) -> None:
    messages, quarantine = read_text(
        "15.01.24, 21:05 - Ann: schön\n".encode()
        + "grüß\n".encode("latin-1")
        + b"two\n"
        + "15.01.24, 21:06 - Zoë: lost\n".encode("latin-1")
        + b"lost too\n"
        + b"15.01.24, 21:07 - Ann: three\n"
    )

    assert messages["text"].to_list() == ["schön\ntwo", "three"]
    assert quarantine["line"].to_list() == [2, 4, 5]


def test_times_are_local_to_the_setting(read_text: ReadText) -> None:
    messages, _ = read_text("15.07.24, 21:05 - Ann: hello\n", timezone="Europe/Berlin")

    assert messages["timestamp"].to_list() == [datetime(2024, 7, 15, 19, 5, tzinfo=UTC)]


def test_no_line_of_a_long_chat_is_read_twice_or_dropped() -> None:
    lines = [f"15.01.24, 21:05 - Ann: {number}" if number % 3 else f"line {number}" for number in range(3000)]

    parsed = parse_whatsapp(decode_lines("\n".join(lines).encode()), ConversationSettings())

    assert sum(text.count("\n") + 1 for text in parsed.rows["text"]) + len(parsed.unread) == 3000


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I added milk to the list", "message"),
        ("Ben added too much salt", "message"),
        ("the soup, and added salt", "message"),
        ("Ann added Ben", "system"),
        ("You added Ben", "system"),
        ("Missed voice call", "system"),
    ],
)
def test_the_mark_of_the_app_below_a_persons_name_makes_no_system_line(
    read_text: ReadText, text: str, kind: str
) -> None:
    messages, _ = read_text(f"[15.01.24, 21:05:00] Ann: hello\n[15.01.24, 21:06:00] Ann: \u200e{text}\n")

    author = "Ann" if kind == "message" else None
    assert messages.select("author", "text", "kind").row(1) == (author, text, kind)


@pytest.mark.parametrize(
    ("beginning", "is_by_app"),
    [
        ("Messages and calls are end-to-end encrypted.", False),
        ("Ann: morning", False),
        ("Ujumbe na simu zimelindwa.", True),
    ],
)
def test_what_several_people_have_in_common_is_the_apps_only_in_a_language_that_is_not_listed(
    read_text: ReadText, beginning: str, *, is_by_app: bool
) -> None:
    said = ["Ann: rain again <irony mode off>", "Ben: lovely <irony mode off>"]
    said += ["Ann: \u200eHarbour Street 5", "Ben: \u200eHarbour Street 5"]
    messages, _ = read_text("\n".join(f"15/01/24, 21:05 - {line}" for line in (beginning, *said)))

    assert messages["edited"].to_list()[1:3] == [is_by_app, is_by_app]
    assert messages["text"][2] == ("lovely" if is_by_app else "lovely <irony mode off>")
    assert messages["kind"].to_list()[3:] == (["system"] * 2 if is_by_app else ["message"] * 2)
