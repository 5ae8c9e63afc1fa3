"""Random conversations read back as they were written, and nothing is ever lost."""

import re

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backstory.ingest.chats.formats.whatsapp import find_headers, parse_whatsapp
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import decode_lines
from tests.ingest.chats.chat_strategies import STYLES, Message, Style, conversations
from tests.long_tests import some

HEADER_LIKE = re.compile(r"^[\u200e\[\s]*\d{1,4}[./-]\s?\d{1,2}[./-]", re.MULTILINE)


def in_order_of(style: Style) -> ConversationSettings:
    """Name the order of the dates, which so few messages do not always tell."""
    return ConversationSettings.model_validate({"date_order": style.order})


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
@settings(max_examples=some(30), deadline=None)
@given(messages=conversations(), end=st.sampled_from(["\n", "\r\n"]))
def test_conversation_reads_back_exactly(style: Style, messages: list[Message], end: str) -> None:
    content = style.write(messages, end=end).encode()

    parsed = parse_whatsapp(decode_lines(content), in_order_of(style))

    read = parsed.rows.select("timestamp", "author", "text").rows()
    assert [(moment.replace(tzinfo=None), author, text) for moment, author, text in read] == [
        (moment if style.has_seconds else moment.replace(second=0), author, text)
        for moment, author, text in messages
    ]
    assert parsed.rows["seq"].to_list() == list(range(len(messages)))
    assert not parsed.unread


@given(
    messages=conversations(),
    style=st.sampled_from(STYLES),
    quoted=st.sampled_from(STYLES),
    place=st.integers(0),
)
def test_quoted_headers_of_another_style_stay_text(
    messages: list[Message], style: Style, quoted: Style, place: int
) -> None:
    assume(style.form != quoted.form)
    position = place % len(messages)
    moment, author, text = messages[position]
    messages[position] = (moment, author, f"{text}:\n{quoted.write([(moment, 'Ben', 'quoted')])}")

    parsed = parse_whatsapp(decode_lines(style.write(messages).encode()), in_order_of(style))

    assert parsed.rows["text"].to_list() == [text for _, _, text in messages]


@settings(max_examples=some(30), deadline=None)
@given(
    messages=conversations(),
    style=st.sampled_from(STYLES),
    damage=st.lists(
        st.tuples(st.integers(0), st.sampled_from([b"\xff", b"\xc3", b"99.99.99, 99:99 - "])), max_size=4
    ),
    title=st.sampled_from([b"", b"a title\n\n"]),
)
def test_every_line_is_in_a_message_or_in_quarantine(
    messages: list[Message], style: Style, damage: list[tuple[int, bytes]], title: bytes
) -> None:
    lines = (title + style.write(messages).encode()).split(b"\n")
    for place, insertion in damage:
        position = place % len(lines)
        lines[position] = insertion + lines[position]
    decoded = decode_lines(b"\n".join(lines))
    assume(not find_headers(pl.Series(decoded.lines, dtype=pl.String)).is_empty())

    parsed = parse_whatsapp(decoded, in_order_of(style))

    quarantined = set(parsed.unread)
    kept = "\n".join(text or "" for text in parsed.rows["text"])
    for number, line in enumerate(decoded.lines, start=1):
        if number not in quarantined and line.strip():
            rest = line.split(": ", 1)[-1] if HEADER_LIKE.match(line) else line
            assert rest.strip() in kept
    assert set(decoded.undecodable) <= quarantined
