"""The interface of a reader of one export format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import polars as pl

from backstory.ingest.chats.times import KNOWN_YEAR

if TYPE_CHECKING:
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


@dataclass(frozen=True)
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

    rows: pl.DataFrame
    unread: pl.DataFrame
    encoding: str | None = None
    date_order: str | None = None
    timezone: str | None = None
    chats: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    people: frozenset[str] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)
    wordless: Mapping[str, int] = field(default_factory=dict)


class ExportReader(Protocol):
    """Reads one format; the registry calls :meth:`detects` of each reader until one accepts the file."""

    @property
    def name(self) -> str:
        """Short name of the format."""
        ...

    def detects(self, content: bytes, name: str, settings: ConversationSettings) -> bool:
        """Return whether a file has this format, by its content."""
        ...

    def read(
        self, content: bytes, settings: ConversationSettings, source: str, *, latest_year: int = KNOWN_YEAR
    ) -> ParsedExport:
        """Read a file of this format.

        It raises ``ExportSettingError`` if the file is ambiguous; the message names the setting that resolves it. It
        raises ``ReadError`` if the file as a whole cannot be read.
        """
        ...


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
