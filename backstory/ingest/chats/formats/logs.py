"""Logs: those that IRC programs keep, transcripts of meetings (WebVTT), and the chats that Zoom and Meet (SBV) save."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from itertools import islice, pairwise, takewhile
from pathlib import PurePosixPath
from typing import Final, NamedTuple, TypeAlias

from backstory.base.errors import ReadError
from backstory.ingest.chats.export import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.export_files import ChatFormat, Opened
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.times import find_day, find_moment, is_recording, without_day
from backstory.text.encoding import decode_line

_NO_START: Final = (
    "neither its lines, in English, nor its name tell when it began; put the day, of a meeting also the time, into the "
    "name, such as 2024-05-01.log, GMT20240501-100000.vtt (GMT) or 2024-05-01 10-00-00 chat.txt (in `timezone`)"
)
_LEAST_KNOWN: Final = 0.8
_LINES_TRIED: Final = 200
_WEECHAT_NAME: Final = re.compile(r"irc\.(?P<network>[^.]+)\.(?P<channel>.+)")
_ADDRESSED: Final = re.compile(r"(?=[^\W\d]|[\[\]\\`^{|}])[\w\[\]\\`^{|}-]{2,30}: (?=\S)")
"""A nick before what is said to its owner. Any such word counts, so that a text never depends on other lines."""

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ENGLISH_DAY: Final = re.compile(r"\w{2,4}\.?,? (\w{3}) +(\d{1,2})(?: \d[\d:]{4,7})?(?: [A-Z]{2,5})? (\d{4})")
_SIGNS: Final = "~&@%+!* "
"""Marks of rank before a nick."""

_DAY_LINE: Final = re.compile(r"--- (?:Log opened|Log closed|Day changed) (?P<day>.{1,80})")
_HEAD: Final = re.compile(
    r"\[?(?:(?P<day>\d{4}-\d\d-\d\d)[ T])?(?P<clock>(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?)"
    r"(?:\]? |(?(day)(?=\t)|(?!)))(?P<rest>.*)",
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
_TOLD: Final = frozenset(["text", "action", "other", "moved"])


def _find_irc(opened: Opened) -> list[str]:
    """Return a log: most lines are those of a program, and one of them is more than a note."""
    texts = filter(None, opened.head_lines() if opened.is_single else [])
    lines = [_read_line(text) for text in islice(texts, _LINES_TRIED)]
    known = [line for line in lines if line is not None]
    is_log = any("clock" not in line or _TOLD & line.keys() for line in known) and lines[0] is not None
    return list(opened.names) if is_log and len(known) >= _LEAST_KNOWN * len(lines) else []


def _read_irc(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the lines of a log; raise ``ReadError`` if neither a line nor the path says the day."""
    name, day = name_conversation(opened.source), find_day(opened.source)
    is_dated = day is not None
    first_nicks: dict[str, str] = {}
    chat = Chat(f"irc/{name}", name_chat(name, ""))
    yield chat
    with opened.open(found[0]) as file:
        for number, text in enumerate(map(decode_line, file), start=1):
            line = _read_line(text) if text else None
            if line is None:
                if text:
                    yield Unread(f"line {number}: no known program writes such lines")
                continue
            day = _read_day(line["day"].strip()) if line["day"] else day
            is_dated = is_dated or day is not None
            if "clock" not in line:
                continue
            person = _follow(line, first_nicks)
            if person.name:
                yield person
            try:
                if day is None:
                    raise ValueError("no line before it states the day in English")
                sent = read_timestamp(datetime.combine(day, time.fromisoformat(line["clock"])))
                yield _read_message(line, sent, chat.key, person.name)
            except ValueError as error:
                yield Unread(f"line {number}: {error}")
    if not is_dated:
        raise ReadError(_NO_START, frozenset(), code="no_start")


def name_conversation(source: str) -> str:
    """Name the conversation of a log by network and channel, as far as its path tells them.

    In a folder, the name of a file counts if it is that of a channel.
    """
    folder, _, _ = source.rpartition("/")
    path = PurePosixPath(source)
    last = without_day(path.stem if path.suffix.lower() in (".log", ".txt", ".weechatlog") else path.name)
    if weechat := _WEECHAT_NAME.fullmatch(last):
        return f"{weechat['network']}/{weechat['channel']}"
    if last.startswith(("#", "&", "!", "+")):
        return f"{folder}/{last}" if folder else last
    return folder or last or path.stem


def _read_line(line: str) -> dict[str, str] | None:
    """Read the parts of a line; None if no program writes such lines."""
    if dated := _DAY_LINE.fullmatch(line):
        return dated.groupdict()
    if head := _HEAD.fullmatch(line):
        for pattern in _PATTERNS:
            if body := pattern.fullmatch(head["rest"]):
                return {"day": head["day"] or "", "clock": head["clock"], **body.groupdict("")}
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
        # A line of the program may hold addresses and names.
        return ChatMessage(sent, None, "a note of the program", "system", chat=chat)
    text = f"@{text}" if _ADDRESSED.match(text) else text
    return ChatMessage(sent, author or None, text or None, chat=chat)


_TIME: Final = r"((?:\d{1,4}:)?\d\d:\d\d[.,]\d{3})"
_TIMES: Final = re.compile(rf"\s*{_TIME}(?:[ \t]+-->[ \t]+|,){_TIME}(?:\s.*)?")
_STATED: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?")
_VOICE: Final = re.compile(r"<v(?:\.[^\s>]{1,40})?[ \t]+(?P<name>[^<>]{1,200})>")
_TAG: Final = re.compile(r"</?[a-z0-9][^<>]{0,200}>", re.IGNORECASE)
_NAMED: Final = re.compile(r"(?P<name>[^:<>\n]{1,80}):(?P<text>\s.*|)", re.DOTALL)
_PARTICLE: Final = re.compile(
    "al|af|ap|bin|dal?|del?|della|der|di|dos|du|el|la|le|ten|ter|van|von|y|zu", re.IGNORECASE
)
_LABEL: Final = re.compile(
    "answer|example|note|question|reminder|warning|antwort|beispiel|frage|hinweis|ejemplo|nota|pregunta|respuesta|"
    "exemple|réponse|domanda|esempio|risposta|pergunta|exemplo|resposta|an?|the|my|our|your|this|that|one|der|die|das|"
    "eine?|mein|unser|euer|el|la|los|las|una?|mi|les?|une|mon|notre|il|lo|os?|uma?|de|het|een",
    re.IGNORECASE,
)
"""A word that begins no name before a colon."""

_ENDS: Final = (".", "!", "?", "…", ":", "。", "？", "！", '"', "”", ")")
_MOST_WORDS: Final = 6
_LONGEST_PAUSE: Final = timedelta(seconds=5)
_LONGEST_TEXT: Final = 1_000
_CLOCK: Final = r"(?P<clock>\d\d:[0-5]\d:[0-5]\d)"
_HEADER: Final = re.compile(
    rf"{_CLOCK}[ \t]+From[ \t]+(?P<name>\S.{{0,99}}?)"
    r"(?:[ \t]+to[ \t]+(?P<to>\S.{0,199}?)(?P<direct> ?\([^()]{1,60}\)[ \t]*)?)?"
    r"(?:(?(to)|(?!)):[ \t]*|[ \t]+:(?:[ \t](?P<text>.*))?)"
)
"""Beginning of a message of Zoom: above its text, or before it, as in former versions."""

_RECORDED: Final = re.compile(
    rf"{_CLOCK}\t[ \t]*(?P<direct>)(?P<name>[^\t:]{{1,100}}?)[ \t]?:(?:[ \t](?P<text>.*))?"
)
"""The same in the chat that comes with a recording."""

_REACTED: Final = re.compile(r'(?:Reacted to|Removed an? \S{1,40} reaction from) ["\u201c].*', re.DOTALL)
_ANSWERED: Final = re.compile(r'\AReplying to ["\u201c][^\n]{0,500}\n+')
_NIGHT: Final = timedelta(hours=12)
_Block: TypeAlias = tuple[re.Match[str], list[str]]
"""A line with a time, and the lines up to the next one."""


class _Said(NamedTuple):
    """What somebody, or an unknown person, said without a long pause, or wrote to all or to one partner.

    ``at``: time from the beginning of the meeting, or of the day.
    """

    at: timedelta
    name: str
    text: str
    partner: str = ""


def _find_first(opened: Opened) -> str:
    """Return the first line of a single file that is not blank."""
    lines = opened.head_lines() if opened.is_single else []
    return next(filter(str.strip, lines), "")


def _read_blocks(opened: Opened, find: Callable[[str], re.Match[str] | None]) -> list[_Block]:
    blocks: list[_Block] = []
    with opened.open(opened.names[0]) as file:
        for line in map(decode_line, file):
            if found := find(line):
                blocks.append((found, []))
            elif blocks:
                blocks[-1][1].append(line)
    return blocks


def _read_time(written: str) -> timedelta:
    *hours, minutes, seconds = written.replace(",", ".").split(":")
    return timedelta(hours=int(*hours), minutes=int(minutes), seconds=float(seconds))


def _place(said: Sequence[_Said], start: datetime | None) -> Iterator[Item]:
    """Yield who speaks and what is said; raise ``ReadError`` if it is not known when the times begin."""
    yield from (Person(name) for one in said for name in (one.name, one.partner) if name)
    if start is None:
        raise ReadError(_NO_START, frozenset(), code="no_start")
    for one in said:
        to = f"(to @{one.partner} only) " if one.partner else ""
        try:
            sent = read_timestamp(start + one.at)
        except (OverflowError, ValueError):
            yield Unread("the time is out of range")
            continue
        if not one.name:
            yield Unread(f"the cue at {one.at} does not say who speaks")
        elif not one.text:
            yield Unread("the message has no text")
        elif _REACTED.match(one.text):
            yield ChatMessage(sent, None, "a reaction", "system")
        else:
            yield ChatMessage(sent, one.name, f"{to}{one.text}")


def _find_transcript(opened: Opened) -> list[str]:
    first = _find_first(opened)
    is_transcript = first.split(maxsplit=1)[:1] == ["WEBVTT"] or _TIMES.fullmatch(first)
    return list(opened.names) if is_transcript else []


def _read_transcript(opened: Opened, _: list[str]) -> Iterator[Item]:
    """Read what people said; the times count from the beginning that the file or its path states."""
    start = _find_start(opened.head_lines()) or find_moment(opened.source)
    yield from _place(_read_speeches(_read_blocks(opened, _TIMES.fullmatch)), start)


def _find_start(lines: Iterable[str]) -> datetime | None:
    """Find the time that the lines before the first cue state."""
    head = "\n".join(takewhile(lambda line: not _TIMES.fullmatch(line), lines))
    for found in _STATED.finditer(head):
        with suppress(ValueError):
            return datetime.fromisoformat(found[0])
    return None


def _read_speeches(blocks: Sequence[_Block]) -> list[_Said]:
    """Return what people say; a cue that names nobody belongs to who spoke last.

    What a person says goes on through cues with pauses of at most 5 seconds, up to 1,000 characters, but each line of a
    chat (SBV) stands alone. A cue ends at a blank line; number, notes and styles of the next one follow.
    """
    cues = [(found, "\n".join(takewhile(bool, map(str.strip, lines)))) for found, lines in blocks]
    names = [_find_name(written) for _, written in cues]
    counts = Counter(names)
    # Where a cue names the speaker of the cue before it, one without a name is nobody's after a pause.
    are_repeated = any(name == after != "" for name, after in pairwise(names))
    said: list[_Said] = []
    until = timedelta()
    for found, written in cues:
        at, end = map(_read_time, found.groups())
        for stated, text in _split_voices(written, counts, said[-1].text if said else ""):
            last = said[-1] if said else _Said(at, "", "")
            goes_on = timedelta() <= at - until <= _LONGEST_PAUSE
            name = stated or (last.name if goes_on or not are_repeated else "")
            is_same = goes_on and name == last.name != "" and "-->" in found[0]
            if text and is_same and len(last.text) + len(text) < _LONGEST_TEXT:
                said[-1] = last._replace(text=f"{last.text} {text}")
            elif text:
                said.append(_Said(at, name, text if name else ""))
            until = max(at, end) if text else until
    return said


def _find_name(written: str) -> str:
    found = _VOICE.search(written) or _NAMED.fullmatch(written)
    return _clean(found["name"]) if found else ""


def _split_voices(written: str, counts: Mapping[str, int], before: str) -> list[tuple[str, str]]:
    """Split a cue at the tags that say who speaks, else at a name before a colon; without one, nobody is named."""
    opening, *voices = _VOICE.split(written)
    if voices:
        tagged = zip(voices[::2], voices[1::2], strict=True)
        return [("", _clean(opening)), *((_clean(name), _clean(text)) for name, text in tagged)]
    name = _find_name(written)
    is_said = _is_name(name, before, is_often=counts[name] > 1)
    return [(name, _clean(written.partition(":")[2]))] if is_said else [("", _clean(written))]


def _is_name(name: str, before: str, *, is_often: bool) -> bool:
    """Return whether what stands before a colon is a name: few words, none with a small letter first but for particles.

    One word that stands before a colon once is the beginning of a sentence unless the sentence before has ended.
    """
    words = name.split()
    if len(words) == 1 and (is_often or "@" in name):
        return True
    if not 0 < len(words) <= _MOST_WORDS or _LABEL.fullmatch(words[0]):
        return False
    is_full = len(words) > 1 and not words[-1].isdigit()
    is_told = is_often or is_full or not before or before.endswith(_ENDS)
    return is_told and all(not word[0].islower() or _PARTICLE.fullmatch(word) for word in words)


def _clean(text: str) -> str:
    return html.unescape(_TAG.sub("", text)).strip()


def _find_header(line: str) -> re.Match[str] | None:
    return _HEADER.fullmatch(line) or _RECORDED.fullmatch(line)


def _find_chat(opened: Opened) -> list[str]:
    return list(opened.names) if _find_header(_find_first(opened)) else []


def _read_chat(opened: Opened, _: list[str]) -> Iterator[Item]:
    """Read the messages; a step back to the morning begins another day."""
    said: list[_Said] = []
    days = timedelta()
    blocks = _read_blocks(opened, _find_header)
    for found, lines in blocks:
        at = _read_time(found["clock"]) + days
        if said and said[-1].at - at > _NIGHT:
            days, at = days + timedelta(days=1), at + timedelta(days=1)
        text = "\n".join([found["text"] or "", *(line.removeprefix("\t") for line in lines)]).strip()
        partner = found["to"].strip() if found["direct"] else ""
        said.append(_Said(at, found["name"].strip(), _ANSWERED.sub("", text), partner))
    # Times count from the beginning of a recording.
    is_relative = is_recording(opened.source) or any(found.re is _RECORDED for found, _ in blocks[:1])
    day = None if is_relative else find_day(opened.source)
    start = datetime.combine(day, time()) if day else find_moment(opened.source) if is_relative else None
    yield from _place(said, start)


IRC: Final = ChatFormat("irc", _find_irc, _read_irc)
TRANSCRIPT: Final = ChatFormat("transcript", _find_transcript, _read_transcript)
ZOOM_CHAT: Final = ChatFormat("zoom_chat", _find_chat, _read_chat)
