"""Numbers of an Excel sheet as it shows them: codes with zeros in front, shares, hours beyond a day, currencies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from io import BytesIO
from posixpath import join, normpath
from typing import Final
from xml.etree import ElementTree as ET

from backstory.ingest.documents.formats.office.package import Package

_BUILT_IN: Final = {1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 46: "[h]:mm:ss"}
_QUIET: Final = re.compile(r"\[(?!(?:h+|m+|s+)\])(?:[A-Za-z]+|[<>=][^\]]*|Color ?\d+)\]|[_*].", re.IGNORECASE)
"""Colours, conditions, and blanks as wide as a letter."""

_CURRENCY: Final = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")
_ELAPSED: Final = re.compile(r"\[(h+|m+|s+)\](?::(m+))?(?::(s+))?", re.IGNORECASE)
_DIGITS: Final = re.compile(r"[#0?](?:[#0?,]*[#0?])?(?:\.[0#?]+)?(,*)")
"""Digits, and commas behind them, each of which leaves out three digits."""

_CODE: Final = re.compile(r"0[0\\ ().-]*0")
_LITERAL: Final = re.compile(r'"([^"]*)"|\\(.)')
_PLACE: Final = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_UNITS: Final = {"h": 3600, "m": 60, "s": 1}

Place = tuple[int, int]
"""Row and column, from 0."""


class CellFormats:
    """The formats of the numbers in a workbook; nothing for a file that is none of Excel's."""

    def __init__(self, package: Package) -> None:
        self._package = package

    def show_numbers(self, sheet: str) -> Mapping[Place, str]:
        """Return the numbers of a sheet that it does not show as they are, by their places."""
        part = self._parts.get(sheet)
        return {} if part is None or not self._formats else dict(self._read(part))

    @cached_property
    def _formats(self) -> dict[str, str]:
        """The formats of cells that change a number, by their indices."""
        root = self._package.parse_optional("xl/styles.xml")
        if root is None:
            return {}
        codes = dict(_BUILT_IN)
        codes |= {
            int(each.get("numFmtId", 0)): each.get("formatCode", "") for each in root.iterfind(".//{*}numFmt")
        }
        cells = enumerate(root.iterfind("{*}cellXfs/{*}xf"))
        chosen = ((str(place), codes.get(int(cell.get("numFmtId", 0)), "")) for place, cell in cells)
        return {place: code for place, code in chosen if code not in ("", "General", "@", "0")}

    @cached_property
    def _parts(self) -> dict[str, str]:
        """The parts of the sheets by their names."""
        workbook = self._package.parse_optional("xl/workbook.xml")
        relations = self._package.parse_optional("xl/_rels/workbook.xml.rels")
        if workbook is None or relations is None:
            return {}
        targets = {each.get("Id"): each.get("Target", "") for each in relations}
        parts = {}
        for sheet in workbook.iterfind(".//{*}sheet"):
            identifier = next((value for name, value in sheet.attrib.items() if name.endswith("}id")), None)
            target = targets.get(identifier, "")
            parts[sheet.get("name", "")] = normpath(join("xl", target)).lstrip("/")
        return parts

    def _read(self, part: str) -> Iterator[tuple[Place, str]]:
        content = self._package.parts.get(part, b"")
        for _, cell in ET.iterparse(BytesIO(content)):  # noqa: S314 - the package was checked
            if not str(cell.tag).endswith("}c"):
                continue
            code, place = self._formats.get(cell.get("s", "")), _PLACE.fullmatch(cell.get("r", ""))
            value = cell.findtext("{*}v")
            if (
                code
                and value
                and place
                and cell.get("t", "n") == "n"
                and (shown := show_number(float(value), code))
            ):
                yield (int(place[2]) - 1, _count_column(place[1])), shown
            cell.clear()


def show_number(number: float, code: str) -> str | None:
    """Write a number in a format of Excel; None for a date, and for a format that is not read.

    ``code``: the format, such as ``00000``, ``0.0%``, ``[h]:mm`` or ``#,##0.00 "kr"``.
    """
    sections = code.split(";")
    has_sign = number < 0 and len(sections) > 1 and bool(sections[1])
    section = sections[1] if has_sign else sections[0]
    value = abs(number) if has_sign else number
    section = _QUIET.sub("", _CURRENCY.sub(lambda found: f'"{found[1]}"', section))
    if (elapsed := _ELAPSED.fullmatch(section)) is not None:
        return _write_elapsed(value, elapsed)
    literals: list[str] = []

    def keep(found: re.Match[str]) -> str:
        literals.append(found[1] if found[1] is not None else found[2])
        return "\x00"

    if _CODE.fullmatch(section) and value >= 0 and value == int(value):
        return _fill(int(value), section.replace("\\", ""))
    plain = _LITERAL.sub(keep, section)
    digits = list(_DIGITS.finditer(plain))
    rest = _DIGITS.sub("", plain)
    if len(digits) != 1 or re.search(r"[A-Za-z/@\[\]]", rest):
        return None
    size = (100 if "%" in rest else 1) / 1000 ** len(digits[0][1])
    written = _write_digits(value * size, digits[0][0].rstrip(","))
    shown = plain[: digits[0].start()] + written + plain[digits[0].end() :]
    for literal in literals:
        shown = shown.replace("\x00", literal, 1)
    return shown.strip()


def _write_digits(value: float, pattern: str) -> str:
    whole, _, fraction = pattern.partition(".")
    most, least = len(fraction), fraction.count("0")
    text = f"{value:{',' if ',' in whole else ''}.{most}f}"
    while most > least and text.endswith("0"):
        text, most = text[:-1], most - 1
    integer, point, decimals = text.rstrip(".").partition(".")
    sign = "-" if integer.startswith("-") else ""
    zeros = whole.replace(",", "").count("0")
    filled = integer.removeprefix("-").zfill(zeros) if "," not in integer else integer.removeprefix("-")
    return f"{sign}{filled}{point}{decimals}"


def _fill(value: int, pattern: str) -> str:
    """Put the digits into a code such as ``000-00-0000``; digits beyond it stand in front."""
    digits = str(value).zfill(pattern.count("0"))
    extra = len(digits) - pattern.count("0")
    remaining = iter(digits[extra:])
    return digits[:extra] + "".join(next(remaining) if sign == "0" else sign for sign in pattern)


def _write_elapsed(days: float, found: re.Match[str]) -> str:
    seconds = round(abs(days) * timedelta(days=1).total_seconds())
    parts = []
    for unit in filter(None, found.groups()):
        size = _UNITS[unit[0].lower()]
        parts.append(f"{seconds // size:0{len(unit)}}")
        seconds %= size
    return ("-" if days < 0 else "") + ":".join(parts)


def _count_column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
