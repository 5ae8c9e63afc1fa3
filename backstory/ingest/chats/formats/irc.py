"""IRC: the logs that irssi, WeeChat and ZNC keep, a file per channel or per channel and day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from backstory.base.errors import ReadError
from backstory.ingest.chats.export import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.export_files import ChatFormat, Opened
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.times import find_day, without_day
from backstory.text.encoding import read_lines

_LEAST_KNOWN: Final = 0.8
_LINES_TRIED: Final = 200
_WEECHAT_NAME: Final = re.compile(r"irc\.(?P<network>[^.]+)\.(?P<channel>.+)")
_ADDRESSED: Final = re.compile(r"(?=[^\W\d]|[\[\]\\`^{|}])[\w\[\]\\`^{|}-]{2,30}: (?=\S)")
"""A nick before what is said to its owner. Any such word counts, so that a text never depends on other lines."""

_CHANNEL_SIGNS: Final = ("#", "&", "!", "+")
_NO_DAY: Final = (
    "no line states the day in English; put that of the first one into the name, such as 2024-05-01.log"
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ENGLISH_DAY: Final = re.compile(r"\w{2,4}\.?,? (\w{3}) +(\d{1,2})(?: \d[\d:]{4,7})?(?: [A-Z]{2,5})? (\d{4})")
_SIGNS: Final = "~&@%+!* "
"""Marks of rank before a nick."""

_DAY_LINE: Final = re.compile(r"--- (?:Log opened|Log closed|Day changed) (.{1,80})")
_HEAD: Final = re.compile(
    r"\[?(?:(?P<day>\d{4}-\d\d-\d\d)[ T])?(?P<clock>\d\d:\d\d(?::\d\d)?)(?:\]? |(?(day)(?=\t)|(?!)))(?P<rest>.*)",
    re.DOTALL,
)
_NICK: Final = r"(?P<nick>[^\s<>]{1,64})"
_FORMS: Final = (
    rf"<[{_SIGNS}]?{_NICK}> ?(?P<text>.*)",
    r"-(?P<nick>[^\s!:(-][^\s!:(]{0,63})(?:[!:(]\S{1,128})?- (?P<text>.*)",
    r"\t--\tNotice\((?P<nick>[^)\s]{1,64})\)[^:]{0,80}: (?P<text>.*)",
    rf"\t(?!-->|<--|--|=!=| ?\*\t){_NICK}\t(?P<text>.*)",
    rf"(?: ?\* |\t ?\*\t){_NICK}(?: (?P<action>.*))?",
    rf"(?:-!- |\t--\t|\*\*\* ){_NICK} is now known as (?P<other>\S{{1,64}})",
    rf"-!- {_NICK} (?:\[.*\] has (?:joined|left|quit)|was kicked from) (?P<moved>.*)",
    rf"\t(?:-->|<--)\t(?:\S{{1,64}} has kicked )?{_NICK}(?P<moved> .*)?",
    rf"\*\*\* (?:(?:Joins|Parts|Quits): )?{_NICK} (?:\(|was kicked by )(?P<moved>.*)",
    rf"(?:-!- |\t--\t|\*\*\* ){_NICK} (?:(?:has )?change[sd] (?:the )?topic|sets mode).*",
    rf"(?:-!- |\t--\tMode )\S+ \[.*\] by {_NICK}",
    r"(?:-!- |\*\*\* |\t[^\t]{0,80}\t).*",
)
"""What follows the time of a line, in the order in which the forms are tried: those of irssi, WeeChat and ZNC.

Only WeeChat, which always writes the day, parts time and rest by a tab. Its forms begin with this tab, so that they
match no other log. ``moved``: somebody joined, left or was removed. The last ones tell who changed a topic or a mode,
or nobody.
"""
_PATTERNS: Final = [re.compile(form, re.DOTALL) for form in _FORMS]
_NOTE: Final = "a note of the program"
"""What is told of a line of the program, which may hold addresses and names."""

_Line: TypeAlias = tuple[date | None, time | None, dict[str, str]]
"""The day that a line states, the time, None of one that states the day of the next ones, and the parts of its form."""


def _find(opened: Opened) -> list[str]:
    """Return a log: most lines are those of a program, and one of them is more than a note."""
    lines = [*filter(None, opened.head_lines())][:_LINES_TRIED] if opened.is_single else []
    known = [line for line in map(_read_line, lines) if line is not None]
    is_log = any(clock is None or len(parts) > 1 for _, clock, parts in known) and _read_line(lines[0])
    return list(opened.names) if is_log and len(known) >= _LEAST_KNOWN * len(lines) else []


def _read(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the lines of a log.

    It raises ``ReadError`` if neither a line nor the path says the day.
    """
    name, day = name_conversation(opened.source), find_day(opened.source)
    is_dated = day is not None
    first_nicks: dict[str, str] = {}
    chat = Chat(f"irc/{name}", name_chat(name, ""))
    yield chat
    with opened.open(found[0]) as file:
        for number, text in read_lines(file):
            if text == "":
                continue
            line = None if text is None else _read_line(text)
            if line is None:
                yield Unread(f"line {number}: it is longer than 1 MiB, or no known program writes such lines")
                continue
            stated, clock, parts = line
            is_dated = is_dated or stated is not None
            if clock is None:
                day = stated
                continue
            person = _follow(parts, first_nicks)
            if person.name:
                yield person
            try:
                if (sent_on := stated or day) is None:
                    raise ValueError("no line before it states the day in English")
                sent = read_timestamp(datetime.combine(sent_on, clock))
                yield _read_message(parts, sent, chat.key, person.name)
            except ValueError as error:
                yield Unread(f"line {number}: {error}")
    if not is_dated:
        raise ReadError(_NO_DAY, frozenset(), code="no_start")


def name_conversation(source: str) -> str:
    """Name the conversation of a log by network and channel, as far as its path tells them.

    In a folder, the name of a file counts if it is that of a channel.
    """
    folder, _, _ = source.rpartition("/")
    path = PurePosixPath(source)
    last = without_day(path.stem if path.suffix.lower() in (".log", ".txt", ".weechatlog") else path.name)
    if weechat := _WEECHAT_NAME.fullmatch(last):
        return f"{weechat['network']}/{weechat['channel']}"
    if last.startswith(_CHANNEL_SIGNS):
        return f"{folder}/{last}" if folder else last
    return folder or last or path.stem


def _read_line(line: str) -> _Line | None:
    """Read a line; None if no program writes such lines."""
    if dated := _DAY_LINE.fullmatch(line):
        return _read_day(dated[1].strip()), None, {}
    head = _HEAD.match(line)
    body = head and next(filter(None, (pattern.fullmatch(head["rest"]) for pattern in _PATTERNS)), None)
    with suppress(ValueError):
        if head and body:
            parts = {name: part or "" for name, part in body.groupdict().items()}
            day = date.fromisoformat(head["day"]) if head["day"] else None
            return day, time.fromisoformat(head["clock"]), parts
    return None


def _read_day(written: str) -> date | None:
    """Read a date with an English month, or in ISO 8601; None for any other."""
    found = _ENGLISH_DAY.fullmatch(written)
    with suppress(ValueError):
        if found is None:
            return date.fromisoformat(written[:10])
        return date(int(found[3]), _MONTHS.index(found[1]) + 1, int(found[2]))
    return None


def _follow(parts: dict[str, str], first_nicks: dict[str, str]) -> Person:
    """Return whom a line names, by the first nick; a nick that was left may be taken by somebody else."""
    nick, other = parts.get("nick", "").lstrip(_SIGNS), parts.get("other")
    first = first_nicks.get(nick, nick)
    if other or "moved" in parts:
        first_nicks.pop(nick, None)
    if other:
        first_nicks[other] = first
    return Person(first, tuple(filter(None, (nick, other))))


def _read_message(parts: dict[str, str], sent: datetime, chat: str, author: str) -> ChatMessage:
    text = f"/me {parts['action']}" if "action" in parts else parts.get("text")
    if text is None:
        return ChatMessage(sent, None, _NOTE, "system", chat=chat)
    text = f"@{text}" if _ADDRESSED.match(text) else text
    return ChatMessage(sent, author or None, text or None, chat=chat)


IRC: Final = ChatFormat("irc", _find, _read)
