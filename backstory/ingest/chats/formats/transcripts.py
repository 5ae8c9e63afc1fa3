"""Transcripts of meetings (WebVTT of Zoom, Teams and others) and the chat of Google Meet (SBV)."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import IO, Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import ChatMessage, Item, Person, Unread
from backstory.ingest.chats.opened import ChatFormat, Opened
from backstory.ingest.chats.times import find_moment
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
_MOST_CUE_LINES: Final = 1_000
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

    def join(self, after: _Speech) -> _Speech | None:
        """Return both as one, if the same person goes on without a long pause."""
        is_short = len(self.text) + len(after.text) < _LONGEST_TEXT
        is_near = timedelta(0) <= after.start - self.end <= _LONGEST_PAUSE
        if self.name != after.name or not is_short or not is_near:
            return None
        return replace(self, end=after.end, text=f"{self.text} {after.text}")


def _find(opened: Opened) -> list[str]:
    """Return a transcript."""
    first = _find_first(opened) if opened.is_single else ""
    is_vtt = first == _WEBVTT or first.startswith((f"{_WEBVTT} ", f"{_WEBVTT}\t"))
    return list(opened.names) if is_vtt or _SBV_TIMES.fullmatch(first) else []


def _read(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read what people said.

    What a person says goes on through cues with pauses of at most 5 seconds, up to 1,000 characters. Lines of a chat
    (SBV) stay as they are.

    It raises ``ReadError`` if neither the file nor its path says when the meeting began.
    """
    is_vtt = _find_first(opened).startswith(_WEBVTT)
    start = _find_start(opened) or find_moment(opened.source)
    with opened.open(found[0]) as file:
        named = _Speakers(_read_cues(file))
        file.seek(0)
        pending: _Speech | None = None
        for speech in _read_speeches(_read_cues(file), named):
            if isinstance(speech, Unread):
                yield speech
                continue
            joined = pending.join(speech) if pending is not None and is_vtt else None
            if pending is not None and joined is None:
                yield from _read_message(pending, start)
            pending = joined or speech
        if pending is not None:
            yield from _read_message(pending, start)
    if start is None:
        raise ReadError(_NO_START, frozenset(), code="no_start")


def _read_message(speech: _Speech, start: datetime | None) -> Iterator[Item]:
    yield Person(speech.name)
    if start is not None:
        try:
            yield ChatMessage(read_timestamp(start + speech.start), speech.name, speech.text)
        except (OverflowError, ValueError):
            yield Unread("the time is out of range")


def _find_first(opened: Opened) -> str:
    """Return the first line that is not blank."""
    return next((line.strip() for line in opened.head_lines() if line.strip()), "")


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
    """Yield each cue; the lines before and between cues are their numbers, notes and styles."""
    cue: _Cue | None = None
    for number, line in read_lines(file):
        text = "" if line is None else line.strip()
        times = _VTT_TIMES.fullmatch(text) or _SBV_TIMES.fullmatch(text)
        if line is None:
            yield Unread(f"line {number}: it is longer than 1 MiB")
        if cue is not None and (times is not None or not text):
            yield cue
            cue = None
        if times is not None:
            cue = _Cue(_read_place(times, "a"), _read_place(times, "b"), number)
        elif cue is not None and number <= cue.number + _MOST_CUE_LINES:
            cue.lines.append(text)
        elif cue is not None and number == cue.number + _MOST_CUE_LINES + 1:
            yield Unread(
                f"line {number}: the cue has more than {_MOST_CUE_LINES:,} lines; the rest is left out"
            )
    if cue is not None:
        yield cue


def _read_place(times: re.Match[str], side: str) -> timedelta:
    hours, minutes, seconds, milliseconds = (
        int(times[f"{side}{unit}"] or 0) for unit in ("h", "m", "s", "ms")
    )
    return timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)


class _Speakers:
    """The people whom the cues of a file name before a colon, told from other words before one.

    A name has few words, which begin as names do. One word that stands before a colon once is the beginning of a
    sentence unless the sentence before has ended.
    """

    def __init__(self, cues: Iterator[_Cue | Unread]) -> None:
        self._counts: Counter[str] = Counter()
        self.are_repeated = False
        """Whether a cue names the speaker of the cue before it, so that one without a name is nobody's."""
        last = ""
        for cue in cues:
            if not isinstance(cue, Unread):
                written = "\n".join(cue.lines)
                found = _VOICE.search(written) or _NAMED.fullmatch(written)
                name = _clean(found["name"]) if found is not None else ""
                self._counts[name] += 1
                self.are_repeated = self.are_repeated or name == last != ""
                last = name

    def split(self, written: str, before: str | None) -> tuple[str | None, str]:
        """Split a cue into who speaks, None if it does not say, and the text."""
        found = _NAMED.fullmatch(written)
        if found is None:
            return None, _clean(written)
        name = _clean(found["name"])
        is_often = self._counts[name] > 1
        words = name.split()
        is_full = len(words) > 1 and not words[-1].isdigit()
        is_told = is_often or is_full or before is None or before.endswith(_ENDS)
        is_word = len(words) == 1 and (is_often or "@" in name)
        return (
            (name, _clean(found["text"]))
            if is_word or (_is_name(words) and is_told)
            else (None, _clean(written))
        )


def _is_name(words: Sequence[str]) -> bool:
    """Return whether words may be a name: none of them begins with a small letter, but for particles."""
    if not 0 < len(words) <= _MOST_WORDS or words[0].lower() in _LABELS:
        return False
    return all(word.lower() in _PARTICLES or not word[0].islower() for word in words)


def _read_speeches(cues: Iterator[_Cue | Unread], speakers: _Speakers) -> Iterator[_Speech | Unread]:
    """Yield what each cue says. A cue that names nobody belongs to who spoke last."""
    last: _Speech | None = None
    for cue in cues:
        if isinstance(cue, Unread):
            yield cue
            continue
        for name, text in _split_voices(cue, speakers, last.text if last is not None else None):
            is_near = last is not None and timedelta(0) <= cue.start - last.end <= _LONGEST_PAUSE
            goes_on = last is not None and (is_near or not speakers.are_repeated)
            speaker = name or (last.name if last is not None and goes_on else None)
            if speaker is None:
                yield Unread(f"line {cue.number}: the cue does not say who speaks")
            elif text:
                last = _Speech(cue.start, max(cue.start, cue.end), speaker, text)
                yield last


def _split_voices(cue: _Cue, speakers: _Speakers, before: str | None) -> Iterator[tuple[str | None, str]]:
    """Split a cue at the tags that say who speaks, else at a name before a colon."""
    written = "\n".join(cue.lines)
    places = list(_VOICE.finditer(written))
    if not places:
        yield speakers.split(written, before)
        return
    if opening := _clean(written[: places[0].start()]):
        yield None, opening
    for place, after in zip(places, [*places[1:], None], strict=True):
        text = written[place.end() : after.start() if after else len(written)]
        yield _clean(place["name"]) or None, _clean(text)


def _clean(text: str) -> str:
    return html.unescape(_TAG.sub("", text)).strip()


TRANSCRIPT: Final = ChatFormat("transcript", _find, _read)
