"""Opening documents: files, and members of ZIP archives, which are read in place as if they were folders."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from posixpath import splitext
from typing import Final
from zipfile import ZipInfo

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import (
    ChangedFileError,
    hash_unchanged,
    open_contained,
    require_unchanged,
    state_of,
)
from backstory.ingest.zips import ZipLimits, list_members, open_zip, read_member

ARCHIVE_LIMITS: Final = ZipLimits(members=10_000, bytes=1 << 30)
_ARCHIVE_SUFFIX: Final = ".zip"
_REFUSALS: Final = {
    errno.EXDEV: (
        "outside_link",
        "this is a link that leaves the folder of documents; copy the file into it",
    ),
    errno.ENXIO: ("no_file", "this is not a file, or it is a link to nothing; replace or remove it"),
}
_reading: Final = threading.RLock()


def is_archive(name: str) -> bool:
    """Return whether a file is an archive by its name."""
    return splitext(name)[1].lower() == _ARCHIVE_SUFFIX


def require_size(size: int, most_bytes: int | None) -> None:
    """Raise ``ReadError`` if a file has more bytes than can be read."""
    if most_bytes is not None and size > most_bytes:
        raise ReadError(
            f"the file has more than {most_bytes:,} bytes, too many to read within the limit of memory "
            "(`documents.read_megabytes`); split it, or raise the setting",
            code="too_large",
        )


@contextmanager
def open_inside(root: Path, path: Path, *, most_bytes: int | None = None) -> Iterator[BufferedReader]:
    """Open a regular file in a folder; raise ``ReadError`` for any other, ``FileNotFoundError`` if it is gone."""
    try:
        with open_contained(root, path) as file:
            require_size(os.fstat(file.fileno()).st_size, most_bytes)
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        other = f"the file cannot be read ({error.strerror}); make it readable, or remove it"
        code, problem = _REFUSALS.get(error.errno or 0, ("unreadable_file", other))
        raise ReadError(problem, code=code) from error


class Archive:
    """An archive within the limits, whose members are read from the file that was listed.

    One archive at a time is held open, so that no listing needs more descriptors than a process may have. ``state``:
    size, times and number of its file when it was opened.
    """

    _held: Archive | None = None

    def __init__(self, root: Path, path: Path) -> None:
        """Open an archive; raise ``ReadError`` if it exceeds the limits, ``FileNotFoundError`` if it is gone."""
        self._root, self._path = root, path
        with _reading:
            self._open()
            self._before = state_of(self._file)
            self.state = os.fstat(self._file.fileno())

    def _open(self) -> None:
        if Archive._held is not None:
            Archive._held.close()
        with ExitStack() as stack:
            self._file = stack.enter_context(open_inside(self._root, self._path))
            self._zip = open_zip(self._file, ARCHIVE_LIMITS)
            self._opened = stack.pop_all()
        Archive._held = self

    def _require_same(self) -> None:
        """Open the archive if it was closed for another, and raise ``ChangedFileError`` if it is not the same now."""
        if self._file.closed:
            self._open()
        require_unchanged(self._file, self._before)

    def close(self) -> None:
        """Close the file until a member is read again."""
        self._opened.close()
        Archive._held = None

    def sha256(self) -> str:
        """Return the hash of the archive that was listed; raise ``ChangedFileError`` if it was written meanwhile."""
        with _reading:
            self._require_same()
            return hash_unchanged(self._file, self._before)

    def list_members(self) -> Iterator[tuple[str, ZipInfo, str | None]]:
        """List the members; see :func:`backstory.ingest.zips.list_members`."""
        return list_members(self._zip)

    def read(self, info: ZipInfo, size: int = -1, *, most_bytes: int | None = None) -> bytes:
        """Read a member; raise ``ReadError`` if it is damaged, packed in an unknown way, or too large."""
        require_size(info.file_size, most_bytes)
        try:
            with _reading:
                self._require_same()
                content = read_member(self._zip, info, size)
                require_unchanged(self._file, self._before)
        except ChangedFileError as error:
            raise ReadError("the archive was written while it was read; run again") from error
        except OSError as error:
            raise ReadError(f"the archive cannot be read ({error.strerror}); copy it again") from error
        return content
