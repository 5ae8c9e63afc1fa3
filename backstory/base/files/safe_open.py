"""The one step that resolves and authorises a path before a document or an export is opened.

Whatever changes on the disk meanwhile: what is opened is a regular file that lies in the root.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OutsideError(OSError):
    """A path leads out of its root."""

    def __init__(self) -> None:
        """State it in the way of the system's own errors."""
        super().__init__(errno.EXDEV, "it is a link that leaves the folder")


class NoFileError(OSError):
    """A path leads to something that is no regular file, or to nothing by a link."""

    def __init__(self) -> None:
        """State it in the way of the system's own errors."""
        super().__init__(errno.EINVAL, "it is not a file, or it is a link to nothing")


def open_contained(root: Path, path: Path) -> BufferedReader:
    """Open a regular file in a folder. Links are followed once, and only to a place inside the folder.

    The path is resolved first. Then every folder on the way is opened relative to the one above it, and none of them
    may be a link any more, nor the file. What is checked is the open file, which no change of names can replace.

    Args:
        root: The folder, with links resolved.
        path: The file, in the folder.

    Raises:
        OutsideError: The path leads out of the folder.
        NoFileError: There is something else than a regular file.
        FileNotFoundError: There is nothing any more.
        OSError: The file cannot be opened.
    """
    try:
        place = Path(os.path.realpath(path))
        if not place.is_relative_to(root):
            raise OutsideError
        if place.is_symlink():  # a circle of links, which has no end to resolve to
            raise NoFileError
        opened = _open_below(root, place.relative_to(root).parts)
    except FileNotFoundError as error:
        if path.is_symlink():
            raise NoFileError from error
        raise
    if not stat.S_ISREG(
        os.fstat(opened).st_mode
    ):  # a folder, too, which a file object refuses without closing it
        os.close(opened)
        raise NoFileError
    return os.fdopen(opened, "rb")


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
            raise NoFileError  # opening a pipe or a device may do something
        return os.open(name, _LAST, dir_fd=here)
    finally:
        os.close(here)
