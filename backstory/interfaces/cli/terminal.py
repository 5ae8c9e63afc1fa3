"""The console of the commands: as wide as the terminal, without line breaks in a pipe, and safe for untrusted text."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from backstory.base.progress import listening
from backstory.base.wording import name_some

if TYPE_CHECKING:
    from backstory.pipeline.run.run import RunPosition

# C0 (except tab and line feed), DEL and C1, with which a text could move the cursor, or recolour or rename the
# terminal; the separators of lines that some terminals break; and the marks that change the direction of text.
_SEPARATORS_AND_MARKS: Final = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROLS: Final = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_SEPARATORS_AND_MARKS}]")
# JSON escapes C0 itself, but not C1, which terminals also read as commands.
_RAW_IN_JSON: Final = re.compile(rf"[\x7f-\x9f{_SEPARATORS_AND_MARKS}]")
_T = TypeVar("_T")
_MOST_NAMES: Final = 10
_UNBROKEN: Final = 100_000
_GAP: Final = 2
"""Blanks between the columns of a table."""
_LEAST_FOLDED: Final = 32
"""Fewest characters of a line of a broken column, if its cells have as many."""


def open_console(*, stderr: bool = False) -> Console:
    """Open a console as wide as the terminal; without one, so wide that no line is wrapped or truncated."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = _UNBROKEN
    return console


def plain(text: str, style: str = "") -> Text:
    """Make a text of a document or chat safe to print: without control characters or markup."""
    return Text(_CONTROLS.sub("", text), style=style)


def plain_line(text: str, style: str = "") -> Text:
    """Make a text safe to print, and put it on one line."""
    return plain(" ".join(text.split()), style)


def link_file(text: str, path: Path | None) -> Text:
    """Build a text that opens a file, in terminals that can open links."""
    shown = plain_line(text)
    if path is not None and path.is_absolute():
        shown.stylize(f"link {path.as_uri()}")
    return shown


def print_marked(console: Console, mark: str, style: str, text: str) -> None:
    """Print a line that begins with a coloured word, such as ``error``."""
    console.print(Text.assemble((f"{mark}: ", style), plain(text)), soft_wrap=True)


def print_notes(notes: Sequence[str]) -> None:
    """Print the warnings of an answer on standard error."""
    for note in notes:
        print_marked(open_console(stderr=True), "warning", "yellow", note)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines of plain text, each unbroken."""
    for line in lines:
        console.print(plain(line), soft_wrap=True)


def list_alike(files: Iterable[tuple[str, str]]) -> list[str]:
    """Write what is said of files in lines, one for those of which the same is said."""
    alike: dict[str, list[str]] = {}
    for name, said in files:
        alike.setdefault(said, []).append(name)
    return [f"{name_some(names, _MOST_NAMES)}: {said}" for said, names in alike.items()]


def print_table(
    console: Console,
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Collection[str] = (),
    spare: Sequence[str] = (),
    folded: Collection[str] = (),
    indent: int = 0,
) -> None:
    """Print a table of aligned columns without rules, as one cannot read a shortened cell.

    The columns ``right`` are aligned to the right. A narrow terminal leaves out the columns ``spare``, in their order,
    and names them below; then it breaks the cells of the columns ``folded`` over lines.
    """
    cells = [dict(zip(headers, map(_write_cell, row), strict=True)) for row in rows]
    widths = {
        header: max(cell_len(text) for text in (header, *(row[header] for row in cells)))
        for header in headers
    }
    needed = {
        header: min(width, _LEAST_FOLDED) if header in folded else width for header, width in widths.items()
    }
    left_out = list[str]()
    for header in spare:
        if indent + sum(needed.values()) + _GAP * (len(needed) - 1) > console.width:
            left_out.append(header)
            del needed[header]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for header in needed:
        is_folded = header in folded
        table.add_column(
            header,
            justify="right" if header in right else "left",
            no_wrap=not is_folded,
            overflow="fold" if is_folded else "ellipsis",
            min_width=None if is_folded or not spare else widths[header],
        )
    for row in cells:
        table.add_row(*(plain(row[header]) for header in needed))
    console.print(Padding(table, (0, 0, 0, indent), expand=False))
    if left_out:
        note = f"Not shown on {console.width} columns: {', '.join(left_out)}; --json has them"
        console.print(Padding(plain(note, "dim"), (0, 0, 0, indent), expand=False))


def _write_cell(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {held}" for name, held in value.items())
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)


def print_result(result: _T, show: Callable[[Console, _T], object], *, as_json: bool) -> None:
    """Print what a command has to say: as JSON, or as a function shows it to people."""
    if as_json:
        print_json(result)
    else:
        show(open_console(), result)


def print_record(record: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what a command did: as JSON, or in lines for people."""
    print_result(record, lambda console, _: print_lines(console, lines), as_json=as_json)


def print_json(record: object) -> None:
    """Print a record as one JSON document, in which other values than records, such as times, are texts."""
    text = json.dumps(record, ensure_ascii=False, indent=2, default=_give_values)
    escaped = _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(f"{escaped}\n")


def _give_values(record: Any) -> Any:
    """Give the values of a record for JSON; a result of the library says itself how it is written."""
    for name in ("to_dict", "as_record", "model_dump"):
        if hasattr(record, name):
            return getattr(record, name)()
    return asdict(record) if is_dataclass(record) and not isinstance(record, type) else str(record)


Move: TypeAlias = "Callable[[RunPosition], None]"
"""Moves the bar to where a run stands."""


@contextmanager
def show_run_bar(label: str) -> Iterator[Move]:
    """Show one bar for a run while it is under way, and yield the function that moves it; nothing without a terminal.

    Beside the bar stands what is done inside of a step.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    with Progress(
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.description}", markup=False),
        console=open_console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    ) as progress:
        task = progress.add_task(plain_line(label).plain, total=None)

        def move(position: RunPosition) -> None:
            progress.update(task, completed=position.done, total=position.total, description=position.table)

        def follow(label: str, done: int, total: int) -> None:
            progress.update(task, description=plain_line(f"{label}, {done:,} of {total:,}").plain)

        with listening(follow, draws=True):
            yield move
