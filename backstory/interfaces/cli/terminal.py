"""The console of the commands: as wide as the terminal, without line breaks in a pipe, and safe for untrusted text."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

# C0 (except tab and line feed), DEL and C1, with which a text could move the cursor, or recolour or rename the
# terminal; the separators of lines that some terminals break; and the marks that change the direction of text.
_SEPARATORS_AND_MARKS: Final = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROLS: Final = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_SEPARATORS_AND_MARKS}]")
# JSON escapes C0 itself, but not C1, which terminals also read as commands.
_RAW_IN_JSON: Final = re.compile(rf"[\x7f-\x9f{_SEPARATORS_AND_MARKS}]")
_UNBROKEN: Final = 100_000
_GAP: Final = 2
"""Blanks between the columns of a table."""
_LEAST_FOLDED: Final = 32
"""Fewest characters of a line of a broken column, if its cells have as many."""


def open_console(*, stderr: bool = False) -> Console:
    """Open a console on standard output or standard error.

    Returns:
        A console as wide as the terminal. Without a terminal, it is so wide that no line is wrapped or truncated.
    """
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = _UNBROKEN
    return console


def plain(text: str, style: str = "") -> Text:
    """Make a text of a document or chat safe to print: without control characters or markup.

    Args:
        text: Any text; tabs and line feeds stay.
        style: A Rich style for the whole text.
    """
    return Text(_CONTROLS.sub("", text), style=style)


def plain_line(text: str, style: str = "") -> Text:
    """Make a text safe to print, and put it on one line."""
    return plain(" ".join(text.split()), style)


def link_file(text: str, path: Path | None) -> Text:
    """Build a text that opens a file, in terminals that can open links.

    Args:
        text: What is shown, on one line.
        path: The file; None for no link.
    """
    shown = plain_line(text)
    if path is not None and path.is_absolute():
        shown.stylize(f"link {path.as_uri()}")
    return shown


def print_notes(notes: Sequence[str], told: Sequence[str] = ()) -> None:
    """Print the warnings of an answer on standard error, but for those that the log has told."""
    for note in notes:
        if note in told:
            continue
        open_console(stderr=True).print(Text.assemble(("warning: ", "yellow"), plain(note)), soft_wrap=True)


def make_table(*headers: str, right: tuple[str, ...] = ()) -> Table:
    """Build a table of aligned columns without rules.

    Args:
        headers: One header for each column.
        right: Headers of the columns that are aligned to the right.
    """
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", no_wrap=True)
    return table


def print_fitting(
    console: Console,
    headers: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    *,
    right: tuple[str, ...],
    spare: Sequence[str],
    folded: str,
    indent: int = 0,
) -> None:
    """Print a table without shortened cells: a narrow terminal leaves out columns, and then breaks one over lines.

    Args:
        console: The console.
        headers: One header for each column.
        rows: The cells of each row.
        right: Headers of the columns that are aligned to the right.
        spare: Headers of the columns that may be left out, in the order in which they are; a line names those that are.
        folded: Header of the column that is broken where it does not fit, such as paths.
        indent: Blanks before each line.
    """
    widths = {
        header: max(cell_len(str(cell)) for cell in (header, *cells))
        for header, cells in zip(headers, zip(*rows, strict=True), strict=True)
    }
    shown = list(headers)

    def fits() -> bool:
        others = sum(widths[header] + _GAP for header in shown if header != folded)
        return indent + others + min(widths[folded], _LEAST_FOLDED) <= console.width

    left_out = []
    for header in spare:
        if fits():
            break
        shown.remove(header)
        left_out.append(header)
    table = make_table(*shown, right=right)
    for header, column in zip(shown, table.columns, strict=True):
        if header == folded:
            column.no_wrap, column.overflow = False, "fold"
        else:
            column.min_width = widths[header]
    for row in rows:
        table.add_row(*(cell for header, cell in zip(headers, row, strict=True) if header in shown))
    console.print(Padding(table, (0, 0, 0, indent), expand=False))
    if left_out:
        note = f"Not shown on {console.width} columns: {', '.join(left_out)}; --json has them"
        console.print(Padding(plain(note, "dim"), (0, 0, 0, indent), expand=False))


def print_record(record: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what a command did: as JSON, or in lines for people."""
    if as_json:
        print_json(record)
        return
    for line in lines:
        open_console().print(plain(line), soft_wrap=True)


def print_json(record: Any) -> None:
    """Print a record as one JSON document. Values that JSON cannot hold, such as times, are printed as text."""
    text = json.dumps(record, ensure_ascii=False, indent=2, default=str)
    escaped = _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(f"{escaped}\n")
