"""The interface of a reader of one export format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from backstory.settings.inputs import ConversationSettings

ROW_SCHEMA = pl.Schema(
    {
        "timestamp": pl.Datetime("us", "UTC"),
        "seq": pl.Int64(),
        "author": pl.String(),
        "text": pl.String(),
        "kind": pl.String(),
        "edited": pl.Boolean(),
    }
)
"""Columns of the messages of every reader."""

REACTION_TYPE = pl.Struct({"emoji": pl.String(), "count": pl.Int64()})

CHAT_SCHEMA = pl.Schema(
    {
        "chat": pl.String(),
        "key": pl.String(),
        "reply_key": pl.String(),
        "reactions": pl.List(REACTION_TYPE),
        "edited_at": pl.Datetime("us", "UTC"),
    }
)
"""Further columns of readers of platforms that give ids to chats and messages: key of the chat, of the message in it
and of the message that it answers (all null without ids), reactions, and time of the last edit."""

UNREAD_SCHEMA = pl.Schema({"line": pl.Int64(), "reason": pl.String()})


@dataclass(kw_only=True)
class ParsedExport:
    """The content of one export.

    Attributes:
        rows: ``timestamp`` (UTC, µs), ``seq`` (from 0, in the order of the source), ``author`` (null for a line
            written by the app), ``text``, ``kind`` and ``edited`` (whether its text was changed after sending); also
            the columns of ``CHAT_SCHEMA``, or none of them.
        unread: ``line`` (from 1) and ``reason`` of each unreadable line. A reason never quotes the line, since the
            line may contain a name.
        encoding: Encoding used to decode the text; None for a binary format.
        date_order: Order used to read the dates; None for a format with unambiguous dates.
        timezone: Time zone used to read the timestamps; None if every timestamp states its own.
        chats: Names of conversations by the keys in the column ``chat``.
        aliases: Further names of authors, each with the author whose name it is.
        people: Names of people who may have written nothing.
        ids: Ids of people by their names, of platforms that give ids to people whose names may be alike.
        wordless: Number of records by kind that were not read, since they hold no words.
    """

    rows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ROW_SCHEMA))
    unread: pl.DataFrame = field(default_factory=lambda: unread_frame({}))
    encoding: str | None = None
    date_order: str | None = None
    timezone: str | None = None
    chats: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    people: frozenset[str] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)
    wordless: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableFormat:
    """A format of files that are read as a whole: texts of WhatsApp, and tables.

    Attributes:
        name: Name of the format in the table ``sources``.
        detects: Tells by content, name and the names of columns whether a file has the format.
        read: Reads content by the settings, with the name of the file for errors, and the latest year in which a
            message can have been sent. It raises ``ReadError`` if the file is ambiguous; the message names the
            setting that resolves it; and ``ReadError`` if the file as a whole cannot be read.
    """

    name: str
    detects: Callable[[bytes, str, ConversationSettings], bool]
    read: Callable[[bytes, ConversationSettings, str, int], ParsedExport]


def unread_frame(unread: dict[int, str]) -> pl.DataFrame:
    """Build the frame of unread lines, sorted by line, from a mapping of line to reason."""
    lines = sorted(unread)
    return pl.DataFrame({"line": lines, "reason": [unread[line] for line in lines]}, schema=UNREAD_SCHEMA)


def complete_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of ``CHAT_SCHEMA`` that messages lack: nulls, and no reaction."""
    absent = [name for name in CHAT_SCHEMA if name not in rows.columns]
    nothing = {"reactions": pl.lit([], CHAT_SCHEMA["reactions"])}
    return rows.with_columns(
        nothing.get(name, pl.lit(None, CHAT_SCHEMA[name])).alias(name) for name in absent
    ).select(*ROW_SCHEMA, *CHAT_SCHEMA)
