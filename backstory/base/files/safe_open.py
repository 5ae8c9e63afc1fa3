"""Opening files that others may change meanwhile: what is opened is a regular file that lies in its root."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final, TypeAlias

_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

FileState: TypeAlias = tuple[int, int, int]
"""Size, and times of the last change of content and of the file, in nanoseconds."""


def open_contained(root: Path, path: Path) -> BufferedReader:
    """Open a regular file in a folder, which is a resolved path. Links are followed once, and only to a place inside.

    Every folder on the way is opened relative to the one above it, and what is checked is the open file, which no
    change of names can replace. Beside ``FileNotFoundError``, the number of an ``OSError`` is ``EXDEV`` for a path that
    leads out, and ``ENXIO`` for something else than a regular file.
    """
    try:
        place = Path(os.path.realpath(path))
        if not place.is_relative_to(root):
            raise OSError(errno.EXDEV, "it is a link that leaves the folder")
        if place.is_symlink():  # a circle of links, which has no end to resolve to
            raise _no_file()
        opened = _open_below(root, place.relative_to(root).parts)
    except FileNotFoundError as error:
        if path.is_symlink():
            raise _no_file() from error
        raise
    # A folder is none, either, which a file object refuses without closing it.
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise _no_file()
    return os.fdopen(opened, "rb")


def _no_file() -> OSError:
    return OSError(errno.ENXIO, "it is not a file, or it is a link to nothing")


def _open_below(root: Path, parts: tuple[str, ...]) -> int:
    """Open a file by its path below a folder, no part of which may be a link."""
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, _STEP, dir_fd=here)
            os.close(here)
            here = below
        name = parts[-1] if parts else "."
        if not stat.S_ISREG(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
            raise _no_file()  # opening a pipe or a device may do something
        return os.open(name, _LAST, dir_fd=here)
    finally:
        os.close(here)


def state_of(file: BufferedReader) -> FileState:
    """Return the state of an open file, which differs after every change of it."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
