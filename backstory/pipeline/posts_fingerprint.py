"""What the folder of documents holds now, as one hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from backstory.ids import digest

_BYTES_AT_ONCE = 1 << 20


def hash_posts(folder: Path, apart: Collection[Path]) -> str:
    """Hash every byte of a folder of documents; nothing is believed of a file's size or time.

    Args:
        folder: The folder.
        apart: Files and folders in it that belong to something else.

    Returns:
        A hash that differs when a file was added, removed, renamed or edited.
    """
    return digest(sorted(_hash_files(os.fspath(folder), {os.fspath(path) for path in apart})))


def _hash_files(root: str, apart: Collection[str]) -> Iterator[str]:
    """Give path and hash of every file; in one thread, since more of them take longer for small files."""
    for place, folders, names in os.walk(root):
        # A Path for each of thousands of files takes as long as its hash.
        folders[:] = [name for name in folders if os.path.join(place, name) not in apart]  # noqa: PTH118
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118
            if path not in apart and os.path.isfile(path):  # noqa: PTH113
                yield f"{os.fsencode(path[len(root) :])!r} {_hash_file(path)}"


def _hash_file(path: str) -> str:
    try:
        return _hash_content(path)
    except OSError as error:
        return f"not readable: {error.strerror}"  # reading the documents says so of the file


def _hash_content(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        state = hashlib.sha256()
        while part := os.read(descriptor, _BYTES_AT_ONCE):
            state.update(part)
    finally:
        os.close(descriptor)
    return state.hexdigest()
