"""One hash of the current content of the folder of documents and of the further sources."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from backstory.ids import digest
from backstory.sources import list_sources
from backstory.sources.listing import hash_sources
from backstory.workspace import Workspace

_BYTES_AT_ONCE = 1 << 20


def hash_document_files(workspace: Workspace, apart: Collection[Path]) -> str:
    """Hash every file that may be a document: those of the folder of documents, and those of the further sources.

    Args:
        workspace: An open workspace.
        apart: Files and folders that are not documents, and are skipped.

    Raises:
        SettingsError: The sources are invalid.
        WorkspaceError: The list of added sources is damaged.
    """
    roots = [source.root for source in list_sources(workspace)]
    posts = hash_posts(workspace.posts, [*apart, *roots])
    further = hash_sources(workspace, apart)
    return digest([posts, further]) if further else posts


def hash_posts(folder: Path, apart: Collection[Path]) -> str:
    """Hash every byte of a folder of documents. Sizes and modification times of files are not trusted.

    Args:
        folder: The folder.
        apart: Files and folders inside it that are not documents, and are skipped.

    Returns:
        A hash that differs when a file was added, removed, renamed or edited.
    """
    return digest(sorted(_hash_files(os.fspath(folder), {os.fspath(path) for path in apart})))


def _hash_files(root: str, apart: Collection[str]) -> Iterator[str]:
    """Yield path and hash of every file. One thread, because several are slower for small files."""
    for place, folders, names in os.walk(root):
        # Creating a Path for each of thousands of files takes as long as hashing it.
        folders[:] = [name for name in folders if os.path.join(place, name) not in apart]  # noqa: PTH118
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118
            if path not in apart and os.path.isfile(path):  # noqa: PTH113
                yield f"{os.fsencode(path[len(root) :])!r} {_hash_file(path)}"


def _hash_file(path: str) -> str:
    try:
        return _hash_content(path)
    except OSError as error:
        return f"not readable: {error.strerror}"  # reading the documents reports this file


def _hash_content(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        state = hashlib.sha256()
        while part := os.read(descriptor, _BYTES_AT_ONCE):
            state.update(part)
    finally:
        os.close(descriptor)
    return state.hexdigest()
