"""Folders of post files, and one hash of the current content of all files that may be documents."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from backstory.base.ids import digest
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.sources.listing import hash_sources
from backstory.ingest.sources.roots import list_sources
from backstory.pipeline.workspace import Workspace

POST_FOLDERS: Final = "post_folders"
"""Name in the catalog of the folders that posts were written into."""


def hash_document_files(
    workspace: Workspace, apart: Collection[Path], hashes: FileHashes | None = None
) -> str:
    """Hash every file that may be a document: those of the folder of documents, and those of the further sources.

    Args:
        workspace: An open workspace.
        apart: Files and folders that are not documents, and are skipped.
        hashes: Hashes of files that have not changed; None for those that the last run remembered.

    Raises:
        SettingsError: The sources are invalid.
        WorkspaceError: The list of added sources is damaged.
    """
    roots = [source.root for source in list_sources(workspace)]
    known = FileHashes(workspace.catalog) if hashes is None else hashes
    posts = hash_documents(workspace.documents_dir, [*apart, *roots], known)
    further = hash_sources(workspace, apart, known)
    return digest([posts, further]) if further else posts


def hash_documents(folder: Path, apart: Collection[Path], hashes: FileHashes) -> str:
    """Hash the content of a folder of documents.

    Args:
        folder: The folder.
        apart: Files and folders inside it that are not documents, and are skipped.
        hashes: Hashes of files that have not changed, which are not read.

    Returns:
        A hash that differs when a file was added, removed, renamed or edited.
    """
    return digest(sorted(_hash_files(os.fspath(folder), {os.fspath(path) for path in apart}, hashes)))


def list_post_folders(workspace: Workspace) -> list[Path]:
    """List the folder of the posts, and those that ``writers.folder`` named when posts were written before."""
    names = {workspace.settings.writers.folder, *workspace.catalog.read(POST_FOLDERS)}
    return [workspace.root / name for name in sorted(names)]


def _hash_files(root: str, apart: Collection[str], hashes: FileHashes) -> Iterator[str]:
    """Yield path and hash of every file. One thread, because several are slower for small files."""
    real = os.path.realpath(root)
    for place, folders, names in os.walk(root):
        # Creating a Path for each of thousands of files takes as long as hashing it.
        folders[:] = [name for name in folders if os.path.join(place, name) not in apart]  # noqa: PTH118
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118
            if path not in apart and os.path.isfile(path):  # noqa: PTH113
                below = path[len(root) :]
                yield f"{os.fsencode(below)!r} {_hash_file(real + below, hashes)}"


def _hash_file(path: str, hashes: FileHashes) -> str:
    try:
        return hashes.hash(path)
    except OSError as error:
        return f"not readable: {error.strerror}"  # reading the documents reports this file
