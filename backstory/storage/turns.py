"""Turns: which runs may work on a workspace at a time. A turn ends with the process that has it."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Final

from backstory.base.telemetry import current_run
from backstory.storage.state import State

_RUN: Final = "run"
_HOLDER_BYTES: Final = 63

logger = logging.getLogger(__name__)


@contextmanager
def running(state: State, by: str, *, days: Sequence[str] = ()) -> Iterator[None]:
    """Allow one run over the tables of a workspace at a time; the others wait, and log for whom.

    Runs over different days, each of which names its own, may go on at once.
    """
    with ExitStack() as held:
        if not _take(held, state, by, days, wait=False):
            held.close()
            holder = state.find_holder(_RUN) or "another run"
            logger.warning("waiting for %s: a workspace allows one run at a time over the same days", holder)
            _take(held, state, by, days, wait=True)
            logger.info("the wait for %s has ended", holder)
        yield


@contextmanager
def running_if_free(state: State, by: str) -> Iterator[bool]:
    """Do what :func:`running` does if no run is under way; yield whether that is so."""
    with ExitStack() as held:
        yield _take(held, state, by, (), wait=False)


def is_running(state: State) -> bool:
    """Return whether a run over the tables of a workspace is under way."""
    return state.find_holder(_RUN) is not None


def _take(held: ExitStack, state: State, by: str, days: Sequence[str], *, wait: bool) -> bool:
    holder = _name_holder(by)
    if not held.enter_context(state.lock(_RUN, by=holder, wait=wait, shared=bool(days))):
        return False
    names = [f"{_RUN} of {day}" for day in sorted(days)]
    return not names or held.enter_context(state.lock(*names, by=holder, wait=wait))


def _name_holder(by: str) -> str:
    """Say who has a turn, where and since when, in the 63 bytes that Postgres keeps of the name of a connection."""
    run = current_run()
    name = by if run is None else f"run {run[:8]} ({by})"
    process, since = f":{os.getpid()}", f", {datetime.now(UTC):%H:%M} UTC"
    room = _HOLDER_BYTES - len(f"{name}, {process}{since}")
    return f"{name}, {socket.gethostname()[: max(0, room)]}{process}{since}"
