"""Hashes of files by their content, remembered for files that have not changed since they were hashed.

A file is taken for unchanged if its size, the times of its last change of content and of state, and its number on the
disk are those of the earlier reading. A program can set the first time, but the system alone sets the second. A file
that was changed within seconds of the reading is never remembered: a later change could leave the same times.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from typing import Final

from backstory.tables.ledger import Entry, Ledger

SETTLED_SECONDS: Final = 3.0
"""Age of the last change from which a file is remembered. FAT keeps times of two seconds, the coarsest of all."""

_FILES: Final = "document_files"
_BYTES_AT_ONCE: Final = 1 << 20


class FileHashes:
    """The hashes of files that an earlier run read.

    Args:
        ledger: Where they are remembered.
        settled_seconds: Another value of :data:`SETTLED_SECONDS`; None for that one.

    Attributes:
        read: Number of files whose content was read.
        unchanged: Number of files whose hash was remembered.
    """

    def __init__(self, ledger: Ledger, *, settled_seconds: float | None = None) -> None:
        self._ledger = ledger
        self._settled_seconds = SETTLED_SECONDS if settled_seconds is None else settled_seconds
        self._known = dict(ledger.read(_FILES))
        self._found: dict[str, Entry] = {}
        self._seen: set[str] = set()
        self.read = 0
        self.unchanged = 0

    def find(self, path: str) -> str | None:
        """Return the hash of a file that has not changed; None for any other, and for a link."""
        key = _name(path)
        entry = self._found.get(key) or self._known.get(key)
        if entry is None or entry.inputs != _describe(path):
            return None
        return entry.content

    def hash(self, path: str, read: Callable[[], bytes] | None = None) -> str:
        """Return the SHA-256 of a file, in hexadecimal digits.

        Args:
            path: The file.
            read: Reads it; None to open it by its path.

        Raises:
            OSError: The file cannot be read.
        """
        self._seen.add(_name(path))
        known = self.find(path)
        if known is not None:
            self.unchanged += 1
            return known
        self.read += 1
        before, started = _describe(path), time.time()
        content = _hash_content(path) if read is None else hashlib.sha256(read()).hexdigest()
        if before is not None and before == _describe(path) and self._is_settled(path, started):
            self._found[_name(path)] = Entry(before, content, 0)
        return content

    def save(self) -> None:
        """Remember what was hashed, and forget the files that were not asked for.

        Raises:
            LedgerError: The ledger is damaged.
        """
        self._ledger.forget(_FILES, self._known.keys() - self._seen)
        self._ledger.record(_FILES, self._found)

    def count(self) -> int:
        """Count the files that the last run remembered."""
        return len(self._known)

    def find_deviation(self) -> str | None:
        """Hash the remembered files that have not changed, and return the first with another content; None without."""
        for path, entry in sorted(self._known.items()):
            try:
                if self.find(path) is not None and _hash_content(path) != entry.content:
                    return path
            except OSError:
                continue  # the next run reads it, and reports it
        return None

    def _is_settled(self, path: str, now: float) -> bool:
        state = os.lstat(path)
        return max(state.st_mtime, state.st_ctime) < now - self._settled_seconds


def _name(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _describe(path: str) -> str | None:
    """Describe the state of a file; None for what is not a regular file, such as a link."""
    try:
        state = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(state.st_mode):
        return None
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_dev} {state.st_ino}"


def _hash_content(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        state = hashlib.sha256()
        while part := os.read(descriptor, _BYTES_AT_ONCE):
            state.update(part)
    finally:
        os.close(descriptor)
    return state.hexdigest()
