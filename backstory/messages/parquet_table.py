"""Chats as Parquet tables."""

from __future__ import annotations

import io

import polars as pl

from backstory.errors import ExportError
from backstory.messages.reader import ParsedExport
from backstory.messages.tabular import parse_records, require_columns
from backstory.messages.times import KNOWN_YEAR
from backstory.settings import ConversationSettings

_MAGIC = b"PAR1"


class ParquetReader:
    """Reads a Parquet table; records are numbered from 1."""

    name = "parquet"

    def detects(self, content: bytes, name: str, settings: ConversationSettings) -> bool:  # noqa: ARG002
        """Say whether the file begins as Parquet does."""
        return content.startswith(_MAGIC)

    def read(
        self,
        content: bytes,
        settings: ConversationSettings,
        source: str,
        *,
        latest_year: int = KNOWN_YEAR,  # noqa: ARG002 - ISO 8601 and epochs leave no choice
    ) -> ParsedExport:
        """Read the messages; see :class:`backstory.messages.reader.ExportReader`."""
        columns = [settings.timestamp_column, settings.author_column, settings.message_column]
        try:
            require_columns(pl.read_parquet_schema(io.BytesIO(content)), settings, source)
            table = pl.read_parquet(io.BytesIO(content), columns=columns).select(columns)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise ExportError(f"{source}: a damaged Parquet file ({error}); write it again") from error
        rows = zip(*(table[column].to_list() for column in columns), strict=True)
        records = ((number, *row) for number, row in enumerate(rows, start=1))
        return parse_records(records, {}, settings)
