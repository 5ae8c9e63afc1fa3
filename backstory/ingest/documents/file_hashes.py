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
from pathlib import Path
from typing import Final

from backstory.ingest.walk import ListedFile
from backstory.storage.tables.catalog import Catalog, Entry

SETTLED_SECONDS: Final = 3.0
"""Age of the last change from which a file is remembered. FAT keeps times of two seconds, the coarsest of all."""

_FILES: Final = "document_files"


class FileHashes:
    """The hashes of files that an earlier run read, and how many of them are ``unchanged``."""

    def __init__(self, catalog: Catalog, *, settled_seconds: float = SETTLED_SECONDS) -> None:
        self._catalog = catalog
        self._settled_seconds = settled_seconds
        self._known = dict(catalog.read(_FILES))
        self._found: dict[str, Entry] = {}
        self._used: dict[str, str] = {}
        self._seen: set[str] = set()
        self.unchanged = 0

    def find(self, path: Path | str) -> str | None:
        """Return the hash of a file that has not changed; None for any other, and for a link."""
        entry = self._found.get(_name(path)) or self._known.get(_name(path))
        return None if entry is None or entry.inputs != _describe(path)[0] else entry.content

    def use(self, file: ListedFile, content: str) -> None:
        """Take what was read of a file for its content, whatever it held before or holds by now."""
        self._used[_name(file.path)] = content

    def hash(self, file: ListedFile) -> str:
        """Return the SHA-256 of a file, in hexadecimal digits: of what was read of it, if anything was."""
        name = _name(file.path)
        self._seen.add(name)
        if name in self._used:
            return self._used[name]
        known = self.find(file.path)
        if known is not None:
            self.unchanged += 1
            return known
        started = time.time()
        state, changed = _describe(file.path)
        with file.open() as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        is_settled = changed < started - self._settled_seconds and state == _describe(file.path)[0]
        if state is not None and is_settled:
            self._found[name] = Entry(state, content, 0)
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
                if self.find(path) is not None:
                    with Path(path).open("rb") as file:
                        if hashlib.file_digest(file, "sha256").hexdigest() != entry.content:
                            return path
            except OSError:
                continue  # the next run reads it, and reports it
        return None


def _name(path: Path | str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _describe(path: Path | str) -> tuple[str | None, float]:
    """Describe the state of a file, with the time of its last change; nothing of what is no regular file, as a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None, 0.0
    state = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_dev} {found.st_ino}"
    return (state if stat.S_ISREG(found.st_mode) else None), max(found.st_mtime, found.st_ctime)
