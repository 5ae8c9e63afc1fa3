"""CSV and TSV tables as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.formats.csv_records import DELIMITERS, find_stated_delimiter, split_records
from backstory.ingest.chats.text_lines import decode_head, decode_lines
from backstory.ingest.documents.file_kinds import HEAD_BYTES, name_binary_kind
from backstory.ingest.documents.formats.row_rendering import show_header, show_row
from backstory.ingest.documents.formats.unread_lines import UnreadLines
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.text.encoding import find_encoding

_NUMBER: Final = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?%?")
_SAMPLE_ROWS: Final = 50
_DAMAGED: Final = "with bytes that are not text in the encoding of the file, shown as \ufffd"
_UNQUOTED: Final = "with a quotation mark that is out of place, read as an ordinary character"
_RAGGED: Final = "with another number of cells than the first row, read cell by cell"


class CsvReader:
    """Reads a table whose first row names its columns; the delimiter is found by the rows that it makes equally long.

    A first row of numbers alone is a row, and the columns are numbered. Nothing is left out: a row with more cells than
    columns keeps them as numbered columns, and ``unread`` counts such rows.
    """

    format = "csv"
    suffixes = frozenset({".csv", ".tsv", ".tab"})
    find_encoding = staticmethod(find_encoding)

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:  # noqa: ARG002
        """Read one file; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        if name_binary_kind(content[:HEAD_BYTES]) or (content.strip() and not decode_head(content)):
            raise ReadError(
                f"{uri}: this is not a table of text; give the file the ending of its kind",
                code="binary_file",
            )
        if b"\r" in content and b"\n" not in content:
            content = content.replace(b"\r", b"\n")
        text = decode_lines(content)
        unread = UnreadLines()
        for line in text.undecodable:
            unread.add(line, _DAMAGED)
        delimiter, first, lines = _find_delimiter(
            text.lines.to_list(), is_tab=PurePosixPath(uri).suffix.lower() != ".csv"
        )
        rows = [
            (line, cells)
            for line, cells in _split(lines, delimiter, first, unread)
            if any(map(str.strip, cells))
        ]
        if not rows:
            raise ReadError(
                f"{uri}: the table holds no text; write some, or remove the file", code="empty_document"
            )
        names, rows = _find_names(rows)
        for line, cells in rows:
            if len(cells) < len(names) or any(cells[len(names) :]):
                unread.add(line, _RAGGED)
        shown = [show_row(zip(_name_all(names, len(cells)), cells, strict=False)) for _, cells in rows]
        return ParsedDocument(
            text="\n".join([show_header(names), *shown]), chunker="rows", unread=unread.describe()
        )


def _find_delimiter(lines: Sequence[str], *, is_tab: bool) -> tuple[str, int, Sequence[str]]:
    """Return the delimiter, the number of the first line of the table, from 1, and its lines."""
    if stated := find_stated_delimiter(lines):
        return stated, 2, lines[1:]
    candidates = ("\t", *DELIMITERS) if is_tab else DELIMITERS
    sample = [line for line in lines[:_SAMPLE_ROWS] if line.strip()]
    return max(candidates, key=lambda delimiter: _measure_fit(sample, delimiter)), 1, lines


def _measure_fit(sample: Sequence[str], delimiter: str) -> tuple[float, int]:
    """Return the share of rows that are as long as the first, and their length; nothing for rows of one cell."""
    rows = [cells for _, cells in _split(sample, delimiter, 1, UnreadLines())]
    width = len(rows[0]) if rows else 0
    return (sum(len(cells) == width for cells in rows) / len(rows), width) if width > 1 else (0.0, 0)


def _split(
    lines: Sequence[str], delimiter: str, first: int, unread: UnreadLines
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of its first line; a line with a broken quotation is a row of its own."""
    for record in split_records(lines, delimiter):
        if record.damage is None:
            yield first + record.begin, list(record.fields)
        else:
            unread.add(first + record.begin, _UNQUOTED)
            yield first + record.begin, lines[record.begin].split(delimiter)


def _find_names(
    rows: list[tuple[int, list[str]]],
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the names of the columns, and the rows below them."""
    cells = [" ".join(cell.split()) for cell in rows[0][1]]
    if all(_NUMBER.fullmatch(cell) for cell in cells if cell):
        return _name_all([], len(cells)), rows
    return _name_all(cells, len(cells)), rows[1:]


def _name_all(names: Sequence[str], width: int) -> list[str]:
    """Number the columns without a name."""
    header = [*names, *[""] * (width - len(names))]
    return [name or f"column {number}" for number, name in enumerate(header, start=1)]
