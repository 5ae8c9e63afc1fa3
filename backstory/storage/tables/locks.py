"""Locks of the folder of the tables, for runs in several processes. A lock ends with the process that holds it.

Where several machines share a database, each works in a folder of its own, and the lock of its folder is one of two:
a lease in the database says which machine works on which partitions.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final, Literal

from backstory.base.files.atomic import lock
from backstory.base.telemetry.scope import current_run
from backstory.storage.leases import EVERYTHING, Lease, Leases, Span, find_leases

_RUN = ".run.lock"
_TABLE = ".lock"
_LEASE = "run"

_held: Final[dict[Path, Lease]] = {}
"""The lease under which this process works on the tables of a folder."""

logger = logging.getLogger(__name__)


@contextmanager
def running(
    root: Path,
    by: str,
    while_waiting: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext(),
    *,
    span: Span = EVERYTHING,
) -> Iterator[None]:
    """Allow one run over all tables of a workspace at a time; the others wait, and log for whom.

    Two runs over the same days would find each other's tables half replaced, and their checks would fail. Several
    machines that share a database may run at once, each over other partitions.

    Args:
        root: Folder of the tables; made if absent.
        by: What runs, for those that wait for it.
        while_waiting: Called before the wait, if there is one, with whom it is for; entered until the wait ends.
        span: The partitions that the run may write, for other machines.

    Raises:
        LeaseError: The database that several machines share cannot be used.
    """
    with _open_lock(run_lock(root)) as file:
        if not lock(file, wait=False):
            holder = _read_holder(file)
            logger.warning("waiting for %s: a workspace allows one run at a time", holder)
            with while_waiting(holder):
                lock(file)
            logger.info("the wait for %s has ended", holder)
        with _naming_holder(file, by), _leasing(root, by, while_waiting, span):
            yield


@contextmanager
def making_shared(root: Path, by: str, parts: Sequence[str]) -> Iterator[str]:
    """Let one machine at a time make a part of what the partitions of all runs share, such as the index of documents.

    Args:
        root: Folder of the tables.
        by: What runs, for those that wait for it.
        parts: Names of parts, of which the caller is to make one.

    Yields:
        The first of them that no other machine makes, after a wait if there is none.

    Raises:
        LeaseError: The database that several machines share cannot be used.
    """
    leases = find_leases(root)
    if leases is None:
        yield parts[0]
        return
    lease = leases.take_first(parts, EVERYTHING, _describe_holder(by))
    try:
        yield lease.name
    finally:
        leases.release(lease)


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
        leases = find_leases(root)
        if leases is None:
            with _naming_holder(file, by):
                yield True
            return
        lease = leases.try_to_take(_LEASE, EVERYTHING, _describe_holder(by))
        if not isinstance(lease, Lease):
            yield False
            return
        with _naming_holder(file, by), _keeping(root, leases, lease):
            yield True


def is_running(root: Path) -> bool:
    """Return whether a run over the tables of a workspace is under way.

    Args:
        root: Folder of the tables.
    """
    leases = find_leases(root)
    return is_running_here(root) or (
        leases is not None and any(found.is_live for found in leases.find(_LEASE))
    )


def is_running_here(root: Path) -> bool:
    """Return whether a run of this machine over the tables of a workspace is under way.

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
    if here := _find_holder_here(root):
        return here
    leases = find_leases(root)
    elsewhere = [] if leases is None else leases.find(_LEASE)
    if not elsewhere:
        return None
    return "running" if any(found.is_live for found in elsewhere) else "killed"


def find_lease(root: Path) -> Lease | None:
    """Return the lease under which this process works on the tables; None on one machine.

    Args:
        root: Folder of the tables.
    """
    return _held.get(root.absolute())


def find_spans_of_others(root: Path) -> list[Span]:
    """Return the partitions on which other machines work; none on one machine.

    Those of a machine that did not renew its lease are among them: until another takes it over, it may wake up.

    Args:
        root: Folder of the tables.

    Raises:
        LeaseError: The database that several machines share cannot be used.
    """
    leases, own = find_leases(root), find_lease(root)
    if leases is None or own is None:
        return []
    return [found.span for found in leases.find(_LEASE) if found.token != own.token]


def require_token(root: Path) -> int | None:
    """Return the token of the lease under which this process works on the tables, after it was renewed.

    What is published is to name it, so that no holder of an earlier lease replaces it.

    Args:
        root: Folder of the tables.

    Returns:
        The token; None on one machine.

    Raises:
        StaleLeaseError: Another process has taken over since; nothing may be published.
        LeaseError: The database that several machines share cannot be used.
    """
    leases, lease = find_leases(root), find_lease(root)
    return None if leases is None or lease is None else leases.require_token(lease)


@contextmanager
def writing_table(root: Path, table: str) -> Iterator[None]:
    """Let one process at a time replace files of a table together with their entries in the ledger.

    Both are of one machine: others have copies of their own, which a publication makes one.

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


def _find_holder_here(root: Path) -> Literal["running", "killed"] | None:
    try:
        with run_lock(root).open("rb") as file:
            if not file.read(1):
                return None
            return "killed" if lock(file, wait=False) else "running"
    except FileNotFoundError:
        return None


@contextmanager
def _leasing(
    root: Path, by: str, while_waiting: Callable[[str], AbstractContextManager[object]], span: Span
) -> Iterator[None]:
    """Hold a lease for the partitions of a run; nothing on one machine."""
    leases = find_leases(root)
    if leases is None:
        yield
        return
    holder = _describe_holder(by)
    lease = leases.try_to_take(_LEASE, span, holder)
    if not isinstance(lease, Lease):
        logger.warning("waiting for %s: one machine at a time works on a partition", lease)
        with while_waiting(lease):
            lease = leases.take(_LEASE, span, holder)
        logger.info("the wait has ended")
    with _keeping(root, leases, lease):
        yield


@contextmanager
def _keeping(root: Path, leases: Leases, lease: Lease) -> Iterator[None]:
    _held[root.absolute()] = lease
    try:
        yield
    finally:
        del _held[root.absolute()]
        leases.release(lease)


def _describe_holder(by: str) -> str:
    run = current_run()
    return f"{by if run is None else f'run {run[:8]} ({by})'}, process {os.getpid()}"


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
