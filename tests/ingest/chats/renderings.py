"""How phones of many places write the header of a message: orders, separators, clocks, marks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

Write = Callable[[datetime], str]


def _numbers(pattern: str) -> Write:
    """Write a moment by a pattern in the manner of CLDR: ``d`` ``dd`` ``M`` ``MM`` ``yy`` ``y`` ``H`` ``HH`` ``h``."""

    def write(moment: datetime) -> str:
        hour = (moment.hour - 1) % 12 + 1
        values = {
            "dd": f"{moment:%d}", "d": str(moment.day), "MM": f"{moment:%m}", "M": str(moment.month),
            "yy": f"{moment:%y}", "y": str(moment.year), "HH": f"{moment:%H}", "H": str(moment.hour),
            "hh": f"{hour:02}", "h": str(hour), "mm": f"{moment:%M}", "ss": f"{moment:%S}",
        }  # fmt: skip
        return "".join(values.get(part, part) for part in pattern.split("|"))

    return write


@dataclass(frozen=True)
class Rendering:
    """One way of writing a chat.

    Attributes:
        name: Date and clock.
        order: What the numbers of its dates mean.
        has_seconds: Whether the clock shows them.
        write: Gives the beginning of a message's line.
    """

    name: str
    order: str
    has_seconds: bool
    write: Write

    def render(self, messages: list[tuple[datetime, str, str]]) -> str:
        return "".join(f"{self.write(moment)}{author}: {text}\n" for moment, author, text in messages)


_DATES = {
    **dict.fromkeys(
        (
            "dd.MM.yy", "dd.MM.yyyy", "d.M.yy", "d.M.yyyy", "dd. MM. yy", "d. M. yyyy", "dd. MM. yyyy.",
            "dd/MM/yy", "dd/MM/yyyy", "d/M/yy", "d/M/yyyy", "dd-MM-yy", "dd-MM-yyyy", "d-M-yyyy",
        ),
        "dmy",
    ),
    **dict.fromkeys(("M/d/yy", "MM/dd/yy", "MM/dd/yyyy", "M/d/yyyy"), "mdy"),
    **dict.fromkeys(
        (
            "yyyy-MM-dd", "yyyy/MM/dd", "yyyy/M/d", "yyyy.MM.dd", "yyyy. M. d.", "yyyy. MM. dd.",
            "yy-MM-dd", "yy/MM/dd", "yy/M/d", "yy. M. d.",
        ),
        "ymd",
    ),
}  # fmt: skip
_CLOCKS: dict[str, tuple[str, Callable[[datetime], str]]] = {
    "24": ("HH|:|mm", lambda _: ""),
    "24 dots": ("H|.|mm", lambda _: ""),
    "AM": ("h|:|mm", lambda moment: " AM" if moment.hour < 12 else " PM"),
    "a. m.": ("h|:|mm", lambda moment: " a.\u00a0m." if moment.hour < 12 else " p.\u00a0m."),
}
_CLOCKS_WITH_SECONDS: dict[str, tuple[str, Callable[[datetime], str]]] = {
    "24": ("HH|:|mm|:|ss", lambda _: ""),
    "am narrow": ("h|:|mm|:|ss", lambda moment: "\u202fam" if moment.hour < 12 else "\u202fpm"),
}
_JOINTS = (", ", " ")
_BENGALI = str.maketrans("0123456789", "০১২৩৪৫৬৭৮৯")
OF_LOCALES: dict[str, tuple[str, bool, Write]] = {
    "vi": ("dmy", False, lambda at: f"{at:%H:%M}, {at:%d/%m/%Y} - "),
    "vi short": ("dmy", False, lambda at: f"{at:%H:%M} {at.day}/{at.month}/{at:%y} - "),
    "vi iOS": ("dmy", True, lambda at: f"[{at:%H:%M:%S}, {at:%d/%m/%Y}] "),
    "fr-CA": ("ymd", False, lambda at: f"{at:%Y-%m-%d} {at:%H} h {at:%M} - "),
    "fr-CA iOS": ("ymd", True, lambda at: f"[{at:%Y-%m-%d}, {at:%H} h {at:%M} min {at:%S} s] "),
    "ko": ("ymd", False, lambda at: f"{at.year}년 {at.month}월 {at.day}일 {_half(at, '오전', '오후')} - "),
    "bn": ("dmy", False, lambda at: f"{at.day}/{at.month}/{at:%y}, {at:%H:%M} - ".translate(_BENGALI)),
    "fi": ("dmy", False, lambda at: f"{at.day}.{at.month}.{at.year} klo {at.hour}.{at:%M} - "),
    "bg": ("dmy", False, lambda at: f"{at.day}.{at:%m.%y} г., {at.hour}:{at:%M} ч. - "),
}
"""Locales with a form or words of their own."""


def _half(moment: datetime, am: str, pm: str) -> str:
    """Write the time with the mark of the half day before it."""
    return f"{am if moment.hour < 12 else pm} {(moment.hour - 1) % 12 + 1}:{moment:%M}"


def _pattern_of(date: str) -> str:
    """Part the letters of a pattern: ``dd.MM.yyyy`` becomes ``dd|.|MM|.|y``."""
    parts: list[str] = []
    for character in date.replace("yyyy", "Y"):
        if parts and parts[-1][-1] == character and character.isalpha():
            parts[-1] += character
        else:
            parts.append(character)
    return "|".join(parts).replace("Y", "y")


def renderings() -> Iterator[Rendering]:
    """Give every date with every clock, as Android writes it, and with brackets and seconds, as iOS does."""
    for place, (date, order) in enumerate(_DATES.items()):
        day, joint = _numbers(_pattern_of(date)), _JOINTS[place % 2]
        for clock, (pattern, period) in _CLOCKS.items():
            write = _header("{}{}{}{} - ", day, joint, _numbers(pattern), period)
            yield Rendering(f"Android {date} {clock}", order, False, write)
        for clock, (pattern, period) in _CLOCKS_WITH_SECONDS.items():
            write = _header("[{}{}{}{}] ", day, joint, _numbers(pattern), period)
            yield Rendering(f"iOS {date} {clock}", order, True, write)
    for name, (order, has_seconds, write) in OF_LOCALES.items():
        yield Rendering(name, order, has_seconds, write)


def _header(form: str, day: Write, joint: str, time: Write, period: Write) -> Write:
    return lambda moment: form.format(day(moment), joint, time(moment), period(moment))
