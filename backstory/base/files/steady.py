"""Reading a file such that all bytes belong to one content, whose hash is known."""

from __future__ import annotations

import errno
import hashlib
import os
from io import BufferedReader
from typing import TypeAlias

FileState: TypeAlias = tuple[int, int, int]
"""Size, and times of the last change of content and of the file, in nanoseconds."""


class ChangedFileError(OSError):
    """A file changed while it was read."""

    def __init__(self) -> None:
        """State it in the way of the system's own errors."""
        super().__init__(errno.ESTALE, "it was written while it was read")


def state_of(file: BufferedReader) -> FileState:
    """Return the state of an open file, which differs after every change of it."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def require_unchanged(file: BufferedReader, before: FileState) -> None:
    """Raise unless an open file is as it was.

    Raises:
        ChangedFileError: It was written since.
    """
    if state_of(file) != before:
        raise ChangedFileError


def hash_unchanged(file: BufferedReader, before: FileState) -> str:
    """Return the SHA-256 of an open file, in hexadecimal digits.

    Args:
        file: The file.
        before: Its state before anything was read of it.

    Raises:
        ChangedFileError: It was written since, so that the hash may be that of another content than was read.
        OSError: It cannot be read.
    """
    file.seek(0)
    found = hashlib.file_digest(file, "sha256").hexdigest()
    require_unchanged(file, before)
    return found
