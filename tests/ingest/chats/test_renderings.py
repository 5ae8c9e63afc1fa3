"""Chats as phones of many places write them: read rightly or asked about, never wrong."""

from datetime import datetime, timedelta

import pytest

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.whatsapp import parse_whatsapp
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import decode_lines
from tests.ingest.chats.renderings import OF_LOCALES, Rendering, renderings
from tests.long_tests import LONG_TESTS

# A fifth of them holds every date and every clock, though not with each other.
RENDERINGS = [
    rendering
    for place, rendering in enumerate(renderings())
    if LONG_TESTS or place % 5 == 0 or rendering.name in OF_LOCALES
]
Messages = list[tuple[datetime, str, str]]


def chat(*days: datetime, messages: int) -> Messages:
    """Write some messages on each day, all over the day."""
    return [
        (day + timedelta(minutes=(1439 * number) // messages, seconds=number), "Ann", f"text {number}")
        for day in days
        for number in range(messages)
    ]


def every(days: int, count: int, *, start: datetime) -> list[datetime]:
    return [start + timedelta(days=days * number) for number in range(count)]


def is_read(rendering: Rendering, messages: Messages) -> bool:
    """Say whether a rendered chat is read, which must be rightly; False if it is asked about."""
    lines = decode_lines(rendering.render(messages).encode())
    try:
        parsed = parse_whatsapp(lines, ConversationSettings())
    except ReadError:
        return False
    assert [
        (moment.replace(tzinfo=None), text) for moment, text in parsed.rows.select("timestamp", "text").rows()
    ] == [
        (moment if rendering.has_seconds else moment.replace(second=0), text) for moment, _, text in messages
    ], rendering.name
    assert not parsed.unread
    return True


@pytest.mark.parametrize(
    "messages",
    [
        chat(*every(1, 60, start=datetime(2024, 1, 20)), messages=2),
        chat(*every(7, 100, start=datetime(2022, 1, 20)), messages=1),
    ],
    ids=["two months", "weekly for two years"],
)
def test_a_chat_of_some_weeks_is_read_in_every_rendering(messages: Messages) -> None:
    assert [rendering.name for rendering in RENDERINGS if not is_read(rendering, messages)] == []


@pytest.mark.parametrize(
    "messages",
    [
        chat(datetime(2021, 5, 10), messages=3),
        chat(*every(1, 3, start=datetime(2021, 5, 10)), messages=3),
        chat(*every(1, 14, start=datetime(2021, 5, 10)), messages=10),
        chat(*(datetime(2024, month, 1) for month in range(1, 13)), messages=9),
        chat(*(datetime(year, 1, 15) for year in range(2012, 2026)), messages=2),
    ],
    ids=["one day", "three days", "two busy weeks", "firsts of months", "birthdays"],
)
def test_a_short_or_regular_chat_is_never_read_wrongly(messages: Messages) -> None:
    read = [rendering for rendering in RENDERINGS if is_read(rendering, messages)]

    assert {rendering.name for rendering in RENDERINGS if "yyyy-" in rendering.name} <= {
        rendering.name for rendering in read
    }
