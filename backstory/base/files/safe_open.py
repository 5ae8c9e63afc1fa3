"""Opening files that others may change meanwhile: what is opened is a regular file that lies in its root."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final, TypeAlias

from backstory.base.errors import ReadError

GONE: Final = "gone_file"
"""Code of a file that was removed after it was listed."""
LEAVING: Final = (
    "this is a link that leaves the folder; copy what it leads to into the folder, or remove the link"
)
_MOST_BYTES: Final = 1 << 36
"""No export or document is larger, and to hash a sparse file of a few terabytes takes hours."""
_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

FileState: TypeAlias = tuple[int, int, int]
"""Size, and times of the last change of content and of the file, in nanoseconds."""


@contextmanager
def open_inside(root: Path, path: Path) -> Iterator[BufferedReader]:
    """Open a regular file in a folder, which is a resolved path. Links are followed once, and only to a place inside.

    Every folder on the way is opened relative to the one above it, and what is checked is the open file, which no
    change of names can replace. It raises ``ReadError`` for any other file, with the code ``GONE`` if there is none.
    """
    try:
        place = Path(os.path.realpath(path))
        if not place.is_relative_to(root):
            raise ReadError(LEAVING, code="outside_link")
        if place.is_symlink():  # a circle of links, which has no end to resolve to
            raise _no_file()
        with os.fdopen(_open_below(root, place.relative_to(root).parts), "rb") as file:
            if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                raise ReadError(f"the file has more than {_MOST_BYTES >> 30} GiB; split it", code="too_large")
            yield file
    except FileNotFoundError as error:
        if path.is_symlink():
            raise _no_file() from error
        problem = "the file was moved or removed while the folder was read; run again"
        raise ReadError(problem, code=GONE) from error
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror}); make it readable, or remove it"
        raise ReadError(problem, code="unreadable_file") from error


def _no_file() -> ReadError:
    return ReadError("this is not a file, or it is a link to nothing; replace or remove it", code="no_file")


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
        opened = os.open(name, _LAST, dir_fd=here)
        # What came into its place meanwhile is looked at again; a file object refuses a folder without closing it.
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise _no_file()
        return opened
    finally:
        os.close(here)


def state_of(file: BufferedReader) -> FileState:
    """Return the state of an open file, which differs after every change of it."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
