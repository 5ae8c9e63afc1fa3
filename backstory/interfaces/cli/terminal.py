"""The console of the commands: as wide as the terminal, without line breaks in a pipe, and safe for untrusted text."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from backstory.base.errors import BackstoryError
from backstory.base.progress import listening

if TYPE_CHECKING:
    from backstory.pipeline.run.run import RunPosition

# C0 (except tab and line feed), DEL and C1, with which a text could move the cursor, or recolour or rename the
# terminal; the separators of lines that some terminals break; and the marks that change the direction of text.
_SEPARATORS_AND_MARKS: Final = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROLS: Final = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_SEPARATORS_AND_MARKS}]")
# JSON escapes C0 itself, but not C1, which terminals also read as commands.
_RAW_IN_JSON: Final = re.compile(rf"[\x7f-\x9f{_SEPARATORS_AND_MARKS}]")
_T = TypeVar("_T")
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


def print_notes(notes: Sequence[str]) -> None:
    """Print the warnings of an answer on standard error."""
    for note in notes:
        open_console(stderr=True).print(Text.assemble(("warning: ", "yellow"), plain(note)), soft_wrap=True)


def print_table(
    console: Console,
    headers: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
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
    cells = [[str(cell) for cell in row] for row in rows]
    widths = {
        header: max(map(cell_len, (header, *column)))
        for header, column in zip(
            headers, zip(*cells, strict=True) if cells else [()] * len(headers), strict=True
        )
    }

    def measure(shown: Sequence[str]) -> int:
        widest = (min(widths[each], _LEAST_FOLDED) if each in folded else widths[each] for each in shown)
        return indent + sum(widest) + _GAP * (len(shown) - 1)

    left_out = list[str]()
    while (
        len(left_out) < len(spare)
        and measure([each for each in headers if each not in left_out]) > console.width
    ):
        left_out.append(spare[len(left_out)])
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for header in headers:
        if header not in left_out:
            is_folded = header in folded
            table.add_column(
                header,
                justify="right" if header in right else "left",
                no_wrap=not is_folded,
                overflow="fold" if is_folded else "ellipsis",
                min_width=None if is_folded or not spare else widths[header],
            )
    for row in cells:
        table.add_row(
            *(plain(cell) for header, cell in zip(headers, row, strict=True) if header not in left_out)
        )
    console.print(Padding(table, (0, 0, 0, indent), expand=False))
    if left_out:
        note = f"Not shown on {console.width} columns: {', '.join(left_out)}; --json has them"
        console.print(Padding(plain(note, "dim"), (0, 0, 0, indent), expand=False))


def print_result(result: _T, show: Callable[[Console, _T], object], *, as_json: bool) -> None:
    """Print what a command has to say: as JSON, or as a function shows it to people."""
    if as_json:
        print_json(result)
    else:
        show(open_console(), result)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines of plain text, each unbroken."""
    for line in lines:
        console.print(plain(line), soft_wrap=True)


def print_record(record: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what a command did: as JSON, or in lines for people."""
    print_result(record, lambda console, _: print_lines(console, lines), as_json=as_json)


def print_page(page: Path, *, opens: bool = False) -> None:
    """Print where a page is, alone on standard output, for scripts; and open it in a browser if that is wanted."""
    sys.stdout.write(f"{page}\n")
    if opens:
        import webbrowser  # few commands need it

        if not webbrowser.open(page.resolve().as_uri()):
            raise BackstoryError(f"no browser starts on this machine; open {page} yourself")


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
    """Show one bar for a run while it is under way; nothing without a terminal.

    Yields:
        A function to call with each position of the run. The steps inside of it are followed by themselves.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    progress = Progress(
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.description}", markup=False),
        console=open_console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    with progress:
        task = progress.add_task(plain_line(label).plain, total=None)
        bar = RunBar(
            lambda done, total, text: progress.update(
                task, completed=done, total=total, description=plain_line(text).plain
            )
        )
        with listening(bar.follow, draws=True):
            yield bar.move


class RunBar:
    """Joins the positions of a run and the progress of its steps to one that never goes back."""

    def __init__(self, draw: Callable[[float, int, str], None]) -> None:
        """Begin at nothing."""
        self._draw = draw
        self._position: RunPosition | None = None
        self._done = 0.0

    def move(self, position: RunPosition) -> None:
        """Move to a position of the run."""
        self._position = position
        self._done = max(self._done, float(position.done))
        self._show("")

    def follow(self, label: str, done: int, total: int) -> None:
        """Follow a step, which is a part of the present position; see :class:`backstory.base.progress.Listener`."""
        position = self._position
        if position is None or not total:
            return
        if not position.has_turns:
            # A table counts as done when the run passes on to the next one; it may have several parts.
            self._done = max(self._done, position.done + 0.99 * done / total)
        self._show(
            f", {done:,} of {total:,}" if label == position.table else f", {label} {done:,} of {total:,}"
        )

    def _show(self, step: str) -> None:
        position = self._position
        if position is not None:
            self._draw(self._done, position.total, f"{position.table}{step}")
