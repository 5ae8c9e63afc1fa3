"""IRC: the logs that irssi, WeeChat and ZNC keep, a file per channel or per channel and day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import PurePosixPath
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.opened import ChatFormat, Opened
from backstory.ingest.chats.times import find_day, without_day
from backstory.ingest.text_lines import read_lines

_LEAST_KNOWN: Final = 0.8
_LINES_TRIED: Final = 200
_WEECHAT_NAME: Final = re.compile(r"irc\.(?P<network>[^.]+)\.(?P<channel>.+)")
_ADDRESSED: Final = re.compile(r"(?=[^\W\d]|[\[\]\\`^{|}])[\w\[\]\\`^{|}-]{2,30}: (?=\S)")
"""A nick before what is said to its owner. Any such word counts, so that a text never depends on other lines."""

_CHANNEL_SIGNS: Final = ("#", "&", "!", "+")
_NO_DAY: Final = (
    "neither its lines nor its name hold a date; put the date of its first line into the name, "
    "such as 2024-05-01.log"
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ENGLISH_DAY: Final = re.compile(
    r"\w{2,4}\.?,? (?P<month>\w{3}) +(?P<day>\d{1,2})(?: \d\d:\d\d(?::\d\d)?)?(?: [A-Z]{2,5})? (?P<year>\d{4})"
)
_SIGNS: Final = "~&@%+!* "
"""Marks of rank before a nick."""

_DAY_LINE: Final = re.compile(r"--- (?P<what>Log opened|Log closed|Day changed) (?P<moment>.{1,80})")
_HEAD: Final = re.compile(
    r"\[?(?:(?P<day>\d{4}-\d\d-\d\d)[ T])?(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?"
    r"(?:\]? |(?(day)(?=\t)|(?!)))(?P<rest>.*)",
    re.DOTALL,
)
_NICK: Final = r"(?P<nick>[^\s<>]{1,64})"
_OTHER: Final = r"(?P<other>\S{1,64})"
_BY: Final = r"(?P<nick>\S{1,64})"
_FORMS: Final = {
    "said": (
        rf"<[{_SIGNS}]?{_NICK}> ?(?P<text>.*)",
        r"-(?P<nick>[^\s:(!-]{1,64})[:(][^\s]{1,128}- (?P<text>.*)",
        r"-(?P<nick>[^\s!-][^\s]{0,63})- (?P<text>.*)",
        r"\t--\tNotice\((?P<nick>[^)\s]{1,64})\)[^:]{0,80}: (?P<text>.*)",
        rf"\t(?!-->|<--|--|=!=| ?\*\t){_NICK}\t(?P<text>.*)",
    ),
    "done": (rf"(?: ?\* |\t ?\*\t){_NICK}(?: (?P<text>.*))?",),
    "kicked": (
        rf"-!- {_OTHER} was kicked from \S+ by {_BY}.*",
        rf"\t<--\t{_BY} has kicked {_OTHER}.*",
        rf"\*\*\* {_OTHER} was kicked by {_BY}.*",
    ),
    "joined": (
        rf"-!- {_NICK} \[.*\] has joined \S+.*",
        rf"\t-->\t{_NICK} .*has joined \S+.*",
        rf"\*\*\* Joins: {_NICK} \(.*\)",
    ),
    "left": (
        rf"-!- {_NICK} \[.*\] has (?:left|quit) .*",
        rf"\t<--\t{_NICK} .*has (?:left|quit).*",
        rf"\*\*\* (?:Parts|Quits): {_NICK} \(.*\)",
    ),
    "renamed": (rf"(?:-!- |\t--\t|\*\*\* ){_NICK} is now known as {_OTHER}",),
    "topic": (
        rf"-!- {_NICK} changed the topic of \S+ to: (?P<text>.*)",
        rf'\t--\t{_NICK} has changed topic for \S+ (?:from ".*" )?to "(?P<text>.*)"',
        rf"\*\*\* {_NICK} changes topic to '(?P<text>.*)'",
    ),
    "mode": (
        rf"-!- (?:ServerMode|mode)/\S+ \[.*\] by {_BY}.*",
        rf"\t--\tMode \S+ \[.*\] by {_BY}",
        rf"\*\*\* {_NICK} sets mode: .*",
    ),
    "note": (r"-!- .*", r"\*\*\* .*", r"\t[^\t]{0,80}\t.*"),
}
"""What follows the time of a line, in the order in which the forms are tried: those of irssi, WeeChat and ZNC.

Only WeeChat, which always writes the day, parts time and rest by a tab. Its forms begin with this tab, so that they
match no other log.
"""
_PATTERNS: Final = [(what, re.compile(form, re.DOTALL)) for what, forms in _FORMS.items() for form in forms]
_NOTES: Final = {
    "joined": "{nick} joined",
    "left": "{nick} left",
    "kicked": "{nick} removed {other}",
    "renamed": "{nick} is now known as {other}",
    "topic": "{nick} changed the topic: {text}",
    "mode": "{nick} changed a mode",
    "note": "a note of the program",
}
"""What is told of a line of the program: only who did what, without addresses and reasons."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What a line says: a kind of ``_FORMS``, ``day`` (that of the following lines) or ``end``; who, of whom, when."""

    what: str
    day: date | None = None
    clock: time = time()
    nick: str = ""
    other: str = ""
    text: str = ""


def _find(opened: Opened) -> list[str]:
    """Return a log: most lines are those of a program, and one of them tells what somebody said or did."""
    lines = list(filter(None, opened.head_lines()))[:_LINES_TRIED] if opened.is_single else []
    if not lines or _read_line(lines[0]) is None:
        return []
    known = [line for line in map(_read_line, lines) if line is not None]
    has_content = any(line.what not in ("note", "end") for line in known)
    return list(opened.names) if has_content and len(known) >= _LEAST_KNOWN * len(lines) else []


def _read(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the lines of a log.

    It raises ``ReadError`` if neither a line nor the path says the day.
    """
    name, day = name_conversation(opened.source), find_day(opened.source)
    knows_day, unknown_day = day is not None, "no line before it states the day"
    people: dict[str, str] = {}
    chat = Chat(f"irc/{name}", name_chat(name, ""))
    yield chat
    with opened.open(found[0]) as file:
        for number, text in read_lines(file):
            line = None if text is None else _read_line(text)
            if text == "" or (line is not None and line.what == "end"):
                continue
            if line is None:
                problem = "it is longer than 1 MiB" if text is None else "no known program writes such a line"
                yield Unread(f"line {number}: {problem}")
                continue
            knows_day = knows_day or line.day is not None
            if line.what == "day":
                day, unknown_day = line.day, "the line before it that states the day is not in English"
                continue
            yield from _list_people(line, people)
            try:
                if (sent_on := line.day or day) is None:
                    raise ValueError(unknown_day)
                sent = read_timestamp(datetime.combine(sent_on, line.clock))
                yield _read_message(line, sent, chat.key, people)
            except ValueError as error:
                yield Unread(f"line {number}: {error}")
            _follow(line, people)
    if not knows_day:
        raise ReadError(_NO_DAY, frozenset(), code="no_day")


def name_conversation(source: str) -> str:
    """Name the conversation of a log by network and channel, as far as its path tells them.

    In a folder, the name of a file counts if it is that of a channel.
    """
    folder, _, _ = source.rpartition("/")
    path = PurePosixPath(source)
    last = without_day(path.stem if path.suffix.lower() in (".log", ".txt", ".weechatlog") else path.name)
    weechat = _WEECHAT_NAME.fullmatch(last)
    if weechat is not None:
        return f"{weechat['network']}/{weechat['channel']}"
    if last.startswith(_CHANNEL_SIGNS):
        return f"{folder}/{last}" if folder else last
    return folder or last or path.stem


def _read_line(line: str) -> _Line | None:
    """Read a line; None if no program writes such lines."""
    if (dated := _DAY_LINE.fullmatch(line)) is not None:
        is_end = dated["what"] == "Log closed"
        return _Line("end") if is_end else _Line("day", _read_day(dated["moment"].strip()))
    head = _HEAD.match(line)
    if head is None:
        return None
    try:
        clock = time(int(head["hour"]), int(head["minute"]), int(head["second"] or 0))
        day = date.fromisoformat(head["day"]) if head["day"] else None
    except ValueError:
        return None
    for what, pattern in _PATTERNS:
        if (body := pattern.fullmatch(head["rest"])) is not None:
            parts = {name: part or "" for name, part in body.groupdict().items()}
            parts["nick"] = parts.get("nick", "").lstrip(_SIGNS)
            return _Line(what, day, clock, **parts)
    return None


def _read_day(written: str) -> date | None:
    """Read a date with an English month, or in ISO 8601; None for any other."""
    found = _ENGLISH_DAY.fullmatch(written)
    try:
        if found is None:
            return date.fromisoformat(written[:10])
        return date(int(found["year"]), _MONTHS.index(found["month"]) + 1, int(found["day"]))
    except ValueError:
        return None


def _read_message(line: _Line, sent: datetime, chat: str, people: Mapping[str, str]) -> ChatMessage:
    if line.what in _NOTES:
        told = _NOTES[line.what].format(nick=line.nick, other=line.other, text=line.text)
        return ChatMessage(sent, None, told, "system", chat=chat)
    text = f"/me {line.text}" if line.what == "done" else line.text
    text = f"@{text}" if _ADDRESSED.match(text) else text
    return ChatMessage(sent, people.get(line.nick, line.nick) or None, text or None, chat=chat)


def _list_people(line: _Line, people: Mapping[str, str]) -> Iterator[Person]:
    """Yield the people of a line; a person with several nicks has the first as name."""
    first = people.get(line.nick, line.nick)
    if line.what == "renamed" and first:  # a nick may consist of nothing but marks of rank
        yield Person(first, (line.nick, line.other))
    else:
        for nick in filter(None, (line.nick, line.other)):
            yield Person(people.get(nick, nick), (nick,))


def _follow(line: _Line, people: dict[str, str]) -> None:
    """Note the first nick of whoever has one after a line: a nick that was left may be taken by somebody else."""
    if line.what == "renamed" and line.nick and line.other:
        people[line.other] = people.pop(line.nick, line.nick)
    elif line.what in ("left", "kicked"):
        people.pop(line.other or line.nick, None)


IRC: Final = ChatFormat("irc", _find, _read)
