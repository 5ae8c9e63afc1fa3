"""Locks of the folder of the tables, for runs in several processes. A lock ends with the process that holds it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Literal

from backstory.base.files.atomic import lock
from backstory.base.telemetry.scope import current_run

_RUN = ".run.lock"
_TABLE = ".lock"

logger = logging.getLogger(__name__)


@contextmanager
def running(
    root: Path,
    by: str,
    while_waiting: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> Iterator[None]:
    """Allow one run over all tables of a workspace at a time; the others wait, and log for whom.

    Two runs over the same days would find each other's tables half replaced, and their checks would fail.

    Args:
        root: Folder of the tables; made if absent.
        by: What runs, for those that wait for it.
        while_waiting: Called before the wait, if there is one, with whom it is for; entered until the wait ends.
    """
    with _open_lock(run_lock(root)) as file:
        if not lock(file, wait=False):
            holder = _read_holder(file)
            logger.warning("waiting for %s: a workspace allows one run at a time", holder)
            with while_waiting(holder):
                lock(file)
            logger.info("the wait for %s has ended", holder)
        with _naming_holder(file, by):
            yield


@contextmanager
def running_if_free(root: Path, by: str) -> Iterator[bool]:
    """Do what :func:`running` does if no run is under way; yield whether that is so.

    Args:
        root: Folder of the tables; made if absent.
        by: What runs, for those that wait for it.
    """
    with _open_lock(run_lock(root)) as file:
        if not lock(file, wait=False):
            yield False
            return
        with _naming_holder(file, by):
            yield True


def is_running(root: Path) -> bool:
    """Return whether a run over the tables of a workspace is under way.

    Args:
        root: Folder of the tables.
    """
    try:
        with run_lock(root).open("ab") as file:
            return not lock(file, wait=False)
    except FileNotFoundError:
        return False


def find_holder(root: Path) -> Literal["running", "killed"] | None:
    """Return what became of the last run over the tables: it runs, or it was killed; None if it ended by itself.

    Cheap enough for every question; :func:`is_running` also notices a run that has only just begun.

    Args:
        root: Folder of the tables.
    """
    try:
        with run_lock(root).open("rb") as file:
            if not file.read(1):
                return None
            return "killed" if lock(file, wait=False) else "running"
    except FileNotFoundError:
        return None


@contextmanager
def writing_table(root: Path, table: str) -> Iterator[None]:
    """Let one process at a time replace files of a table together with their entries in the ledger.

    Args:
        root: Folder of the tables.
        table: Name of the table.
    """
    with _open_lock(root / table / _TABLE) as file:
        lock(file)
        yield


def run_lock(root: Path) -> Path:
    """Return the file of the lock of runs, which changes when one begins or ends.

    Args:
        root: Folder of the tables.
    """
    return root / _RUN


def _open_lock(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a+b")


@contextmanager
def _naming_holder(file: IO[bytes], by: str) -> Iterator[None]:
    """Record the holder in the file of a lock. A killed holder leaves its name, but not the lock."""
    since = datetime.now(UTC).isoformat(" ", "seconds")
    holder = {"by": by, "run_id": current_run(), "process": os.getpid(), "since": since}
    file.truncate(0)
    file.write(json.dumps(holder).encode())
    file.flush()
    try:
        yield
    finally:
        file.truncate(0)


def _read_holder(file: IO[bytes]) -> str:
    file.seek(0)
    try:
        holder = json.loads(file.read())
    except ValueError:
        return "another run"  # it has just begun or ended
    name = holder["by"] if holder["run_id"] is None else f"run {holder['run_id'][:8]} ({holder['by']})"
    return f"{name}, process {holder['process']}, since {holder['since']}"
