"""Progress of long steps: a bar on a terminal, log lines elsewhere, and a function that a caller has set."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

from backstory.base.telemetry import log_event

logger = logging.getLogger(__name__)

STEP_OF_TABLES: Final = "tables of the documents"
"""Step under which an indexing of documents counts tables; its other steps are parts of one table."""

_LOGGED_STEPS = 10

Listener: TypeAlias = Callable[[str, int, int], None]
"""Called with the description of a step, the number of items done, and their total. It stops the step by an error."""

NameListener: TypeAlias = Callable[[str], None]
"""Called with the name of the item that a step begins, such as the path of a document."""

_listeners: ContextVar[tuple[Listener | None, NameListener | None, bool]] = ContextVar(
    "listeners", default=(None, None, False)
)
"""Who listens to progress, who to names, and whether the first draws it."""


@contextmanager
def listening(
    listener: Listener, *, draws: bool = False, names: NameListener | None = None
) -> Iterator[None]:
    """Call a function at every progress of what this thread does meanwhile, and another with the name of each item.

    One that ``draws`` shows a bar, so that the steps show none of their own.
    """
    token = _listeners.set((listener, names, draws))
    try:
        yield
    finally:
        _listeners.reset(token)


def announce(label: str, done: int, total: int) -> None:
    """Report to the listener of this thread, if there is one, how far a step is."""
    listener, _, _ = _listeners.get()
    if listener is not None:
        listener(label, done, total)


def announce_name(name: str) -> None:
    """Report to whoever listens to names in this thread which item a step begins."""
    _, listener, _ = _listeners.get()
    if listener is not None:
        listener(name)


@contextmanager
def show_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a step, and yield a function to call with the number of items done and their total.

    On a terminal that moves a bar on standard error, unless a listener draws one for all steps; elsewhere it writes a
    log line at every further tenth. If nothing is left to do, it shows nothing.
    """
    has_bar = sys.stderr.isatty() and not _listeners.get()[2]
    with _show_bar(label) if has_bar else _log_tenths(label) as show:

        def report(done: int, total: int) -> None:
            show(done, total)
            announce(label, done, total)

        yield report


@contextmanager
def _show_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(label, total=None)

    def report(done: int, total: int) -> None:
        if done < total:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        bar.stop()


@contextmanager
def _log_tenths(label: str) -> Iterator[Callable[[int, int], None]]:
    reached: int | None = None

    def report(done: int, total: int) -> None:
        nonlocal reached
        tenth = done * _LOGGED_STEPS // total if total else _LOGGED_STEPS
        if reached is None:
            reached = tenth
        elif tenth > reached:
            reached = tenth
            log_event(logger, "progress", step=label, done=done, total=total)

    yield report
