"""The progress bar of a run: one for all of its steps, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from backstory.base.progress import listening
from backstory.interfaces.cli.terminal import open_console, plain_line

if TYPE_CHECKING:
    from backstory.pipeline.run.run import RunPosition

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
