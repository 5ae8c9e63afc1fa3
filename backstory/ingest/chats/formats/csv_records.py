"""The records of a CSV table, one after another; a damaged one costs only its first line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

DELIMITERS: Final = (",", ";", "\t", "|")

_STATED: Final = re.compile(r"sep=([^\"])\s*", re.IGNORECASE)
_LONGEST_CELL: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """One record of a table.

    Attributes:
        begin: Place of its first line, from 0.
        end: Place after its last line.
        fields: Its fields; empty for an empty line, and if it is damaged.
        damage: What is wrong with it; None if nothing is.
    """

    begin: int
    end: int
    fields: Sequence[str]
    damage: str | None = None


def split_records(
    lines: Sequence[str], delimiter: str, *, begin: int = 0, width: int | None = None
) -> Iterator[CsvRecord]:
    """Split lines into records; after a damaged one, reading continues at its second line."""
    while begin < len(lines):
        start = begin
        reader = csv.reader(
            (f"{lines[position]}\n" for position in range(start, len(lines))),
            delimiter=delimiter,
            strict=True,
        )
        try:
            while (fields := _read_next(reader)) is not None:
                if width is not None and len(fields) not in (0, width):
                    raise csv.Error(f"{len(fields)} fields instead of {width}")
                yield CsvRecord(begin, start + reader.line_num, fields)
                begin = start + reader.line_num
        except csv.Error as error:
            yield CsvRecord(begin, begin + 1, (), str(error))
            begin += 1


def find_stated_delimiter(lines: Sequence[str]) -> str | None:
    """Return the delimiter that the first line states for spreadsheet programs (``sep=;``); None if it does not."""
    stated = _STATED.fullmatch(lines[0]) if lines else None
    return None if stated is None else stated[1]


def _read_next(reader: Iterator[list[str]]) -> list[str] | None:
    """Read a record whose cells have any length, since the whole file is limited already."""
    usual = csv.field_size_limit(_LONGEST_CELL)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(usual)
