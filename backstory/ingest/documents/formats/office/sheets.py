"""Spreadsheets, by calamine.

calamine reads the values of cells, dates as dates, from both Excel's and OpenDocument's files; it is compiled, 3 MB,
and under the MIT licence. openpyxl, by which markitdown and docling read, is pure Python and reads no OpenDocument;
markitdown turns blank cells into NaN and whole numbers into fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.office.cell_formats import CellFormats, Place
from backstory.ingest.documents.formats.office.package import damaged, open_package, require_office
from backstory.ingest.documents.formats.properties import read_properties
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

if TYPE_CHECKING:
    from python_calamine import CalamineSheet, CalamineWorkbook

MOST_CHARACTERS: Final = 20_000_000
"""Maximum length of the text of a file; the rows beyond are named as unread."""

MOST_COLUMNS: Final = 256
"""Maximum number of columns of a sheet; the cells beyond are named as unread."""

_BETWEEN: Final = " | "

Cell = int | float | str | bool | time | date | datetime | timedelta


def read_sheets(content: bytes, _: str) -> ParsedDocument:
    """Read a spreadsheet: each sheet is a page of one row per line, whose first line is its header."""
    package = open_package(content, "a spreadsheet")
    require_office("a spreadsheet")
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        workbook = CalamineWorkbook.from_filelike(package.rewrite())
        sheets, formats = _Sheets(), CellFormats(package)
        for name in workbook.sheet_names:
            sheets.add(name, _get_sheet(workbook, name), formats.show_numbers(name))
    except CalamineError as error:
        raise damaged("it is not a spreadsheet, or a sheet of it cannot be read") from error
    texts = sheets.write()
    if not "".join(texts).strip():
        raise ReadError("there is nothing in its sheets; fill one, or remove the file", code="empty_document")
    root = package.parse_optional("docProps/core.xml")
    properties = read_properties(package.parse_optional("meta.xml") if root is None else root)
    return ParsedDocument(
        text="".join(texts),
        title=properties.title,
        published_at=properties.published_at,
        change=properties.change,
        tags=properties.tags,
        page_starts=tuple(accumulate(map(len, texts[:-1]), initial=0)),
        chunker="rows",
        unread="; ".join(sheets.unread) or None,
    )


class _Sheets:
    """The rows of the sheets as lines."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sheets: list[list[str]] = []
        self.unread: list[str] = []
        self.length = 0

    def add(self, name: str, sheet: CalamineSheet | None, shown: Mapping[Place, str]) -> None:
        """Add a sheet, None for one without cells, such as a chart, and the numbers that it shows in another form."""
        lines: list[str] = []
        length = 0
        rows = iter(()) if sheet is None else sheet.iter_rows()
        # The rows begin with the first of the sheet, and the cells of each with the first that is not blank.
        left = 0 if sheet is None or sheet.start is None else sheet.start[1]
        for number, row in enumerate(rows):
            line = _write_row(shown.get((number, column), cell) for column, cell in enumerate(row, left))
            if not line:
                continue
            if self.length + length + len(line) >= MOST_CHARACTERS:
                self.unread.append(
                    f"only the first {len(lines):,} rows of the sheet {name!r} were read; split the file"
                )
                break
            lines.append(line)
            length += len(line) + 1
        if sheet is not None and sheet.width > MOST_COLUMNS:
            self.unread.append(
                f"only the first {MOST_COLUMNS} columns of the sheet {name!r} were read; split it"
            )
        self.names.append(name)
        self.sheets.append(lines)
        self.length += length

    def write(self) -> list[str]:
        """Write each sheet as a page of one row per line; of several sheets, the first line begins with the name."""
        has_names = sum(bool(lines) for lines in self.sheets) > 1
        pages = []
        for name, lines in zip(self.names, self.sheets, strict=True):
            headed = [f"{' '.join(name.split())}: {lines[0]}", *lines[1:]] if has_names and lines else lines
            pages.append("\n".join([*headed, ""]) or "\n")
        return pages


def _get_sheet(workbook: CalamineWorkbook, name: str) -> CalamineSheet | None:
    from python_calamine import SheetTypeEnum

    kinds = {sheet.name: sheet.typ for sheet in workbook.sheets_metadata}
    return workbook.get_sheet_by_name(name) if kinds[name] == SheetTypeEnum.WorkSheet else None


def _write_row(row: Iterable[Cell]) -> str:
    cells = [_write_cell(cell) for _, cell in zip(range(MOST_COLUMNS), row, strict=False)]
    while cells and not cells[-1]:
        cells.pop()
    return _BETWEEN.join(cells)


def _write_cell(cell: Cell) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime):
        return cell.isoformat(" ", "minutes" if not cell.second and not cell.microsecond else "auto")
    return " ".join(str(cell).split())


SPREADSHEET: Final = DocumentFormat(
    "spreadsheet", "Excel", frozenset({".xlsx", ".xlsm", ".ods"}), read_sheets, None
)
