"""The messages of a conversation that is given as a list, or as a text: JSON, an export of a chat, or named lines."""

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
from backstory.ingest.chats.formats.whatsapp import WHATSAPP
from backstory.ingest.chats.formats.whatsapp_phrases import classify_messages
from backstory.ingest.chats.opened import open_parts
from backstory.ingest.zips import MAGIC
from backstory.settings.inputs import ConversationSettings
from backstory.text.layout import are_messages, join_wrapped, list_lines

_SOURCE: Final = "2000-01-01 00-00-00.txt"
"""Stands for the name of an export: some formats take the day from it, which no query needs."""
_ANYBODY: Final = ""
"""The author of a message that names none. A line without one would be a line of an app."""
_LETTERS: Final = r"""[^\s:,;!?"“”()\[\]{}<>|=#/\\*`]"""
_WORD: Final = rf"(?:(?!\p{{Ll}}){_LETTERS}{{1,30}}|\p{{Ll}}{_LETTERS}{{0,2}}(?= ))"
"""A word of a name of several; only a short one, such as "van", may begin with a small letter."""
_NAMED: Final = regex.compile(
    rf"(?=[^:]*\p{{L}})(?P<name>{_LETTERS}{{1,30}}|{_WORD}(?: {_WORD}){{1,3}}):(?:\s+|$)(?P<text>.*)"
)
"""A line that begins with an author."""


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


_Row: TypeAlias = tuple[str, str | None]
"""Author and text of a message."""


def read_messages(given: str | Sequence[Message], settings: ConversationSettings) -> pl.DataFrame | None:
    """Read the messages of a conversation that is given as a list or as a text.

    A text is a conversation if it is JSON that holds messages, an export of a chat app, or lines ``Name: text`` that
    begin with a name, one of which speaks twice. Without names, it is one if most of it are short lines or paragraphs,
    each of which is a message. All other texts are prose.

    Returns:
        ``text`` and ``kind`` of each message, as in the table ``messages``, or None if the text is prose. White space
        is one space, since the way in which a text is wrapped says nothing.
    """
    try:
        return _read_text(given, settings) if isinstance(given, str) else _make_frame(_read_list(given))
    except UnicodeEncodeError as error:
        what = "the text contains half of a character (a lone surrogate); decode it with its own encoding"
        raise InputError(what, code="no_unicode") from error


def _read_text(given: str, settings: ConversationSettings) -> pl.DataFrame | None:
    text = given.removeprefix("\ufeff")
    if not text.strip():
        raise InputError("the text is blank; give a question, or a text to cover", code="blank_text")
    content, is_json = text.encode(), text.lstrip().startswith(("{", "["))
    # An export counts before lines that look like messages, which its own messages may quote.
    exported = _read_export(content, settings) if is_json or "\n" in text.strip() else None
    if exported is not None:
        return exported
    rows = (_read_json(text) if is_json else None) or _read_lines(text)
    return _make_frame(rows) if rows else None


def _make_frame(rows: Sequence[_Row]) -> pl.DataFrame:
    schema = {"author": pl.String(), "text": pl.String()}
    return _fold(classify_messages(pl.DataFrame(rows, schema=schema, orient="row")))


def _fold(messages: pl.DataFrame) -> pl.DataFrame:
    folded = [None if text is None else " ".join(text.split()) for text in messages["text"]]
    return messages.select(pl.Series("text", folded, dtype=pl.String), "kind")


def _read_list(given: object) -> list[_Row]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes | bytearray | memoryview):
        what = f"a {type(given).__name__} is no conversation; give a text, or a list of messages"
        raise InputError(what, code="wrong_type")
    if not given:
        raise InputError("the list holds no message", code="blank_text")
    rows = list[_Row]()
    for number, message in enumerate(given, start=1):
        try:
            said = _Given.model_validate({"text": message} if isinstance(message, str) else message)
        except ValidationError as error:
            what = f"message {number}, a {type(message).__name__}, has no text; give a text, or an object with text"
            raise InputError(what, code="absent_text") from error
        author = said.author if isinstance(said.author, str) else _ANYBODY
        rows.append((author, None if said.kind == "system" else said.text))
    return rows


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
    except (ValueError, RecursionError):  # an InputError is a ValueError
        return None


def _read_export(content: bytes, settings: ConversationSettings) -> pl.DataFrame | None:
    """Read an export of a chat app or a table, if every record of it can be read."""
    if content.startswith(MAGIC):
        return None
    try:
        with open_parts(io.BytesIO(content), _SOURCE, settings) as opened:
            found = find_format(opened, (*CHAT_FORMATS, WHATSAPP, CSV))
            if found is None or found[0] is MAIL:  # a mail is prose
                return None
            read = found[0].read(opened, found[1])
            parsed = read if isinstance(read, Export) else collect_items(read, settings.timezone)
    except RecursionError:
        return None
    except ReadError as error:
        if error.code != "ambiguous_dates":
            return None
        # Which day it is, no query needs.
        return _read_export(content, settings.model_copy(update={"date_order": "dmy"}))
    by_people = parsed.rows.filter(pl.col("author").is_not_null())
    return None if len(parsed.unread) or by_people.is_empty() else _fold(by_people)


def _read_lines(text: str) -> list[_Row]:
    """Read lines with authors, each with the lines that go on from it, else lines that look like messages."""
    paragraphs = list_lines(text)
    lines = list(chain.from_iterable(paragraphs))
    heads = [_NAMED.match(line) for line in lines]
    authors = Counter(head["name"].casefold() for head in heads if head)
    if heads[0] is None or authors.most_common(1)[0][1] == 1:
        units = list(chain.from_iterable(join_wrapped(paragraphs)))
        return [(_ANYBODY, unit) for unit in units] if are_messages(units) else []
    # A word in small letters before a colon may go on from the line before, as in a wrapped message.
    is_small = heads[0]["name"][0].islower()
    rows = list[_Row]()
    for line, head in zip(lines, heads, strict=True):
        if head and (is_small or authors[head["name"].casefold()] > 1 or not head["name"][0].islower()):
            rows.append((head["name"], head["text"]))
        else:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]}\n{line}")
    return rows
