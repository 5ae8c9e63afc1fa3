"""IRC: the logs that irssi, WeeChat and ZNC keep, a file per channel or per channel and day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, date, datetime, time
from pathlib import PurePosixPath
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.chat_format import ChatFormat
from backstory.ingest.chats.items import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.opened import Opened
from backstory.ingest.chats.times import find_day, without_day
from backstory.ingest.text_lines import read_lines

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
        unknown_day: Why the day is not known.
    """

    chat: Chat
    day: date | None
    people: dict[str, str] = field(default_factory=dict)
    unknown_day: str = "no line before it states the day"


def find_irc(opened: Opened) -> list[str]:
    """Return a log."""
    return list(opened.names) if opened.is_single and _find_program(opened) else []


def read_irc(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the lines of a log.

    It raises ``ReadError`` if neither a line nor the path says the day.
    """
    program = _find_program(opened) or IRSSI
    name = name_conversation(opened.source)
    log = _Log(Chat(f"irc/{name}", name_chat(name, "")), find_day(opened.source))
    knows_day = log.day is not None
    yield log.chat
    with opened.open(found[0]) as file:
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
        raise ReadError(_NO_DAY, frozenset(), code="no_day")


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


def _find_program(opened: Opened) -> IrcProgram | None:
    lines = list(filter(None, opened.head().lines))[:_LINES_TRIED]
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
    yield from _list_people(line, log)
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


def _follow(line: IrcLine, log: _Log) -> None:
    """Note who has which nick after a line: a nick that was left may be taken by somebody else."""
    if line.what == "renamed" and line.nick and line.other:
        log.people[line.other] = log.people.pop(line.nick, line.nick)
    elif line.what == "left" and line.nick:
        log.people.pop(line.nick, None)
    elif line.what == "kicked" and line.other:
        log.people.pop(line.other, None)


IRC: Final = ChatFormat("irc", find_irc, read_irc)


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


_WRITTEN: Final = re.compile(
    r"\w{2,4}\.?,? (?P<month>\w{3}) +(?P<day>\d{1,2})(?: \d\d:\d\d(?::\d\d)?)?(?: [A-Z]{2,5})? (?P<year>\d{4})"
)


_NUMBERS: Final = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T].*)?")


def read_english_day(written: str) -> date | None:
    """Read a date with an English month, or in ISO 8601; None for any other."""
    found = _WRITTEN.fullmatch(written.strip()) or _NUMBERS.fullmatch(written.strip())
    if found is None:
        return None
    month = found["month"]
    if not month.isdigit() and month not in _MONTHS:
        return None
    number = int(month) if month.isdigit() else _MONTHS.index(month) + 1
    try:
        return date(int(found["year"]), number, int(found["day"]))
    except ValueError:
        return None


_CLOCK: Final = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?"
_DAY: Final = r"(?P<day>\d{4}-\d\d-\d\d)"
_NICK: Final = r"(?P<nick>[^\s<>]{1,64})"
_SIGNS: Final = "~&@%+!* "
"""Marks of rank before a nick."""


@dataclass(frozen=True, slots=True)
class IrcLine:
    """What a line of a log says.

    Attributes:
        what: ``said``, ``done`` (an action), ``joined``, ``left``, ``kicked``, ``renamed``, ``topic``, ``mode``,
            ``day`` (that of the following lines), ``end`` (of the log for now) or ``note`` (of the program).
        day: Day of the line; None if the line does not tell.
        clock: Time of day; None for a line that only tells the day.
        nick: Who said or did it.
        other: The new nick, or who was kicked.
        text: What was said, or the topic.
    """

    what: str
    day: date | None = None
    clock: time | None = None
    nick: str | None = None
    other: str | None = None
    text: str = ""


@dataclass(frozen=True)
class IrcProgram:
    """How one program writes its logs.

    Attributes:
        name: Its name.
        head: Time at the beginning of a line; the group ``rest`` is what follows.
        bodies: What may follow the time: kind of line and pattern, in the order in which they are tried.
        day: A line that tells the day, if there are such lines.
    """

    name: str
    head: re.Pattern[str]
    bodies: tuple[tuple[str, re.Pattern[str]], ...]
    day: re.Pattern[str] | None = None

    def read(self, line: str) -> IrcLine | None:
        """Read a line; None if the program does not write such lines."""
        dated = self.day.fullmatch(line) if self.day else None
        if dated is not None:
            return IrcLine(
                "end" if dated["what"] == "Log closed" else "day", read_english_day(dated["moment"])
            )
        found = self.head.match(line)
        if found is None:
            return None
        try:
            clock = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0))
            day = date.fromisoformat(found["day"]) if found["day"] else None
        except ValueError:
            return None
        for what, pattern in self.bodies:
            body = pattern.fullmatch(found["rest"])
            if body is not None:
                parts = body.groupdict()
                nick = (parts.get("nick") or "").lstrip(_SIGNS) or None
                return IrcLine(what, day, clock, nick, parts.get("other"), parts.get("text") or "")
        return None


def _compile(**bodies: str | tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (what, re.compile(pattern, re.DOTALL))
        for what, patterns in bodies.items()
        for pattern in ((patterns,) if isinstance(patterns, str) else patterns)
    )


IRSSI: Final = IrcProgram(
    "irssi",
    re.compile(rf"(?:{_DAY}[ T])?{_CLOCK} (?P<rest>.*)", re.DOTALL),
    _compile(
        said=(
            rf"<[{_SIGNS}]?{_NICK}> ?(?P<text>.*)",
            r"-(?P<nick>[^\s:(!-]{1,64})[:(][^\s]{1,128}- (?P<text>.*)",
        ),
        done=rf" \* {_NICK}(?: (?P<text>.*))?",
        joined=rf"-!- {_NICK} \[.*\] has joined \S+.*",
        left=(rf"-!- {_NICK} \[.*\] has left .*", rf"-!- {_NICK} \[.*\] has quit .*"),
        kicked=r"-!- (?P<other>\S{1,64}) was kicked from \S+ by (?P<nick>\S{1,64}).*",
        renamed=rf"-!- {_NICK} is now known as (?P<other>\S{{1,64}})",
        topic=rf"-!- {_NICK} changed the topic of \S+ to: (?P<text>.*)",
        mode=r"-!- (?:ServerMode|mode)/\S+ \[.*\] by (?P<nick>\S{1,64}).*",
        note=r"-!- .*",
    ),
    re.compile(r"--- (?P<what>Log opened|Log closed|Day changed) (?P<moment>.{1,80})"),
)

WEECHAT: Final = IrcProgram(
    "WeeChat",
    re.compile(rf"{_DAY} {_CLOCK}\t(?P<rest>[^\t]{{0,80}}\t.*)", re.DOTALL),
    _compile(
        done=rf" ?\*\t{_NICK}(?: (?P<text>.*))?",
        joined=rf"-->\t{_NICK} .*has joined \S+.*",
        kicked=r"<--\t(?P<nick>\S{1,64}) has kicked (?P<other>\S{1,64}).*",
        left=rf"<--\t{_NICK} .*has (?:left|quit).*",
        renamed=rf"--\t{_NICK} is now known as (?P<other>\S{{1,64}})",
        topic=rf'--\t{_NICK} has changed topic for \S+ (?:from ".*" )?to "(?P<text>.*)"',
        mode=r"--\tMode \S+ \[.*\] by (?P<nick>\S{1,64})",
        said=(
            r"--\tNotice\((?P<nick>[^)\s]{1,64})\)[^:]{0,80}: (?P<text>.*)",
            rf"(?!-->|<--|--|=!=){_NICK}\t(?P<text>.*)",
        ),
        note=r"[^\t]*\t.*",
    ),
)

ZNC: Final = IrcProgram(
    "ZNC",
    re.compile(rf"\[(?:{_DAY} )?{_CLOCK}\] (?P<rest>.*)", re.DOTALL),
    _compile(
        said=(rf"<{_NICK}> ?(?P<text>.*)", r"-(?P<nick>[^\s-][^\s]{0,63})- (?P<text>.*)"),
        joined=rf"\*\*\* Joins: {_NICK} \(.*\)",
        left=rf"\*\*\* (?:Parts|Quits): {_NICK} \(.*\)",
        kicked=r"\*\*\* (?P<other>\S{1,64}) was kicked by (?P<nick>\S{1,64}).*",
        renamed=rf"\*\*\* {_NICK} is now known as (?P<other>\S{{1,64}})",
        topic=rf"\*\*\* {_NICK} changes topic to '(?P<text>.*)'",
        mode=rf"\*\*\* {_NICK} sets mode: .*",
        note=r"\*\*\* .*",
        done=rf"\* {_NICK}(?: (?P<text>.*))?",
    ),
)

PROGRAMS: Final = (IRSSI, WEECHAT, ZNC)
"""The programs, in the order in which they are tried."""
