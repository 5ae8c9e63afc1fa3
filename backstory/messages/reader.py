"""What a reader of one export format promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import polars as pl

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
    """

    rows: pl.DataFrame
    unread: pl.DataFrame


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

    def read(self, content: bytes, settings: ConversationSettings, source: str) -> ParsedExport:
        """Read a file of this format.

        Args:
            content: All bytes of the file.
            settings: Time zone, date order and names of columns.
            source: What error messages call the file.

        Raises:
            ExportSettingError: A setting must say how to read the file.
            ExportError: The file as a whole cannot be read.
        """
        ...


def unread_frame(unread: dict[int, str]) -> pl.DataFrame:
    """Make the frame of unread lines, in order, from a mapping of line to reason."""
    lines = sorted(unread)
    return pl.DataFrame({"line": lines, "reason": [unread[line] for line in lines]}, schema=UNREAD_SCHEMA)
