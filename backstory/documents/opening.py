"""The one step that resolves and authorises a path before a document is opened.

Whatever changes on the disk meanwhile: what is read is a regular file that lies in the root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from backstory.errors import DocumentError

_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FILE: Final = "this is not a file, or a link to none; replace or remove it"


@contextmanager
def open_inside(root: Path, path: Path, uri: str, *, most_bytes: int | None = None) -> Iterator[IO[bytes]]:
    """Open a regular file in a folder. Links are followed once, and only to a place inside the folder.

    The path is resolved first. Then every folder on the way is opened relative to the one above it, and none of them
    may be a link any more, nor the file. What is checked is the open file, which no change of names can replace.

    Args:
        root: The folder, with links resolved.
        path: The file, in the folder.
        uri: What errors call the file.
        most_bytes: Maximum size of the file, None for no limit.

    Yields:
        The open file.

    Raises:
        DocumentError: The file cannot or must not be read.
        FileNotFoundError: There is no such file any more.
    """
    descriptor = _open(root, path, uri)
    try:
        with os.fdopen(descriptor, "rb") as file:
            _require_readable(os.fstat(file.fileno()), uri, most_bytes)
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _refuse(uri, error) from error


def _open(root: Path, path: Path, uri: str) -> int:
    try:
        place = Path(os.path.realpath(path))
        if not place.is_relative_to(root):
            raise DocumentError(
                f"{uri}: this is a link that leaves the folder of documents; copy the file into it"
            )
        if place.is_symlink():  # a circle of links, which has no end to resolve to
            raise DocumentError(f"{uri}: {_NO_FILE}")
        return _open_below(root, place.relative_to(root).parts, uri)
    except FileNotFoundError as error:
        if path.is_symlink():
            raise DocumentError(f"{uri}: {_NO_FILE}") from error
        raise
    except OSError as error:
        raise _refuse(uri, error) from error


def _open_below(root: Path, parts: tuple[str, ...], uri: str) -> int:
    """Open a file by its path below a folder, no part of which may be a link."""
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, _STEP, dir_fd=here)
            os.close(here)
            here = below
        name = parts[-1] if parts else "."
        if not stat.S_ISREG(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
            raise DocumentError(f"{uri}: {_NO_FILE}")  # opening a pipe or a device may do something
        return os.open(name, _LAST, dir_fd=here)
    finally:
        os.close(here)


def _require_readable(state: os.stat_result, uri: str, most_bytes: int | None) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise DocumentError(f"{uri}: {_NO_FILE}")
    if most_bytes is not None and state.st_size > most_bytes:
        raise DocumentError(
            f"{uri}: the file has more than {most_bytes:,} bytes, too many to read within the limit of "
            "memory (`documents.read_megabytes`); split it, or raise the setting"
        )


def _refuse(uri: str, error: OSError) -> DocumentError:
    return DocumentError(f"{uri}: the file cannot be read ({error.strerror}); permit it, or remove the file")
