"""IRC: the logs that irssi, WeeChat and ZNC keep, a file per channel or per channel and day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, date, datetime
from pathlib import PurePosixPath
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.chat_format import Chat, ChatFormat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.dated_names import find_day, without_day
from backstory.ingest.chats.export_parts import ExportParts
from backstory.ingest.chats.formats.irc_lines import IRSSI, PROGRAMS, IrcLine, IrcProgram
from backstory.ingest.chats.line_stream import read_first_lines, read_lines

_LEAST_KNOWN: Final = 0.8
_LINES_TRIED: Final = 200
_WEECHAT_NAME: Final = re.compile(r"irc\.(?P<network>[^.]+)\.(?P<channel>.+)")
_ADDRESSED: Final = re.compile(r"(?=[^\W\d]|[\[\]\\`^{|}])[\w\[\]\\`^{|}-]{2,30}: (?=\S)")
"""A nick before what is said to its owner. Any such word counts, so that a text never depends on other lines."""

_CHANNEL_SIGNS: Final = ("#", "&", "!", "+")
_TOO_LONG: Final = "it is longer than 1 MiB"
_NO_DAY: Final = (
    "neither its lines nor its name hold a date; put the date of its first line into the name, "
    "such as 2024-05-01.log"
)


@dataclass
class _Log:
    """What the lines so far say about those that follow.

    Attributes:
        chat: The channel.
        day: Day of the next line; None if it is not known.
        people: First nick of the people who changed it, by the nick that they have.
        reported: People whose rows were already yielded.
        unknown_day: Why the day is not known.
    """

    chat: Chat
    day: date | None
    people: dict[str, str] = field(default_factory=dict)
    reported: set[Person] = field(default_factory=set)
    unknown_day: str = "no line before it states the day"


def find_irc(parts: ExportParts) -> list[str]:
    """Return a log; see :class:`backstory.ingest.chats.chat_format.ChatFormat`."""
    return list(parts.names) if parts.is_single and _find_program(parts) else []


def read_irc(parts: ExportParts, found: list[str]) -> Iterator[Item]:
    """Read the lines of a log; see :class:`backstory.ingest.chats.chat_format.ChatFormat`.

    It raises ``ReadError`` if neither a line nor the path says the day.
    """
    program = _find_program(parts) or IRSSI
    name = name_conversation(parts.source)
    log = _Log(Chat(f"irc/{name}", name_chat(name, "")), find_day(parts.source))
    knows_day = log.day is not None
    yield log.chat
    with parts.open(found[0]) as file:
        for number, text in read_lines(file):
            if text == "":
                continue
            line = None if text is None else program.read(text)
            if line is None:
                yield Unread(f"line {number}: {_TOO_LONG if text is None else _describe_unknown(program)}")
                continue
            knows_day = knows_day or line.day is not None
            for item in _read_line(line, log):
                yield Unread(f"line {number}: {item.reason}") if isinstance(item, Unread) else item
    if not knows_day:
        raise ReadError(_NO_DAY, frozenset(_list_names(log.reported)), code="no_day")


def name_conversation(source: str) -> str:
    """Name the conversation of a log by its path: network and channel, as far as the path tells them.

    ``libera/#python/2024-05-01.log``, ``libera/#python_20240501.log``, ``libera/#python.log`` and
    ``irc.libera.#python.weechatlog`` are all ``libera/#python``. In a folder, the name of a file counts if it is that
    of a channel.
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


def _find_program(parts: ExportParts) -> IrcProgram | None:
    with parts.open(parts.names[0]) as file:
        lines = [line for line in read_first_lines(file) if line][:_LINES_TRIED]
    return next((program for program in PROGRAMS if _is_known(program, lines)), None)


def _is_known(program: IrcProgram, lines: Sequence[str]) -> bool:
    """Return whether most lines are the program's, and one of them tells what somebody said or did."""
    if not lines or program.read(lines[0]) is None:
        return False
    read = [program.read(line) for line in lines]
    known = [line for line in read if line is not None]
    has_content = any(line.what not in ("note", "end") for line in known)
    return has_content and len(known) >= _LEAST_KNOWN * len(lines)


def _describe_unknown(program: IrcProgram) -> str:
    return f"{program.name} writes no such line"


def _read_line(line: IrcLine, log: _Log) -> Iterator[Item]:
    if line.what == "end":
        return
    if line.what == "day":
        log.day = line.day
        if line.day is None:
            log.unknown_day = "the line before it that states the day is not in English"
        return
    yield from _tell(_list_people(line, log), log)
    day = line.day or log.day
    if day is None or line.clock is None or not MINYEAR < day.year < MAXYEAR:
        _follow(line, log)
        yield Unread(log.unknown_day if day is None else "the date is out of range")
        return
    yield _read_message(line, datetime.combine(day, line.clock), log)
    _follow(line, log)


def _read_message(line: IrcLine, sent: datetime, log: _Log) -> ChatMessage:
    """Read what somebody said; of any other line, tell only who did what, without addresses and reasons."""
    nick = log.people.get(line.nick or "", line.nick)
    if line.what in ("said", "done"):
        text = f"/me {line.text}" if line.what == "done" else line.text
        text = f"@{text}" if _ADDRESSED.match(text) else text
        return ChatMessage(sent, nick, text or None, chat=log.chat.key)
    notes = {
        "joined": f"{line.nick} joined",
        "left": f"{line.nick} left",
        "kicked": f"{line.nick} removed {line.other}",
        "renamed": f"{line.nick} is now known as {line.other}",
        "topic": f"{line.nick} changed the topic: {line.text}",
        "mode": f"{line.nick} changed a mode",
    }
    return ChatMessage(sent, None, notes.get(line.what, "a note of the program"), "system", chat=log.chat.key)


def _list_people(line: IrcLine, log: _Log) -> Iterator[Person]:
    """Yield the people of a line; a person with several nicks has the first as name."""
    if line.nick is not None:
        first = log.people.get(line.nick, line.nick)
        aliases = {line.nick, line.other} if line.what == "renamed" else {line.nick}
        yield Person(first, tuple(sorted(alias for alias in aliases if alias and alias != first)))
    if line.other is not None and line.what == "kicked":
        first = log.people.get(line.other, line.other)
        yield Person(first, () if first == line.other else (line.other,))


def _tell(people: Iterator[Person], log: _Log) -> Iterator[Person]:
    for person in people:
        if person not in log.reported:
            log.reported.add(person)
            yield person


def _follow(line: IrcLine, log: _Log) -> None:
    """Note who has which nick after a line: a nick that was left may be taken by somebody else."""
    if line.what == "renamed" and line.nick and line.other:
        log.people[line.other] = log.people.pop(line.nick, line.nick)
    elif line.what == "left" and line.nick:
        log.people.pop(line.nick, None)
    elif line.what == "kicked" and line.other:
        log.people.pop(line.other, None)


def _list_names(people: set[Person]) -> Iterator[str]:
    for person in people:
        yield from (person.name, *person.aliases)


IRC: Final = ChatFormat("irc", find_irc, read_irc)
