"""The chat of a meeting as Zoom saves it, on the computer (``From Ann to Everyone:``) or with a recording."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import ChatMessage, Item, Person, Unread
from backstory.ingest.chats.opened import ChatFormat, Opened
from backstory.ingest.chats.times import find_day, find_moment, is_recording
from backstory.ingest.text_lines import read_lines

_CLOCK: Final = r"(?P<h>\d\d):(?P<m>[0-5]\d):(?P<s>[0-5]\d)"
_HEADERS: Final = (
    re.compile(
        rf"{_CLOCK}[ \t]+From[ \t]+(?P<name>\S.{{0,99}}?)[ \t]+to[ \t]+(?P<to>\S.{{0,199}}?):[ \t]*(?P<text>)"
    ),
    re.compile(
        rf"{_CLOCK}[ \t]+From[ \t]+(?P<name>\S.{{0,99}}?)(?:[ \t]+to[ \t]+(?P<to>\S.{{0,199}}?))?"
        r"[ \t]+:(?:[ \t](?P<text>.*))?"
    ),
    re.compile(rf"{_CLOCK}\t[ \t]*(?P<to>)(?P<name>[^\t:]{{1,100}}?)[ \t]?:(?:[ \t](?P<text>.*))?"),
)
"""Beginnings of a message: of the present form, of the former one, and of that which comes with a recording."""

_DIRECT: Final = re.compile(r"(?P<name>.+?) ?\([^()]{1,60}\)")
_REACTED: Final = re.compile(r'(?:Reacted to|Removed an? \S{1,40} reaction from) ["\u201c].*', re.DOTALL)
_ANSWERED: Final = re.compile(r'Replying to ["\u201c][^\n]{0,500}\n+')
_MOST_CHARACTERS: Final = 1 << 20
_TOO_LONG: Final = f"the message has more than {_MOST_CHARACTERS:,} characters; the rest is left out"
_NIGHT: Final = timedelta(hours=12)
_NO_DAY: Final = (
    "its lines hold times but no date, and the names of file and folder hold none either; put the date into the "
    "name, such as 2024-05-01 chat.txt"
)
_NO_START: Final = (
    "its times count from the beginning of the recording, and neither the file's name nor its folder says when that "
    "was; put date and time into the name, such as GMT20240501-100000_Recording.txt"
)


@dataclass
class _Message:
    """A message with the lines read so far: time of day or of the recording, author, receiver as written, and size."""

    at: timedelta
    name: str
    to: str
    lines: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def partner(self) -> str | None:
        """The only one to whom the message was sent."""
        found = _DIRECT.fullmatch(self.to)
        return found["name"].strip() if found else None


def _find(opened: Opened) -> list[str]:
    """Return a chat."""
    return list(opened.names) if opened.is_single and _find_first(opened) else []


def _read(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages; a step back to the morning begins another day.

    It raises ``ReadError`` if neither the name of the file nor that of a folder says the day, or when the
    recording began.
    """
    first = _find_first(opened)
    # Times count from the beginning of a recording: its form names no receiver.
    is_relative = is_recording(opened.source) or (first is not None and first.re is _HEADERS[-1])
    day = find_day(opened.source)
    midnight = None if day is None else datetime.combine(day, time())
    start, last = find_moment(opened.source) if is_relative else midnight, timedelta(0)
    for message in _read_messages(opened, found[0]):
        if isinstance(message, Unread):
            yield message
            continue
        yield from map(Person, filter(None, (message.name, message.partner)))
        if start is None:
            continue
        try:
            if not is_relative and last - message.at > _NIGHT:
                start += timedelta(days=1)
            last = message.at
            yield _read_message(message, read_timestamp(start + message.at))
        except (OverflowError, ValueError):
            yield Unread("the time is out of range")
    if start is None:
        code = "no_start" if is_relative else "no_day"
        raise ReadError(_NO_START if is_relative else _NO_DAY, frozenset(), code=code)


def _find_first(opened: Opened) -> re.Match[str] | None:
    """Return the beginning of the first message, if the file begins with one."""
    return _find_header(next((line for line in opened.head_lines() if line.strip()), ""))


def _find_header(line: str) -> re.Match[str] | None:
    return next((found for header in _HEADERS if (found := header.fullmatch(line))), None)


def _read_messages(opened: Opened, name: str) -> Iterator[_Message | Unread]:
    message: _Message | None = None
    with opened.open(name) as file:
        for number, line in read_lines(file):
            found = None if line is None else _find_header(line)
            if found is not None:
                if message is not None:
                    yield message
                at = timedelta(hours=int(found["h"]), minutes=int(found["m"]), seconds=int(found["s"]))
                message = _Message(at, found["name"].strip(), (found["to"] or "").strip())
                line = found["text"] or ""
            if line is None:
                yield Unread(f"line {number}: it is longer than 1 MiB")
            elif message is None:
                yield from [Unread(f"line {number}: it belongs to no message")] if line.strip() else []
            elif message.size <= _MOST_CHARACTERS:
                line = line if found else line.removeprefix("\t")
                message.size += len(line) + 1
                message.lines.append(line)
                if message.size > _MOST_CHARACTERS:
                    message.lines.pop()
                    yield Unread(f"line {number}: {_TOO_LONG}")
    if message is not None:
        yield message


def _read_message(message: _Message, sent: datetime) -> Item:
    text = "\n".join(message.lines).strip()
    if _REACTED.match(text):
        return ChatMessage(sent, None, "a reaction", "system")
    text = _ANSWERED.sub("", text, count=1) if _ANSWERED.match(text) else text
    if message.partner is not None:
        text = f"(to @{message.partner} only) {text}"
    return ChatMessage(sent, message.name, text) if text else Unread("the message has no text")


ZOOM_CHAT: Final = ChatFormat("zoom_chat", _find, _read)
