"""What a reader of one export format promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import polars as pl

from backstory.errors import ExportSettingError
from backstory.messages.times import KNOWN_YEAR
from backstory.settings import ConversationSettings

ROW_SCHEMA = pl.Schema(
    {
        "timestamp": pl.Datetime("us", "UTC"),
        "seq": pl.Int64(),
        "author": pl.String(),
        "text": pl.String(),
        "kind": pl.String(),
    }
)
UNREAD_SCHEMA = pl.Schema({"line": pl.Int64(), "reason": pl.String()})


@dataclass(frozen=True)
class ParsedExport:
    """The content of one export.

    Attributes:
        rows: ``timestamp`` (UTC, µs), ``seq`` (from 0, in the order of the source), ``author`` (null where
            the app wrote the line), ``text`` and ``kind``.
        unread: ``line`` (from 1) and ``reason`` of what could not be read. A reason never quotes the line,
            since it may hold a name.
        encoding: Encoding that the text was decoded with; None for a format that is not text.
        date_order: Order that its dates were read in; None for a format whose dates have one order only.
        timezone: Zone that its clock was read in; None if every timestamp states its own.
    """

    rows: pl.DataFrame
    unread: pl.DataFrame
    encoding: str | None = None
    date_order: str | None = None
    timezone: str | None = None


class UnansweredExportError(ExportSettingError):
    """An export waits for a setting; who wrote in it is known all the same.

    Attributes:
        authors: Names as written, which must not show in tables although no message of theirs does.
    """

    def __init__(self, message: str, authors: frozenset[str]) -> None:
        super().__init__(message)
        self.authors = authors


class ExportReader(Protocol):
    """Reads one format; the registry asks each reader in turn whether a file is its own."""

    @property
    def name(self) -> str:
        """Short name of the format."""
        ...

    def detects(self, content: bytes, name: str, settings: ConversationSettings) -> bool:
        """Say whether a file has this format, by its content.

        Args:
            content: All bytes of the file.
            name: The file's name, for formats that content alone does not tell apart.
            settings: The names of a table's columns.
        """
        ...

    def read(
        self, content: bytes, settings: ConversationSettings, source: str, *, latest_year: int = KNOWN_YEAR
    ) -> ParsedExport:
        """Read a file of this format.

        Args:
            content: All bytes of the file.
            settings: Time zone, date order and names of columns.
            source: What error messages call the file.
            latest_year: Last year in which a message of the file can have been sent.

        Raises:
            ExportSettingError: A setting must say how to read the file.
            ExportError: The file as a whole cannot be read.
        """
        ...


def unread_frame(unread: dict[int, str]) -> pl.DataFrame:
    """Make the frame of unread lines, in order, from a mapping of line to reason."""
    lines = sorted(unread)
    return pl.DataFrame({"line": lines, "reason": [unread[line] for line in lines]}, schema=UNREAD_SCHEMA)
