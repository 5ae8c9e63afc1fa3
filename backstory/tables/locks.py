"""Locks of the folder of the tables, for runs in several processes. A lock ends with the process that holds it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backstory.atomic_files import lock

_RUN = ".run.lock"
_TABLE = ".lock"

logger = logging.getLogger(__name__)


@contextmanager
def running(root: Path) -> Iterator[None]:
    """Let one run over all tables of a workspace go on at a time; the others wait, and say so.

    Two runs over the same days would find each other's tables half replaced, and their checks would fail.

    Args:
        root: Folder of the tables; made if absent.
    """
    with _locked(
        root / _RUN, "another run of this workspace is under way; this one starts when that one has ended"
    ):
        yield


def is_running(root: Path) -> bool:
    """Say whether a run over the tables of a workspace is under way.

    Args:
        root: Folder of the tables.
    """
    try:
        with (root / _RUN).open("ab") as file:
            return not lock(file, wait=False)
    except FileNotFoundError:
        return False


@contextmanager
def writing_table(root: Path, table: str) -> Iterator[None]:
    """Let one process at a time replace files of a table together with their entries in the ledger.

    Args:
        root: Folder of the tables.
        table: Name of the table.
    """
    with _locked(root / table / _TABLE, None):
        yield


@contextmanager
def _locked(path: Path, waiting: str | None) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if not lock(file, wait=False):
            if waiting is not None:
                logger.warning("%s", waiting)
            lock(file)
        yield
