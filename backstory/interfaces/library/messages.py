"""The messages of a conversation that is given as a text, in any of the usual ways of writing one, or as a list."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias

import polars as pl
import regex
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from backstory.base.errors import InputError, ReadError
from backstory.ingest.chats.export import Export, collect_items
from backstory.ingest.chats.formats.mail import MAIL
from backstory.ingest.chats.formats.registry import CHAT_FORMATS, find_format
from backstory.ingest.chats.formats.tables import CSV
from backstory.ingest.chats.formats.whatsapp_phrases import classify_messages
from backstory.ingest.chats.opened import open_parts
from backstory.ingest.zips import MAGIC
from backstory.settings.inputs import ConversationSettings
from backstory.text.layout import are_messages, join_wrapped, list_lines
from backstory.text.message_markdown import find_markdown_messages

_SOURCE: Final = "2000-01-01 00-00-00.txt"
"""Stands for the name of an export: some formats take the day from it, which no query needs."""
_LONGEST_INTRODUCTION: Final = 300
"""Characters before the first message; a text with more of them is prose that quotes a chat."""
_ANYBODY: Final = ""
"""The author of a message that names none. A line without one would be a line of an app."""


class TextMessage(Protocol):
    """A message as an object."""

    @property
    def text(self) -> str | None:
        """The text; None for a picture or a file without a caption."""
        ...


Message: TypeAlias = str | Mapping[str, Any] | TextMessage
"""A text; or ``text`` (also named ``message`` or ``content``), ``author`` and ``time`` as keys or attributes."""


class _Given(BaseModel, from_attributes=True):
    """A message as a mapping or an object."""

    text: str | None = Field(validation_alias=AliasChoices("text", "message", "content"), strict=True)
    author: Any = None
    kind: Any = None


_Row: TypeAlias = tuple[str | None, str | None]
"""Author and text of a message."""
_Found: TypeAlias = tuple[int, str, str]
"""The line at which a message begins, its author, and its text."""


def read_messages(given: str | Sequence[Message], settings: ConversationSettings) -> pl.DataFrame | None:
    """Read the messages of a conversation that is given as a list or as a text.

    A text is a conversation if it is JSON that holds messages, an export of a chat app, the Markdown of
    ``consolidate_messages_to_markdown``, or lines that begin with an author: ``Name: text`` where a name speaks twice,
    ``<name> text``, and either after a time. A few words may stand before the first message. Without authors, it is a
    conversation if most of it are short lines or paragraphs; each is a message, whatever separates them. All other
    texts are prose.

    Returns:
        ``text`` and ``kind`` of each message, as in the table ``messages``, or None if the text is prose. White space
        is one space, since the way in which a text is wrapped says nothing.
    """
    if not isinstance(given, str):
        return _make_frame(_read_list(given))
    text = given.removeprefix("\ufeff")
    if not text.strip():
        raise InputError(
            "the text is blank; give a question, or a text whose parts are to be covered", code="blank_text"
        )
    _require_unicode(text)
    is_json = text.lstrip().startswith(("{", "["))
    # An export counts before lines that look like messages, which its own messages may quote.
    if is_json or "\n" in text.strip():
        exported = _read_export(text, settings)
        if exported is not None:
            return exported
    rows = (_read_json(text) if is_json else None) or _read_lines(text)
    return _make_frame(rows) if rows else None


def _require_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "the text contains half of a character (a lone surrogate); decode it with its own encoding",
            code="no_unicode",
        ) from error


def _make_frame(rows: Sequence[_Row]) -> pl.DataFrame:
    _require_unicode("".join(text or "" for _, text in rows))
    schema = {"author": pl.String(), "text": pl.String()}
    return _fold(classify_messages(pl.DataFrame(rows, schema=schema, orient="row")))


def _fold(messages: pl.DataFrame) -> pl.DataFrame:
    folded = [None if text is None else " ".join(text.split()) for text in messages["text"]]
    return messages.select(pl.Series("text", folded, dtype=pl.String), "kind")


def _read_list(given: object) -> list[_Row]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes | bytearray | memoryview):
        raise InputError(
            f"a {type(given).__name__} is no conversation; give a text, or a list of messages",
            code="wrong_type",
        )
    if not given:
        raise InputError("the list holds no message", code="blank_text")
    return [_read_message(message, number) for number, message in enumerate(given, start=1)]


def _read_message(message: object, number: int) -> _Row:
    if isinstance(message, str):
        return _ANYBODY, message
    try:
        given = _Given.model_validate(message)
    except ValidationError as error:
        raise InputError(
            f"message {number}, a {type(message).__name__}, has no text; give a text, or an object with text, author "
            "and time",
            code="absent_text",
        ) from error
    author = given.author if isinstance(given.author, str) else _ANYBODY
    return author, None if given.kind == "system" else given.text


def _read_json(text: str) -> list[_Row] | None:
    """Read a JSON list of messages, an object that holds one as ``messages``, or an object per line."""
    try:
        try:
            value = json.loads(text)
        except ValueError:
            value = [json.loads(line) for line in text.splitlines() if line.strip()]
        if isinstance(value, dict):
            value = value.get("messages", [value])
        return _read_list(value)
    except (ValueError, RecursionError, InputError):
        return None


def _read_export(text: str, settings: ConversationSettings) -> pl.DataFrame | None:
    """Read an export of a chat app or a table, if every record of it can be read."""
    content = text.encode()
    if content.startswith(MAGIC):
        return None
    try:
        parsed = _parse_export(content, settings)
    except (ReadError, RecursionError):
        return None
    if parsed is None or len(parsed.unread):
        return None
    by_people = parsed.rows.filter(pl.col("author").is_not_null())
    return None if by_people.is_empty() else _fold(by_people)


def _parse_export(content: bytes, settings: ConversationSettings) -> Export | None:
    with open_parts(io.BytesIO(content), _SOURCE, settings) as opened:
        found = find_format(opened, (*CHAT_FORMATS, CSV))
        if found is None or found[0] is MAIL:  # a mail is prose
            return None
        chat_format, names = found
        read = chat_format.read(opened, names)
        return read if isinstance(read, Export) else collect_items(read, settings.timezone)


def _read_lines(text: str) -> list[_Row] | None:
    """Read lines with authors, by the format whose first message begins first; else lines that are messages."""
    paragraphs = list_lines(text)
    lines = list(chain.from_iterable(paragraphs))
    formats = [found for find in (_find_markdown, _find_named) if (found := find(lines))]
    if not formats:
        units = list(chain.from_iterable(join_wrapped(paragraphs)))
        return [(_ANYBODY, unit) for unit in units] if are_messages(units) else None
    found = min(formats, key=lambda found: found[0][0])
    before = " ".join(lines[: found[0][0]])
    if len(before) > _LONGEST_INTRODUCTION:
        return None
    return [*([(_ANYBODY, before)] if before else []), *((author, text) for _, author, text in found)]


def _find_markdown(lines: list[str]) -> list[_Found]:
    return [(line, author or _ANYBODY, text) for line, author, text in find_markdown_messages(lines)]


_TIME: Final = (
    r"[\[(]?\d[\d.:/,TZ+ -]{2,30}(?:(?<=\d)|[\s\u202f]?[AaPp]\.?[Mm]\.?)[\])]?\s*(?:[-–—]\s+)?(?<=[\s\])])"
)
_LETTERS: Final = r"""[^\s:：,;!?"“”()\[\]{}<>|=#/\\*`]"""
_WORD: Final = rf"(?:(?!\p{{Ll}}){_LETTERS}{{1,30}}|\p{{Ll}}{_LETTERS}{{0,2}}(?= ))"
"""A word of a name of several; only a short one, such as "van", may begin with a small letter."""
_NAMED: Final = regex.compile(
    rf"(?:\(\d+\) )?(?P<time>{_TIME})?"
    r"(?:<[~&@%+]?(?P<nick>[^\s<>/]{1,40})>\s+"
    rf"|(?:\*\*)?(?=[^:：]*\p{{L}})(?P<name>{_LETTERS}{{1,30}}|{_WORD}(?: {_WORD}){{1,3}})(?:\*\*)?"
    r"(?:\s?:(?:\*\*)?(?:\s+|$)|：(?:\*\*)?\s*))"
    r"(?P<text>.*)"
)
"""A line with an author, in angle brackets or before a colon, and perhaps after a time."""


def _find_named(lines: list[str]) -> list[_Found]:
    """Find lines that begin with an author, and with a time if the first of them does."""
    heads = [(number, head) for number, line in enumerate(lines) if (head := _NAMED.match(line))]
    if not heads:
        return []
    first = heads[0][1]
    has_time = first["time"] is not None
    found = [
        (number, head["nick"] or head["name"], head["text"])
        for number, head in heads
        if (head["time"] is not None) == has_time
    ]
    if not has_time and first["nick"] is None:
        times = Counter(author.casefold() for _, author, _ in found)
        if heads[0][0] > 0 or max(times.values()) == 1:
            return []
        # A word in small letters before a colon may go on from the line before, as in a wrapped message.
        small = found[0][1][0].islower()
        found = [each for each in found if small or times[each[1].casefold()] > 1 or not each[1][0].islower()]
    ends = [*(line for line, _, _ in found), len(lines)][1:]
    return (
        [
            (line, author, "\n".join([text, *lines[line + 1 : end]]))
            for (line, author, text), end in zip(found, ends, strict=True)
        ]
        if len(found) > 1
        else []
    )
