"""Tables, JSON and spreadsheets -> lines of text, one row each: ``name: Ann; city: Riga``.

Every row names its columns, so that it can be found, read and cited by itself. A value with a line break, with ``; ``
or with a quotation mark at its beginning is written as a JSON string; so are names. An empty value is left out.

calamine reads the cells of spreadsheets, dates as dates, from both Excel's and OpenDocument's files; it is compiled,
3 MB, and under the MIT licence. openpyxl, by which markitdown and docling read, is pure Python and reads no
OpenDocument; markitdown turns blank cells into NaN and whole numbers into fractions.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.wording import count
from backstory.ingest.documents.formats.package import Package, compose_document, damaged, open_package
from backstory.ingest.documents.formats.texts import NO_TEXT, decode_text
from backstory.ingest.documents.metadata import DocumentFormat, ParsedDocument, read_attribute
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.tables import parse_csv, parse_json_lines, read_parquet, read_table
from backstory.text.encoding import decode_head

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

_SPECIAL: Final = re.compile(r'^["\s]|\s$|[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]|; ')
_SPECIAL_NAME: Final = re.compile(rf"{_SPECIAL.pattern}|: |^$")
_NOT_IN_LINES: Final = re.compile(r"[\x7f\x85\u2028\u2029\ud800-\udfff]")
_NUMBER: Final = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?%?")
_NOTHING: Final[tuple[Any, ...]] = (None, "", [])
"""Values that are left out."""


def _show(value: Any, special: re.Pattern[str] = _SPECIAL) -> str:
    """Write a value within a line: a list, an object in it, and a text that needs quotation marks as JSON."""
    if isinstance(value, str) and not special.search(value):
        return value
    quoted = json.dumps(value, ensure_ascii=False, default=str)
    return _NOT_IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _show_name(name: str) -> str:
    """Write a name so that it ends before ``: ``."""
    return _show(name, _SPECIAL_NAME)


def _show_row(cells: Iterable[tuple[str, Any]]) -> str:
    """Write a row as one line; it is empty if no cell has a value."""
    return "; ".join(f"{_show_name(name)}: {_show(value)}" for name, value in _flatten(cells))


def _flatten(cells: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of every value; the path of a value in an object has the names around it."""
    for name, value in cells:
        if isinstance(value, dict):
            yield from _flatten((f"{name}.{below}", part) for below, part in value.items())
        elif value not in _NOTHING:
            yield name, value


def _compose(names: Iterable[str], rows: Iterable[str], unread: str | None = None) -> ParsedDocument:
    """Put the names of the columns before the rows with a value; ``unread`` says what was not read."""
    shown = [*filter(None, rows)]
    if not shown:
        problem = f"no row was read ({unread}); correct some" if unread else "it holds no value; write some"
        raise ReadError(f"{problem}, or remove the file", code="no_line" if unread else "empty_document")
    header = "; ".join(map(_show_name, names))
    return ParsedDocument("\n".join([header, *shown]), chunker="rows", unread=unread)


def _describe_unread(unread: dict[int, str]) -> str | None:
    """Tell how many rows were left out, and of the first of them why."""
    line, why = min(unread.items(), default=(0, ""))
    return f"{count(len(unread), 'line')} left out, the first is line {line:,}: {why}" if unread else None


def _read_csv(content: bytes, _: str) -> ParsedDocument:
    """Read a table whose first row names its columns, unless it is the only one, or of numbers; others are numbered."""
    if name_binary_kind(content) or (content.strip() and not decode_head(content)):
        raise ReadError(NO_TEXT, code="binary_file")
    table = read_table(content, parse_csv)
    rows = [cells for _, cells in table.rows]
    names = [" ".join(cell.split()) for cell in rows[0]] if rows else []
    if len(rows) == 1 or all(map(_NUMBER.fullmatch, filter(None, names))):
        names = [""] * len(names)
    else:
        del rows[0]
    width = len(names)
    names += [""] * (max(map(len, rows), default=0) - width)
    named = [name or f"column {number}" for number, name in enumerate(names, start=1)]
    shown = (_show_row(zip(named, cells, strict=False)) for cells in rows)
    return _compose(named[:width], shown, _describe_unread(table.unread))


def _read_json(content: bytes, _: str) -> ParsedDocument:
    """Read one JSON value: a list has a row for each element, an object a line for each value, with the path to it.

    An object in an object is one line if it holds no further object, and so is each element of a list of objects.
    """
    text = decode_text(content)
    try:
        value = json.loads(text) if text.strip() else None
    except ValueError as error:
        problem = str(error).partition(";")[0]
        raise ReadError(f"this is not valid JSON: {problem}; correct it") from error
    if not isinstance(value, dict):
        return _list_rows(value if isinstance(value, list) else [value], {})
    lines = (
        (path, _show_row(part.items()) if isinstance(part, dict) else _show(part))
        for path, part in _walk("", value)
        if part not in _NOTHING
    )
    return _compose(value, (f"{path}: {shown}" for path, shown in lines if shown))


def _read_json_lines(content: bytes, _: str) -> ParsedDocument:
    """Read one JSON value per line: a row each. Other lines are left out, and ``unread`` counts them."""
    table = read_table(content, parse_json_lines)
    return _list_rows([value for _, value in table.rows], table.unread)


def _list_rows(values: Iterable[Any], unread: dict[int, str]) -> ParsedDocument:
    """Write a header with the names of all members, and a row for each value."""
    rows = [value if isinstance(value, dict) else {"value": value} for value in values]
    names = dict.fromkeys(name for row in rows for name in row)
    return _compose(names, (_show_row(row.items()) for row in rows), _describe_unread(unread))


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values that are lines, each with its path."""
    if isinstance(value, dict) and (not path or any(map(_holds_objects, value.values()))):
        for name, part in value.items():
            yield from _walk(f"{path}.{_show_name(name)}" if path else _show_name(name), part)
    elif isinstance(value, list) and _holds_objects(value):
        yield from ((f"{path}[{number}]", part) for number, part in enumerate(value, start=1))
    else:
        yield path, value


def _holds_objects(value: Any) -> bool:
    return any(isinstance(part, dict) for part in (value if isinstance(value, list) else [value]))


def _read_parquet(content: bytes, _: str) -> ParsedDocument:
    """Read a table with a row for each record; columns of bytes are left out, and ``unread`` names them."""
    table = read_parquet(content)
    rows = [_show_row(zip(table.names, row, strict=True)) for _, row in table.rows]
    left_out = sorted(pl.read_parquet_schema(io.BytesIO(content)).keys() - {*table.names})
    unread = f"these columns hold bytes and were left out: {'; '.join(map(_show_name, left_out))}"
    return _compose(table.names, rows, unread if left_out else None)


CSV: Final = DocumentFormat("csv", "CSV", frozenset({".csv", ".tsv", ".tab"}), _read_csv)
JSON: Final = DocumentFormat("json", "JSON", frozenset({".json"}), _read_json)
JSON_LINES: Final = DocumentFormat("jsonl", "JSON lines", frozenset({".jsonl", ".ndjson"}), _read_json_lines)
PARQUET: Final = DocumentFormat("parquet", "Parquet", frozenset({".parquet"}), _read_parquet, None)


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
_FIGURE: Final = re.compile(rf"{_BESIDE}([#0?](?:[#0?,]*[#0?])?)(\.[#0?]+)?{_BESIDE}")
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
        for _, cell in ET.iterparse(io.BytesIO(package.parts[part])):  # noqa: S314 - the package was checked
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
    if (found := _FIGURE.fullmatch(section)) is None:
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
