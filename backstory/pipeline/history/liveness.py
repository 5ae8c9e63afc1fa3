"""Liveness of the process of a run, by the lock of a file.

A run holds its lock as long as its process lives. The system releases it when the process ends, also if it is killed
or the machine restarts. Other machines, which cannot see the lock, see a lease.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from backstory.base.files.atomic import lock
from backstory.storage.leases import EVERYTHING, Lease, find_leases

LOCKS_FOLDER: Final = "running"
"""Name of the folder of the locks in ``.backstory``."""

_SUFFIX = ".lock"


@dataclass(frozen=True)
class Sign:
    """What shows that the process of a run lives.

    Attributes:
        file: The locked file.
        lease: The lease; None on one machine.
    """

    file: IO[bytes]
    lease: Lease | None


def hold(folder: Path, run_id: str) -> Sign:
    """Create and lock the file of a run; the lock lasts until :func:`let_go`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = os.fdopen(os.open(_path(folder, run_id), os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    lock(file)
    leases = find_leases(folder)
    return Sign(file, None if leases is None else leases.take(_name(run_id), EVERYTHING, run_id))


def let_go(folder: Path, run_id: str, sign: Sign) -> None:
    """Remove the file of a run, and release its lock."""
    _path(folder, run_id).unlink(missing_ok=True)
    sign.file.close()
    leases = find_leases(folder)
    if leases is not None and sign.lease is not None:
        leases.release(sign.lease)


def is_alive(folder: Path, run_id: str) -> bool:
    """Return whether the process of a run is still there, on this machine or another one."""
    here = _is_locked(folder, run_id)
    if here is not None:
        return here
    leases = find_leases(folder)
    return leases is not None and any(found.is_live for found in leases.find(_name(run_id)))


def clear(folder: Path) -> None:
    """Remove the files of runs whose process is gone."""
    for path in folder.glob(f"*{_SUFFIX}"):
        if _is_locked(folder, path.name.removesuffix(_SUFFIX)) is False:
            path.unlink(missing_ok=True)


def _is_locked(folder: Path, run_id: str) -> bool | None:
    """Return whether a process of this machine holds the lock of a run; None if there is none here."""
    try:
        file = _path(folder, run_id).open("rb")
    except FileNotFoundError:
        return None
    with file:
        return not lock(file, shared=True, wait=False)


def _name(run_id: str) -> str:
    return f"run {run_id}"


def _path(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}{_SUFFIX}"
