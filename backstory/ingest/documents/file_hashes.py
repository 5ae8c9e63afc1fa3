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
from contextlib import AbstractContextManager
from io import BufferedReader
from typing import Final

from backstory.storage.tables.catalog import Catalog, Entry

SETTLED_SECONDS: Final = 3.0
"""Age of the last change from which a file is remembered. FAT keeps times of two seconds, the coarsest of all."""

_FILES: Final = "document_files"


class FileHashes:
    """The hashes of files that an earlier run read, and how many of them were read or are unchanged."""

    def __init__(self, catalog: Catalog, *, settled_seconds: float | None = None) -> None:
        self._catalog = catalog
        self._settled_seconds = SETTLED_SECONDS if settled_seconds is None else settled_seconds
        self._known = dict(catalog.read(_FILES))
        self._found: dict[str, Entry] = {}
        self._used: dict[str, str] = {}
        self._seen: set[str] = set()
        self.read = 0
        self.unchanged = 0

    def find(self, path: str) -> str | None:
        """Return the hash of a file that has not changed; None for any other, and for a link."""
        return self._find(path, _describe(path))

    def find_open(self, path: str, state: os.stat_result) -> str | None:
        """Return the hash of an open file that has not changed; None for any other."""
        return self._find(path, _describe_state(state))

    def _find(self, path: str, state: str | None) -> str | None:
        entry = self._found.get(_name(path)) or self._known.get(_name(path))
        return None if entry is None or entry.inputs != state else entry.content

    def use(self, path: str, content: str) -> None:
        """Take what was read of a file for its content, whatever it held before or holds by now."""
        self._used[_name(path)] = content

    def hash(
        self, path: str, open_file: Callable[[], AbstractContextManager[BufferedReader]] | None = None
    ) -> str:
        """Return the SHA-256 of a file, in hexadecimal digits: of what was read of it, if anything was."""
        self._seen.add(_name(path))
        if _name(path) in self._used:
            return self._used[_name(path)]
        known = self.find(path)
        if known is not None:
            self.unchanged += 1
            return known
        self.read += 1
        started = time.time()
        with open(path, "rb") if open_file is None else open_file() as file:  # noqa: PTH123 - a Path takes longer
            before = os.fstat(file.fileno())
            content = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
        described = _describe_state(after)
        changed = max(after.st_mtime, after.st_ctime)
        if changed < started - self._settled_seconds and described == _describe_state(before) == _describe(
            path
        ):
            self._found[_name(path)] = Entry(described, content, 0)
        return content

    def save(self) -> None:
        """Store the new hashes, and drop those of files that were not requested."""
        self._catalog.forget(_FILES, self._known.keys() - self._seen)
        self._catalog.record(_FILES, self._found)

    def count(self) -> int:
        """Count the files that the last run remembered."""
        return len(self._known)

    def find_deviation(self) -> str | None:
        """Hash the remembered files that have not changed, and return the first with another content; None without."""
        for path, entry in sorted(self._known.items()):
            try:
                if self.find(path) is None:
                    continue
                with open(path, "rb") as file:  # noqa: PTH123 - a Path takes longer
                    if hashlib.file_digest(file, "sha256").hexdigest() != entry.content:
                        return path
            except OSError:
                continue  # the next run reads it, and reports it
        return None


def _name(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _describe(path: str) -> str | None:
    """Describe the state of a file; None for what is not a regular file, such as a link."""
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return _describe_state(state) if stat.S_ISREG(state.st_mode) else None


def _describe_state(state: os.stat_result) -> str:
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_dev} {state.st_ino}"
