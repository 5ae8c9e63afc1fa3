"""Lines of the logs of IRC programs: irssi, WeeChat and ZNC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, time
from typing import Final

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
