"""Detect whether any document may have changed since the last listing of files, without a further listing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeAlias

from backstory.ingest.documents.file_rules import IGNORE_FILE
from backstory.ingest.documents.files import FolderListing

_Stamp: TypeAlias = tuple[int, int, int, int]
"""Size, both times of change in nanoseconds, and inode."""

_COARSEST_CLOCK_NS: Final = 2_000_000_000
"""Longest step of the clocks of file systems: two changes within it may have the same time."""


@dataclass(frozen=True)
class FileStamps:
    """The sizes and times of everything that a listing of files depends on.

    Attributes:
        stamps: The stamp of each path; None for what is not there.
        is_certain: Whether any later change would show in them.
    """

    stamps: dict[Path, _Stamp | None]
    is_certain: bool

    @classmethod
    def take(cls, listing: FolderListing, others: Iterable[Path], began_ns: int) -> Self:
        """Record the stamps of the files of a listing and of their folders.

        Args:
            listing: The listing.
            others: Further files that decide which files are listed.
            began_ns: When the listing began, by :func:`time.time_ns`.
        """
        paths = {*others, *(file.path for file in listing.files)}
        for folder in listing.looked_into:
            paths |= {folder, folder / IGNORE_FILE}
        stamps = {path: _stamp(path) for path in paths}
        latest = max((max(each[1:3]) for each in stamps.values() if each is not None), default=0)
        # A file that could not be opened may be repaired in a place without a stamp.
        is_whole = not listing.unlisted and all(entry.status != "failed" for entry in listing.left_out)
        return cls(stamps, is_whole and latest + _COARSEST_CLOCK_NS < began_ns)

    def hold(self) -> bool:
        """Return whether everything is certain to be unchanged."""
        return self.is_certain and all(_stamp(path) == stamp for path, stamp in self.stamps.items())


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
