"""Replacing a file at once: written beside it by one writer at a time, flushed to disk, renamed.

Also the locks and the flushing of everything else that several processes share. What POSIX promises is relied
upon: an open file can be renamed and removed, and a lock ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import IO


def temporary_path(path: Path) -> Path:
    """Give the hidden name beside a path under which its next content is written."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def exclusive_temporary(path: Path) -> Iterator[BufferedRandom]:
    """Open the temporary file of a path, empty, alone among all threads and processes.

    The name is fixed: what a killed writer left under it is overwritten by the next one. The lock belongs to
    the open file, so it ends with its process.

    Args:
        path: The file to be replaced; its folder is made if absent.

    Yields:
        The open file. Unless it was renamed by :func:`publish`, it is dropped at the end.
    """
    temporary = temporary_path(path)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        lock(file)
        if _is_named(file, temporary):
            break
        file.close()  # the writer that was waited for has renamed or dropped this very file
    with file:
        file.truncate(0)
        try:
            yield file
        finally:
            if _is_named(file, temporary):
                temporary.unlink()


def lock(file: int | IO[bytes] | IO[str], *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file against whoever opened it elsewhere, in this process or another.

    The lock ends when the file is closed, at the latest with its process, however that ends.

    Args:
        file: The open file or its descriptor.
        shared: Whether others may hold shared locks of it at the same time.
        wait: Whether to wait for those that hold it.

    Returns:
        Whether it is locked now; always true after waiting.
    """
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(file, operation)
    except BlockingIOError:
        return False
    return True


def publish(temporary: Path, path: Path) -> None:
    """Give a finished file its final name, on disk before this returns."""
    flush(temporary)
    temporary.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_named(file: BufferedRandom, path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
