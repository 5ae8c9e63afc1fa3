"""Recognises a full disk, which every library reports in its own way, and describes it in one sentence."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from backstory.base.errors import BackstoryError, StateError

# No space; the quota of the user; a limit of the size of files.
_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_WRITERS: Final = frozenset({"_duckdb", "duckdb", "polars", "sqlite3"})
"""Packages that report what they cannot write by errors of their own, without the number of the system's error."""
_LEAST_BYTES: Final = 1 << 20
"""What these need at least to write anything."""


@contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Raise a :class:`StateError` in place of whatever an error is that a full disk caused.

    Args:
        folder: A folder on the disk that is written to.

    Raises:
        StateError: The disk is full. Every other error is raised as it is.
    """
    try:
        yield
    except BackstoryError:
        raise
    except Exception as error:
        if not is_of_full_disk(error, folder):
            raise
        raise StateError(_describe(error, folder), code="disk_full") from error


def is_of_full_disk(error: BaseException, folder: Path) -> bool:
    """Return whether an error means that the disk of a folder is full, or a quota or limit is reached."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _ERRORS
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return True
    is_of_writer = isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _WRITERS
    return is_of_writer and _count_writable(folder) < _LEAST_BYTES


def _describe(error: Exception, folder: Path) -> str:
    free = _count_free(folder)
    name = getattr(error, "filename", None)
    where = f" while writing {os.fsdecode(name)}" if isinstance(name, str | bytes | os.PathLike) else ""
    return (
        f"the disk of {folder} is full{where}: {free / 1e6:,.1f} MB are free (or a quota or a limit of file sizes is "
        "reached). Finished work is kept, and no file is left half written. Free some space, and run the same command "
        "again to resume"
    )


def _count_writable(folder: Path) -> int:
    """Count the bytes that a file in a folder can take: what is free, and at most the limit of file sizes."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    free = _count_free(folder)
    return free if limit == resource.RLIM_INFINITY else min(free, limit)


def _count_free(folder: Path) -> int:
    status = os.statvfs(next(place for place in (folder, *folder.parents) if place.exists()))
    return status.f_bavail * status.f_frsize
