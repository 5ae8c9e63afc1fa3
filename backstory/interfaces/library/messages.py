"""The parts of a text, or of the messages of a conversation: a list, JSON, an export of a chat, or named lines."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, chain
from typing import Any, Final, Protocol, TypeAlias

import polars as pl
import regex
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from backstory.base.errors import InputError, ReadError
from backstory.base.ids import digest_json
from backstory.ingest.chats.export import Export, collect_items
from backstory.ingest.chats.export_files import open_parts
from backstory.ingest.chats.exports import CHAT_FORMATS, find_format
from backstory.ingest.chats.formats.mail import MAIL
from backstory.ingest.chats.formats.tables import CSV
from backstory.ingest.chats.formats.whatsapp import WHATSAPP
from backstory.ingest.chats.formats.whatsapp_phrases import classify_messages
from backstory.ingest.zips import MAGIC
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.retrieval.query_chunks import cut_window_chunks
from backstory.settings.inputs import ConversationSettings
from backstory.text.chunking.units import CountTokens
from backstory.text.layout import are_messages, list_lines, list_sentences, unwrap

_LONGEST_QUESTION: Final = 300
"""Characters of the longest paragraph that is one part."""
_LEAST_PARAGRAPH: Final = 8
"""Tokens of the shortest paragraph that is a part of its own: a greeting or a heading has no topic."""
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


Message: TypeAlias = str | Mapping[str, Any] | TextMessage
"""A text; or ``text`` (also named ``message`` or ``content``), ``author`` and ``time`` as keys or attributes."""
_Row: TypeAlias = tuple[str, str | None]
"""Author and text of a message."""


class _Given(BaseModel, from_attributes=True):
    """A message as a mapping or an object."""

    text: str | None = Field(validation_alias=AliasChoices("text", "message", "content"), strict=True)
    author: Any = None
    kind: Any = None


def divide(
    snapshot: OpenSnapshot, query: str | Sequence[Message], as_of: datetime | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build the tables ``windows`` and ``window_chunks`` of messages, or of prose: of its sentences as messages.

    The parts of messages are those of a window, whichever way they are written. Those of prose are its paragraphs, or
    runs of sentences of a long one.
    """
    settings, embedder = snapshot.workspace.settings, snapshot.workspace.embedder
    queries = settings.queries
    messages = read_messages(query, settings.conversations)
    if messages is not None:
        sizes = [len(messages)]
    else:
        paragraphs = _list_paragraphs(str(query), embedder.count_tokens)
        sizes = [len(units) for units in paragraphs]
        messages = pl.DataFrame({"text": list(chain.from_iterable(paragraphs)), "kind": "message"})
        # Short sentences of a paragraph belong together, unlike short messages.
        if queries.min_tokens is None:
            queries = queries.model_copy(update={"min_tokens": embedder.default_query_tokens})
    window_id = digest_json([sizes, messages["text"].to_list()], length=16)
    windows = pl.DataFrame(
        {
            "window_id": [window_id],
            "conversation_id": ["question"],
            "started_at": [as_of or datetime.now(UTC)],
            "message_count": [len(messages)],
        }
    )
    # Each paragraph is cut as a window of its own: no chunk may span two paragraphs.
    paragraph = pl.Series([str(number) for number, size in enumerate(sizes) for _ in range(size)])
    numbered = messages.with_columns(
        window_id=paragraph, message_id=pl.format("{}-{}", pl.lit(window_id), pl.int_range(pl.len()))
    )
    listed = numbered.group_by("window_id", maintain_order=True).agg(message_ids="message_id")
    chunks = cut_window_chunks(
        listed,
        numbered,
        queries,
        max_tokens=min(settings.chunks.max_tokens, embedder.max_input_tokens),
        counter=embedder,
        default_min_tokens=embedder.default_query_tokens,
    )
    if chunks.is_empty():
        raise InputError("the text holds no visible character; give a question in words", code="blank_text")
    before = dict(zip(listed["window_id"], accumulate(sizes[:-1], initial=0), strict=True))
    first = chunks["window_id"].replace_strict(before, return_dtype=chunks.schema["first_message"])
    return windows, chunks.with_columns(
        pl.col("first_message", "last_message") + first,
        chunk_index=pl.int_range(pl.len()).cast(chunks.schema["chunk_index"]),
        window_id=pl.lit(window_id),
    )


def _list_paragraphs(text: str, count_tokens: CountTokens) -> list[list[str]]:
    """List the lines of each paragraph of prose, or the sentences of its only line; a few words go with the next."""
    written = unwrap(list_lines(text))
    if len(written) == 1 and len(whole := " ".join(written[0])) <= _LONGEST_QUESTION:
        return [[whole]]
    paragraphs: list[list[str]] = [[]]
    for lines, tokens in zip(written, count_tokens([*map(" ".join, written)]).tolist(), strict=True):
        paragraphs[-1] += lines if len(lines) > 1 else list_sentences(lines[0])
        if tokens >= _LEAST_PARAGRAPH:
            paragraphs.append([])
    rest = paragraphs.pop() if len(paragraphs) > 1 else []
    paragraphs[-1] += rest
    return paragraphs


def read_messages(given: str | Sequence[Message], settings: ConversationSettings) -> pl.DataFrame | None:
    """Read ``text`` and ``kind`` of the messages that a list or a text holds, with single spaces; None for prose.

    A text is a conversation if it is JSON that holds messages, an export of a chat app, or lines ``Name: text`` that
    begin with a name, one of which speaks twice. Without names, it is one if most of it are short lines or paragraphs,
    each of which is a message.
    """
    try:
        read = _read_text(given, settings) if isinstance(given, str) else _read_list(given)
        if not isinstance(read, pl.DataFrame):
            schema = {"author": pl.String(), "text": pl.String()}
            read = classify_messages(pl.DataFrame(read, schema=schema, orient="row"))
    except UnicodeEncodeError as error:
        what = "the text contains half of a character (a lone surrogate); decode it with its own encoding"
        raise InputError(what, code="no_unicode") from error
    folded = pl.col("text").str.replace_all(r"\s+", " ").str.strip_chars()
    return None if read.is_empty() else read.select(folded, "kind")


def _read_text(given: str, settings: ConversationSettings) -> pl.DataFrame | list[_Row]:
    text = given.removeprefix("\ufeff")
    if not text.strip():
        raise InputError("the text is blank; give a question, or a text to cover", code="blank_text")
    content, is_json = text.encode(), text.lstrip().startswith(("{", "["))
    # An export counts before lines that look like messages, which its own messages may quote.
    exported = _read_export(content, settings) if is_json or "\n" in text.strip() else None
    if exported is not None:
        return exported
    return (_read_json(text) if is_json else None) or _read_lines(text)


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
        return _read_list(value.get("messages", [value]) if isinstance(value, dict) else value)
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
    except (ReadError, RecursionError) as error:
        if not isinstance(error, ReadError) or error.code != "ambiguous_dates":
            return None
        # Which day it is, no query needs.
        return _read_export(content, settings.model_copy(update={"date_order": "dmy"}))
    by_people = parsed.rows.filter(pl.col("author").is_not_null())
    return None if parsed.unread or by_people.is_empty() else by_people


def _read_lines(text: str) -> list[_Row]:
    """Read lines with authors, each with the lines that go on from it, else lines that look like messages."""
    paragraphs = list_lines(text)
    lines = list(chain.from_iterable(paragraphs))
    heads = [_NAMED.match(line) for line in lines]
    authors = Counter(head["name"].casefold() for head in heads if head)
    if heads[0] is None or authors.most_common(1)[0][1] == 1:
        units = list(chain.from_iterable(unwrap(paragraphs)))
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
