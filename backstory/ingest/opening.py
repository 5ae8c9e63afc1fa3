"""Opening files that lie in a folder, and members of ZIP archives, which are read in place as if in a folder."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from posixpath import splitext
from typing import ClassVar, Final
from zipfile import ZipInfo

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import open_contained, state_of
from backstory.ingest.zips import ZipLimits, list_members, open_zip, read_member

ARCHIVE_LIMITS: Final = ZipLimits(members=10_000, bytes=1 << 30)
CHANGED: Final = "changed_file"
"""Code of a file that was written while it was read."""
GONE: Final = "gone_file"
"""Code of a file that was removed after it was listed."""
LEAVING: Final = (
    "this is a link that leaves the folder; copy what it leads to into the folder, or remove the link"
)
_REFUSALS: Final = {
    errno.ENOENT: (GONE, "the file was moved or removed while the folder was read; run again"),
    errno.EXDEV: ("outside_link", LEAVING),
    errno.ENXIO: ("no_file", "this is not a file, or it is a link to nothing; replace or remove it"),
}
_reading: Final = threading.RLock()


def is_archive(name: str) -> bool:
    """Return whether a file is an archive by its name."""
    return splitext(name)[1].lower() == ".zip"


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
    """Open a regular file in a folder; raise ``ReadError`` for any other, with the code ``GONE`` if there is none."""
    try:
        with open_contained(root, path) as file:
            require_size(os.fstat(file.fileno()).st_size, most_bytes)
            yield file
    except OSError as error:
        other = f"the file cannot be read ({error.strerror}); make it readable, or remove it"
        code, problem = _REFUSALS.get(error.errno or 0, ("unreadable_file", other))
        raise ReadError(problem, code=code) from error


class Archive:
    """An archive within the limits, whose members are read from the file that was listed.

    One archive at a time is held open, so that no listing needs more descriptors than a process may have.
    """

    _held: ClassVar[ExitStack] = ExitStack()

    def __init__(self, root: Path, path: Path) -> None:
        """Open an archive; raise ``ReadError`` if it cannot be read or exceeds the limits."""
        self._root, self._path = root, path
        with _reading:
            self._open()
            self._listed = state_of(self._file)

    def _open(self) -> None:
        Archive._held.close()
        with ExitStack() as stack:
            self._file: BufferedReader = stack.enter_context(open_inside(self._root, self._path))
            self._zip = open_zip(self._file, ARCHIVE_LIMITS)
            Archive._held = stack.pop_all()

    def list_members(self) -> Iterator[tuple[str, ZipInfo, str | None]]:
        """List the members; see :func:`backstory.ingest.zips.list_members`."""
        return list_members(self._zip)

    def read(self, info: ZipInfo, size: int = -1, *, most_bytes: int | None = None) -> bytes:
        """Read a member; raise ``ReadError`` if it is damaged or too large, or its archive is another one now."""
        require_size(info.file_size, most_bytes)
        with _reading:
            if self._file.closed:
                self._open()
            if state_of(self._file) != self._listed:
                raise ReadError("the archive was written while it was read; run again", code=CHANGED)
            return read_member(self._zip, info, size)
