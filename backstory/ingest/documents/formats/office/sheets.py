"""Spreadsheets, by calamine, with the numbers of Excel as it shows them: codes with zeros in front, shares, hours.

calamine reads the values of cells, dates as dates, from both Excel's and OpenDocument's files; it is compiled, 3 MB,
and under the MIT licence. openpyxl, by which markitdown and docling read, is pure Python and reads no OpenDocument;
markitdown turns blank cells into NaN and whole numbers into fractions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import reduce
from io import BytesIO
from operator import add
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from backstory.ingest.documents.formats.office.package import Package, compose_document, damaged, open_package
from backstory.ingest.documents.metadata import read_attribute
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

Cell = int | float | str | bool | time | date | datetime | timedelta
Place = tuple[int, int]
"""Row and column, from 0."""


def read_sheets(content: bytes, _: str) -> ParsedDocument:
    """Read a spreadsheet: each sheet is a page of one row per line, whose first line is its header."""
    package = open_package(content, "a spreadsheet", needs_extra=True)
    from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum

    sheets: dict[str, list[str]] = {}
    formats, parts = _list_formats(package), _list_parts(package)
    try:
        workbook = CalamineWorkbook.from_filelike(package.rewrite())
        for entry in workbook.sheets_metadata:
            name, lines = entry.name, sheets.setdefault(entry.name, [])
            if entry.typ == SheetTypeEnum.WorkSheet:  # not such as a chart
                shown = dict(_show_numbers(package, parts.get(name, ""), formats))
                lines += _write_rows(workbook.get_sheet_by_name(name), shown)
    except CalamineError as error:
        raise damaged("it is not a spreadsheet, or a sheet of it cannot be read") from error
    # Of several sheets, the first line of each begins with its name.
    has_names = sum(map(bool, sheets.values())) > 1
    names = [f"{' '.join(name.split())}: " if has_names and lines else "" for name, lines in sheets.items()]
    texts = ["\n".join([*lines, ""]) or "\n" for lines in sheets.values()]
    return compose_document(package, list(map(add, names, texts)), "rows")


def _write_rows(sheet: CalamineSheet, shown: Mapping[Place, str]) -> Iterator[str]:
    # The rows begin with the first of the sheet, and the cells of each with the first that is not blank.
    left = 0 if sheet.start is None else sheet.start[1]
    for number, row in enumerate(sheet.iter_rows()):
        written = [_write_cell(shown.get((number, column), cell)) for column, cell in enumerate(row, left)]
        while written and not written[-1]:
            written.pop()
        if written:
            yield " | ".join(written)


def _write_cell(cell: Cell) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime):
        return cell.isoformat(" ", "minutes" if not cell.second and not cell.microsecond else "auto")
    return " ".join(str(cell).split())


_BUILT_IN: Final = {1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 46: "[h]:mm:ss"}
_QUIET: Final = re.compile(r"\[(?!(?:h+|m+|s+)\])(?:[A-Za-z]+|Color ?\d+)\]|[_*].", re.IGNORECASE)
"""Colours, and blanks as wide as a letter."""
_CONDITION: Final = re.compile(r"\[[<>=]")
_CURRENCY: Final = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")
_ELAPSED: Final = re.compile(r"\[(h+|m+|s+)\](?::(m+))?(?::(s+))?", re.IGNORECASE)
_BESIDE: Final = r"((?:\"[^\"]*\"|\\.|[^A-Za-z/@\[\]#0?,.\"\\])*)"
_NUMBER: Final = re.compile(rf"{_BESIDE}([#0?](?:[#0?,]*[#0?])?)(\.[#0?]+)?{_BESIDE}")
_CODE: Final = re.compile(r"0[0\\ ().-]*0")
_LITERAL: Final = re.compile(r'"([^"]*)"|\\(.)')
_CELL: Final = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_UNITS: Final = {"h": 3600, "m": 60, "s": 1}


def _list_formats(package: Package) -> dict[str, str]:
    """Return the formats of Excel's cells that change a number, by their indices; nothing for another file."""
    root = package.parse("xl/styles.xml", is_optional=True)
    codes = {str(number): code for number, code in _BUILT_IN.items()}
    codes |= {each.get("numFmtId", ""): each.get("formatCode", "") for each in root.iter("numFmt")}
    cells = enumerate(root.iterfind("cellXfs/xf"))
    chosen = ((str(place), codes.get(cell.get("numFmtId", ""), "")) for place, cell in cells)
    return {place: code for place, code in chosen if code not in ("", "General", "@", "0")}


def _list_parts(package: Package) -> dict[str, str]:
    """Return the parts of Excel's sheets by their names."""
    related = package.list_related("xl/workbook.xml")
    sheets = package.parse("xl/workbook.xml", is_optional=True).iter("sheet")
    return {each.get("name", ""): related.get(read_attribute(each, "id"), ("", ""))[1] for each in sheets}


def _show_numbers(package: Package, part: str, formats: Mapping[str, str]) -> Iterator[tuple[Place, str]]:
    """List the numbers of a sheet that it does not show as they are, with their places."""
    if not formats or part not in package.parts:
        return
    try:
        for _, cell in ET.iterparse(BytesIO(package.parts[part])):  # noqa: S314 - the package was checked
            if not str(cell.tag).endswith("}c"):
                continue
            code, place = formats.get(cell.get("s", ""), ""), _CELL.fullmatch(cell.get("r", ""))
            value = cell.findtext("{*}v") if cell.get("t", "n") == "n" else None
            if place and value and (shown := show_number(float(value), code)):
                column = reduce(lambda number, letter: number * 26 + ord(letter) - ord("@"), place[1], 0)
                yield (int(place[2]) - 1, column - 1), shown
            cell.clear()
    except (SyntaxError, ValueError) as error:
        raise damaged(f"its part {part} is not XML") from error


def show_number(number: float, code: str) -> str | None:
    """Write a number in a format such as ``0.0%`` or ``[h]:mm``; None for a date, and for a format that is not read."""
    if _CONDITION.search(code):
        return None
    sections = code.split(";")
    of_negative = sections[1] if number < 0 and len(sections) > 1 else ""
    section = _QUIET.sub("", _CURRENCY.sub(r'"\1"', of_negative or sections[0]))
    size, sign = abs(number), "-" if number < 0 and not of_negative else ""
    if (elapsed := _ELAPSED.fullmatch(section)) is not None:
        return sign + _write_elapsed(size, elapsed)
    if _CODE.fullmatch(section) and not sign and size % 1 == 0:
        digits = reversed(str(int(size)))  # they fill the code from its end; those beyond it stand in front
        filled = re.sub("0", lambda _: next(digits, "0"), section.replace("\\", "")[::-1])
        return (filled + "".join(digits))[::-1]
    if (found := _NUMBER.fullmatch(section)) is None:
        return None
    before, whole, fraction, after = found.groups(".")
    least, most = fraction.count("0"), len(fraction) - 1
    integer, _, decimals = f"{size * 100 if '%' in before + after else size:,.{most}f}".partition(".")
    decimals = decimals[:least] + decimals[least:].rstrip("0")
    integer = integer if "," in whole else integer.replace(",", "").zfill(whole.count("0"))
    before, after = (_LITERAL.sub(r"\1\2", beside) for beside in (before, after))
    return f"{sign}{before}{integer}{'.' if decimals else ''}{decimals}{after}".strip()


def _write_elapsed(days: float, found: re.Match[str]) -> str:
    seconds = round(days * timedelta(days=1).total_seconds())
    parts = []
    for unit in filter(None, found.groups()):
        size = _UNITS[unit[0].lower()]
        parts.append(f"{seconds // size:0{len(unit)}}")
        seconds %= size
    return ":".join(parts)


SPREADSHEET: Final = DocumentFormat(
    "spreadsheet", "Excel", frozenset({".xlsx", ".xlsm", ".ods"}), read_sheets, None
)
