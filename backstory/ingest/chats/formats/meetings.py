"""Meetings: transcripts (WebVTT of Zoom, Teams and others), and the chats that Zoom and Google Meet (SBV) save."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import pairwise, takewhile
from typing import IO, Final, TypeAlias

from backstory.base.errors import ReadError
from backstory.ingest.chats.export import ChatMessage, Item, Person, Unread
from backstory.ingest.chats.export_files import ChatFormat, Opened
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.times import find_day, find_moment, is_recording
from backstory.text.encoding import read_lines

_WEBVTT: Final = "WEBVTT"
_TIME: Final = r"((?:\d{1,4}:)?\d\d:\d\d[.,]\d{3})"
_TIMES: Final = re.compile(rf"\s*{_TIME}(?:[ \t]+-->[ \t]+|,){_TIME}(?:\s.*)?")
_STATED: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?")
_VOICE: Final = re.compile(r"<v(?:\.[^\s>]{1,40})?[ \t]+(?P<name>[^>]{1,200})>")
_TAG: Final = re.compile(r"</?[a-z0-9][^<>]{0,200}>", re.IGNORECASE)
_NAMED: Final = re.compile(r"(?P<name>[^:<>\n]{1,80}):(?P<text>\s.*|)", re.DOTALL)
_IN_NAMES: Final = "al af ap bin da dal de del della der di dos du el la le ten ter van von y zu"
_PARTICLES: Final = frozenset(_IN_NAMES.split())
_NO_NAMES: Final = (
    "answer example note question reminder warning antwort beispiel frage hinweis ejemplo nota pregunta respuesta "
    "exemple réponse domanda esempio risposta pergunta exemplo resposta a an the my our your this that one der die das "
    "ein eine mein unser euer el la los las un una mi le les une mon notre il lo o os um uma de het een"
)
_LABELS: Final = frozenset(_NO_NAMES.split())
"""Words that begin no name before a colon."""

_ENDS: Final = (".", "!", "?", "…", ":", "。", "？", "！", '"', "”", ")")
_MOST_WORDS: Final = 6
_LONGEST_PAUSE: Final = timedelta(seconds=5)
_LONGEST_TEXT: Final = 1_000
_CLOCK: Final = r"(?P<clock>\d\d:[0-5]\d:[0-5]\d)"
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
"""Beginnings of a message of Zoom: of the present form, of the former one, and of that which comes with a recording."""

_DIRECT: Final = re.compile(r"(?P<name>.+?) ?\([^()]{1,60}\)")
_REACTED: Final = re.compile(r'(?:Reacted to|Removed an? \S{1,40} reaction from) ["\u201c].*', re.DOTALL)
_ANSWERED: Final = re.compile(r'\AReplying to ["\u201c][^\n]{0,500}\n+')
_NIGHT: Final = timedelta(hours=12)
_DAY: Final = timedelta(days=1)
_MISSING: Final = {
    "no_day": "its lines hold times but no date, and the names of file and folder hold none either; put the date into "
    "the name, such as 2024-05-01 chat.txt",
    "no_start": "its times count from the beginning of the meeting, and neither the file nor its name says when that "
    "was; put date and time into the name, such as GMT20240501-100000.vtt (GMT) or 2024-05-01 10-00-00.vtt (in "
    "`timezone`)",
}
"""What a meeting lacks without which its messages have no time, by the code of the error."""

_Block: TypeAlias = tuple[re.Match[str], list[str]]
"""A line with a time, and the lines up to the next one."""


@dataclass
class _Said:
    """What one person said without a long pause, or wrote, to one partner or to all.

    Times are from the beginning of the meeting, or of the day.
    """

    start: timedelta
    name: str
    text: str
    end: timedelta = timedelta()
    partner: str | None = None


def _find_first(opened: Opened) -> str:
    """Return the first line of a single file that is not blank."""
    lines = opened.head_lines() if opened.is_single else []
    return next(filter(str.strip, lines), "")


def _read_blocks(file: IO[bytes], find: Callable[[str], re.Match[str] | None]) -> list[_Block]:
    blocks: list[_Block] = []
    for number, line in read_lines(file):
        if line is None:
            raise ReadError(
                f"its line {number} is longer than 1 MiB; save the meeting again", code="too_large"
            )
        if found := find(line):
            blocks.append((found, []))
        elif blocks:
            blocks[-1][1].append(line)
    return blocks


def _read_time(written: str) -> timedelta:
    *hours, minutes, seconds = written.replace(",", ".").split(":")
    return timedelta(hours=int(*hours), minutes=int(minutes), seconds=float(seconds))


def _place(said: Iterable[_Said | Unread], start: datetime | None, missing: str) -> Iterator[Item]:
    """Yield who speaks and what is said; raise ``ReadError`` at the end if it is not known when the times begin."""
    for one in said:
        if isinstance(one, Unread):
            yield one
            continue
        yield from map(Person, filter(None, (one.name, one.partner)))
        if start is None:
            continue
        try:
            yield _read_message(one, read_timestamp(start + one.start))
        except (OverflowError, ValueError):
            yield Unread("the time is out of range")
    if start is None:
        raise ReadError(_MISSING[missing], frozenset(), code=missing)


def _read_message(said: _Said, sent: datetime) -> Item:
    if not said.text:
        return Unread("the message has no text")
    if _REACTED.match(said.text):
        return ChatMessage(sent, None, "a reaction", "system")
    to = "" if said.partner is None else f"(to @{said.partner} only) "
    return ChatMessage(sent, said.name, f"{to}{said.text}")


def _find_transcript(opened: Opened) -> list[str]:
    first = _find_first(opened)
    is_transcript = first.split(maxsplit=1)[:1] == [_WEBVTT] or _TIMES.fullmatch(first)
    return list(opened.names) if is_transcript else []


def _read_transcript(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read what people said; the lines of a chat (SBV) stay as they are.

    It raises ``ReadError`` if neither the file nor its path says when the meeting began.
    """
    start = _find_start(opened.head_lines()) or find_moment(opened.source)
    may_join = _find_first(opened).lstrip().startswith(_WEBVTT)
    with opened.open(found[0]) as file:
        blocks = _read_blocks(file, _TIMES.fullmatch)
    yield from _place(_read_speeches(blocks, may_join=may_join), start, "no_start")


def _find_start(lines: Iterable[str]) -> datetime | None:
    """Find the time that the lines before the first cue state."""
    for line in lines:
        if _TIMES.fullmatch(line):
            break
        if found := _STATED.search(line):
            with suppress(ValueError):
                return datetime.fromisoformat(found[0])
    return None


def _read_speeches(blocks: Sequence[_Block], *, may_join: bool) -> list[_Said | Unread]:
    """Return what people say; a cue that names nobody belongs to who spoke last.

    What a person says goes on through cues with pauses of at most 5 seconds, up to 1,000 characters.
    """
    cues = [(found, _write_cue(lines)) for found, lines in blocks]
    names = [_find_name(written) for _, written in cues]
    counts = Counter(names)
    # Where a cue names the speaker of the cue before it, one without a name is nobody's after a pause.
    are_repeated = any(name == after != "" for name, after in pairwise(names))
    said: list[_Said | Unread] = []
    last: _Said | None = None
    most = _LONGEST_TEXT if may_join else 0
    for found, written in cues:
        start, end = map(_read_time, found.groups())
        for name, text in _split_voices(written, counts, last.text if last else None):
            goes_on = last is not None and timedelta() <= start - last.end <= _LONGEST_PAUSE
            if name is None and last and (goes_on or not are_repeated):
                name = last.name
            if name is None and text:
                said.append(Unread(f"the cue at {start} does not say who speaks"))
            elif text and last and goes_on and name == last.name and len(last.text) + len(text) < most:
                last.text, last.end = f"{last.text} {text}", max(start, end)
            elif name is not None and text:
                last = _Said(start, name, text, max(start, end))
                said.append(last)
    return said


def _write_cue(lines: Iterable[str]) -> str:
    """Return the text of a cue, which ends at a blank line; number, notes and styles of the next one follow."""
    return "\n".join(takewhile(bool, map(str.strip, lines)))


def _find_name(written: str) -> str:
    found = _VOICE.search(written) or _NAMED.fullmatch(written)
    return _clean(found["name"]) if found else ""


def _split_voices(
    written: str, counts: Mapping[str, int], before: str | None
) -> list[tuple[str | None, str]]:
    """Split a cue at the tags that say who speaks, else at a name before a colon."""
    opening, *voices = _VOICE.split(written)
    if not voices:
        return [_split_name(written, counts, before)]
    tagged = zip(voices[::2], voices[1::2], strict=True)
    return [(None, _clean(opening)), *((_clean(name) or None, _clean(text)) for name, text in tagged)]


def _split_name(written: str, counts: Mapping[str, int], before: str | None) -> tuple[str | None, str]:
    """Split a cue into who speaks, None if it does not say, and the text.

    A name has few words, which begin as names do. One word that stands before a colon once is the beginning of a
    sentence unless the sentence before has ended.
    """
    name = _find_name(written)
    words, is_often = name.split(), counts[name] > 1
    is_full = len(words) > 1 and not words[-1].isdigit()
    is_told = is_often or is_full or before is None or before.endswith(_ENDS)
    is_word = len(words) == 1 and (is_often or "@" in name)
    if is_word or (is_told and _is_name(words)):
        return name, _clean(written.partition(":")[2])
    return None, _clean(written)


def _is_name(words: Sequence[str]) -> bool:
    """Return whether words may be a name: none of them begins with a small letter, but for particles."""
    if not 0 < len(words) <= _MOST_WORDS or words[0].lower() in _LABELS:
        return False
    return all(word.lower() in _PARTICLES or not word[0].islower() for word in words)


def _clean(text: str) -> str:
    return html.unescape(_TAG.sub("", text)).strip()


def _find_chat(opened: Opened) -> list[str]:
    return list(opened.names) if _find_header(_find_first(opened)) else []


def _find_header(line: str) -> re.Match[str] | None:
    return next((found for header in _HEADERS if (found := header.fullmatch(line))), None)


def _read_chat(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages; a step back to the morning begins another day.

    It raises ``ReadError`` if neither the name of the file nor that of a folder says the day, or when the
    recording began.
    """
    with opened.open(found[0]) as file:
        blocks = _read_blocks(file, _find_header)
    # Times count from the beginning of a recording: its form names no receiver.
    is_relative = is_recording(opened.source) or any(header.re is _HEADERS[-1] for header, _ in blocks[:1])
    day = find_day(opened.source)
    midnight = None if day is None else datetime.combine(day, time())
    start = find_moment(opened.source) if is_relative else midnight
    yield from _place(_read_written(blocks), start, "no_start" if is_relative else "no_day")


def _read_written(blocks: Sequence[_Block]) -> Iterator[_Said]:
    """Yield each message of a chat."""
    last = days = timedelta()
    for found, lines in blocks:
        at = _read_time(found["clock"]) + days
        if last - at > _NIGHT:
            days, at = days + _DAY, at + _DAY
        last = at
        text = "\n".join([found["text"] or "", *(line.removeprefix("\t") for line in lines)]).strip()
        direct = _DIRECT.fullmatch((found["to"] or "").strip())
        partner = direct["name"].strip() if direct else None
        yield _Said(at, found["name"].strip(), _ANSWERED.sub("", text), partner=partner)


TRANSCRIPT: Final = ChatFormat("transcript", _find_transcript, _read_transcript)
ZOOM_CHAT: Final = ChatFormat("zoom_chat", _find_chat, _read_chat)
