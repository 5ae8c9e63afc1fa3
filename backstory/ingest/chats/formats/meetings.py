"""Meetings: transcripts (WebVTT of Zoom, Teams and others), and the chats that Zoom and Google Meet (SBV) save."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from itertools import pairwise
from typing import IO, Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import ChatMessage, Item, Person, Unread
from backstory.ingest.chats.opened import ChatFormat, Opened
from backstory.ingest.chats.times import find_day, find_moment, is_recording
from backstory.ingest.text_lines import read_lines

_WEBVTT: Final = "WEBVTT"
_PLACE: Final = r"(?:(?P<{0}h>\d{{1,4}}):)?(?P<{0}m>\d\d):(?P<{0}s>\d\d)[.,](?P<{0}ms>\d{{3}})"
_VTT_TIMES: Final = re.compile(rf"{_PLACE.format('a')}[ \t]+-->[ \t]+{_PLACE.format('b')}(?:[ \t].*)?")
_SBV_TIMES: Final = re.compile(rf"{_PLACE.format('a')},{_PLACE.format('b')}")
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
"""Beginnings of a message of Zoom: of the present form, of the former one, and of that which comes with a recording."""

_DIRECT: Final = re.compile(r"(?P<name>.+?) ?\([^()]{1,60}\)")
_REACTED: Final = re.compile(r'(?:Reacted to|Removed an? \S{1,40} reaction from) ["\u201c].*', re.DOTALL)
_ANSWERED: Final = re.compile(r'Replying to ["\u201c][^\n]{0,500}\n+')
_NIGHT: Final = timedelta(hours=12)
_NO_DAY: Final = (
    "its lines hold times but no date, and the names of file and folder hold none either; put the date into the "
    "name, such as 2024-05-01 chat.txt"
)
_NO_START: Final = (
    "its times count from the beginning of the meeting, and neither the file nor its name says when that was; put date "
    "and time into the name, such as GMT20240501-100000.vtt (GMT) or 2024-05-01 10-00-00.vtt (in `timezone`)"
)


@dataclass
class _Cue:
    """Lines that were said in one stretch of time from the beginning of the meeting, and the number of the first."""

    start: timedelta
    end: timedelta
    number: int
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Speech:
    """What one person said without a long pause; times are from the beginning of the meeting."""

    start: timedelta
    end: timedelta
    name: str
    text: str

    def reaches(self, moment: timedelta) -> bool:
        """Return whether there is no long pause before a moment."""
        return timedelta(0) <= moment - self.end <= _LONGEST_PAUSE


def _find_transcript(opened: Opened) -> list[str]:
    first = _find_first(opened).strip()
    is_transcript = first.split(maxsplit=1)[:1] == [_WEBVTT] or _SBV_TIMES.fullmatch(first)
    return list(opened.names) if is_transcript else []


def _read_transcript(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read what people said; the lines of a chat (SBV) stay as they are.

    What a person says goes on through cues with pauses of at most 5 seconds, up to 1,000 characters. It raises
    ``ReadError`` if neither the file nor its path says when the meeting began.
    """
    may_join = _find_first(opened).lstrip().startswith(_WEBVTT)
    start = _find_start(opened) or find_moment(opened.source)
    with opened.open(found[0]) as file:
        cues = list(_read_cues(file))
    pending: _Speech | None = None
    for speech in _read_speeches(cues):
        if isinstance(speech, Unread):
            yield speech
        elif may_join and pending and _is_one(pending, speech):
            pending = replace(pending, end=speech.end, text=f"{pending.text} {speech.text}")
        else:
            yield from _place(pending, start)
            pending = speech
    yield from _place(pending, start)
    if start is None:
        raise ReadError(_NO_START, frozenset(), code="no_start")


def _is_one(before: _Speech, after: _Speech) -> bool:
    is_short = len(before.text) + len(after.text) < _LONGEST_TEXT
    return before.name == after.name and is_short and before.reaches(after.start)


def _place(speech: _Speech | None, start: datetime | None) -> Iterator[Item]:
    """Yield who speaks and, if the beginning of the meeting is known, the message."""
    if speech is None:
        return
    yield Person(speech.name)
    try:
        if start is not None:
            yield ChatMessage(read_timestamp(start + speech.start), speech.name, speech.text)
    except (OverflowError, ValueError):
        yield Unread("the time is out of range")


def _find_first(opened: Opened) -> str:
    """Return the first line of a single file that is not blank."""
    lines = opened.head_lines() if opened.is_single else []
    return next(filter(str.strip, lines), "")


def _find_start(opened: Opened) -> datetime | None:
    """Find the time that the lines before the first cue state."""
    for line in opened.head_lines():
        if _VTT_TIMES.fullmatch(line.strip()):
            return None
        if found := _STATED.search(line):
            with suppress(ValueError):
                return datetime.fromisoformat(found[0])
    return None


def _read_cues(file: IO[bytes]) -> Iterator[_Cue | Unread]:
    """Yield each cue, which takes the lines that follow; those between cues are their numbers, notes and styles."""
    cue: _Cue | None = None
    for number, line in read_lines(file):
        text = "" if line is None else line.strip()
        times = _VTT_TIMES.fullmatch(text) or _SBV_TIMES.fullmatch(text)
        if line is None:
            yield Unread(f"line {number}: it is longer than 1 MiB")
        if times is not None:
            cue = _Cue(_read_time(times, "a"), _read_time(times, "b"), number)
            yield cue
        elif not text:
            cue = None
        elif cue is not None:
            cue.lines.append(text)


def _read_time(found: re.Match[str], side: str = "") -> timedelta:
    parts = found.groupdict()
    hours, minutes, seconds, thousandths = (
        int(parts.get(f"{side}{unit}") or 0) for unit in ("h", "m", "s", "ms")
    )
    return timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=thousandths)


class _Speakers:
    """The people whom the cues of a file name before a colon, told from other words before one.

    A name has few words, which begin as names do. One word that stands before a colon once is the beginning of a
    sentence unless the sentence before has ended.
    """

    def __init__(self, cues: Sequence[_Cue | Unread]) -> None:
        names = []
        for written in ("\n".join(cue.lines) for cue in cues if isinstance(cue, _Cue)):
            found = _VOICE.search(written) or _NAMED.fullmatch(written)
            names.append(_clean(found["name"]) if found else "")
        self._counts = Counter(names)
        self.are_repeated = any(name == after != "" for name, after in pairwise(names))
        """Whether a cue names the speaker of the cue before it, so that one without a name is nobody's."""

    def split(self, written: str, before: str | None) -> tuple[str | None, str]:
        """Split a cue into who speaks, None if it does not say, and the text."""
        found = _NAMED.fullmatch(written)
        name = _clean(found["name"]) if found else ""
        words, is_often = name.split(), self._counts[name] > 1
        is_full = len(words) > 1 and not words[-1].isdigit()
        is_told = is_often or is_full or before is None or before.endswith(_ENDS)
        is_word = len(words) == 1 and (is_often or "@" in name)
        if found and (is_word or (_is_name(words) and is_told)):
            return name, _clean(found["text"])
        return None, _clean(written)


def _is_name(words: Sequence[str]) -> bool:
    """Return whether words may be a name: none of them begins with a small letter, but for particles."""
    if not 0 < len(words) <= _MOST_WORDS or words[0].lower() in _LABELS:
        return False
    return all(word.lower() in _PARTICLES or not word[0].islower() for word in words)


def _read_speeches(cues: Sequence[_Cue | Unread]) -> Iterator[_Speech | Unread]:
    """Yield what each cue says. A cue that names nobody belongs to who spoke last."""
    speakers = _Speakers(cues)
    last: _Speech | None = None
    for cue in cues:
        if isinstance(cue, Unread):
            yield cue
            continue
        for name, text in _split_voices(cue, speakers, last.text if last else None):
            if name is None and last and (last.reaches(cue.start) or not speakers.are_repeated):
                name = last.name
            if name is None:
                yield Unread(f"line {cue.number}: the cue does not say who speaks")
            elif text:
                last = _Speech(cue.start, max(cue.start, cue.end), name, text)
                yield last


def _split_voices(cue: _Cue, speakers: _Speakers, before: str | None) -> Iterator[tuple[str | None, str]]:
    """Split a cue at the tags that say who speaks, else at a name before a colon."""
    written = "\n".join(cue.lines)
    opening, *voices = _VOICE.split(written)
    if not voices:
        yield speakers.split(written, before)
    elif opening := _clean(opening):
        yield None, opening
    for name, text in zip(voices[::2], voices[1::2], strict=True):
        yield _clean(name) or None, _clean(text)


def _clean(text: str) -> str:
    return html.unescape(_TAG.sub("", text)).strip()


@dataclass
class _Message:
    """A message of Zoom's chat: time of day or of the recording, author, who alone receives it, and its lines."""

    at: timedelta
    name: str
    partner: str | None
    lines: list[str]


def _find_chat(opened: Opened) -> list[str]:
    return list(opened.names) if _find_header(_find_first(opened)) else []


def _read_chat(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages; a step back to the morning begins another day.

    It raises ``ReadError`` if neither the name of the file nor that of a folder says the day, or when the
    recording began.
    """
    first = _find_header(_find_first(opened))
    # Times count from the beginning of a recording: its form names no receiver.
    is_relative = is_recording(opened.source) or (first is not None and first.re is _HEADERS[-1])
    day = find_day(opened.source)
    midnight = None if day is None else datetime.combine(day, time())
    start, last = find_moment(opened.source) if is_relative else midnight, timedelta(0)
    with opened.open(found[0]) as file:
        messages = list(_read_messages(file))
    for message in messages:
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


def _find_header(line: str) -> re.Match[str] | None:
    return next((found for header in _HEADERS if (found := header.fullmatch(line))), None)


def _read_messages(file: IO[bytes]) -> Iterator[_Message | Unread]:
    message: _Message | None = None
    for number, line in read_lines(file):
        if line is None:
            yield Unread(f"line {number}: it is longer than 1 MiB")
        elif found := _find_header(line):
            direct = _DIRECT.fullmatch((found["to"] or "").strip())
            partner = direct["name"].strip() if direct else None
            message = _Message(_read_time(found), found["name"].strip(), partner, [found["text"] or ""])
            yield message
        elif message is not None:
            message.lines.append(line.removeprefix("\t"))
        elif line.strip():
            yield Unread(f"line {number}: it belongs to no message")


def _read_message(message: _Message, sent: datetime) -> Item:
    text = "\n".join(message.lines).strip()
    if _REACTED.match(text):
        return ChatMessage(sent, None, "a reaction", "system")
    text = _ANSWERED.sub("", text, count=1) if _ANSWERED.match(text) else text
    if message.partner is not None:
        text = f"(to @{message.partner} only) {text}"
    return ChatMessage(sent, message.name, text) if text else Unread("the message has no text")


TRANSCRIPT: Final = ChatFormat("transcript", _find_transcript, _read_transcript)
ZOOM_CHAT: Final = ChatFormat("zoom_chat", _find_chat, _read_chat)
