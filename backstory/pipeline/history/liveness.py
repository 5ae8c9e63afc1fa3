"""Liveness of the process of a run, by the lock of a file.

A run holds its lock as long as its process lives. The system releases it when the process ends, also if it is killed
or the machine restarts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Final

from backstory.base.files.atomic import lock

LOCKS_FOLDER: Final = "running"
"""Name of the folder of the locks in ``.backstory``."""

_SUFFIX = ".lock"


def hold(folder: Path, run_id: str) -> IO[bytes]:
    """Create and lock the file of a run; the lock lasts until the returned file is closed."""
    folder.mkdir(parents=True, exist_ok=True)
    file = os.fdopen(os.open(_path(folder, run_id), os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    lock(file)
    return file


def let_go(folder: Path, run_id: str, file: IO[bytes]) -> None:
    """Remove the file of a run, and release its lock."""
    _path(folder, run_id).unlink(missing_ok=True)
    file.close()


def is_alive(folder: Path, run_id: str) -> bool:
    """Return whether the process of a run is still there."""
    try:
        file = _path(folder, run_id).open("rb")
    except FileNotFoundError:
        return False
    with file:
        return not lock(file, shared=True, wait=False)


def clear(folder: Path) -> None:
    """Remove the files of runs whose process is gone."""
    for path in folder.glob(f"*{_SUFFIX}"):
        if not is_alive(folder, path.name.removesuffix(_SUFFIX)):
            path.unlink(missing_ok=True)


def _path(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}{_SUFFIX}"
