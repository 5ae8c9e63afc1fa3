"""Publication of snapshots: the ``CURRENT`` file names the current one and is replaced atomically.

A publishing process holds the folder's lock. Readers need no lock to find the current snapshot, and a shared lock of
its manifest keeps one that they have open. All others are deleted.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import NoIndexError, SearchIndexError
from backstory.base.files.arrays import map_array, view_array
from backstory.base.files.atomic import flush, lock
from backstory.index.engines.scope import list_moments
from backstory.index.snapshot.manifest import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    GRAPH_FILE,
    MANIFEST_FILE,
    REBUILD_COMMAND,
    TERMS_FOLDER,
    TEXT_BOUNDS_FILE,
    TEXTS_FILE,
    VECTORS_FILE,
    Manifest,
    damaged,
    naming_damage,
    read_manifest,
    require_files,
)
from backstory.models.embeddings.protocol import Vectors

if TYPE_CHECKING:  # loaded when they are first needed
    from backstory.index.engines.graph import Graph
    from backstory.index.engines.keywords import KeywordIndex

CURRENT_FILE: Final = "CURRENT"
UNPUBLISHED: Final = ".building-"
"""Start of the names of what is not published yet, which the next publication removes."""
_DISCARDED: Final = ".discarded-"
_LOCK_FILE: Final = ".lock"
_VERSION: Final = re.compile(rb"([0-9a-f]{16})\n")
_ROW_COLUMNS: Final = ["chunk_id", "document"]


class Snapshot:
    """An open snapshot, whose files have the sizes that were written.

    While it is open, it is not deleted. Garbage collection closes the snapshot if nothing closed it before.

    Args:
        folder: The snapshot's folder.

    Attributes:
        manifest: Content and origin.
        vectors: Vectors of the rows, mapped.
        documents: The documents by id: what filters need, and what is told of them.
        rows: Id of each chunk, and position of its document.

    Raises:
        SearchIndexError: The snapshot is absent, damaged or of another format.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.close = weakref.finalize(self, os.close, _lock_manifest(folder))
        self.manifest = read_manifest(folder)
        require_files(folder, self.manifest)
        self.vectors = self._map(VECTORS_FILE)
        self.documents = self._read(DOCUMENTS_FILE)
        self.rows = self._read(CHUNKS_FILE, _ROW_COLUMNS)
        self._texts = self._map(TEXTS_FILE)
        with naming_damage(folder, TEXT_BOUNDS_FILE):
            # Read, since each mapping keeps its file open.
            self._bounds, _ = view_array((folder / TEXT_BOUNDS_FILE).read_bytes())

    def read_chunks(self) -> pl.DataFrame:
        """Read everything that is told of the chunks but their texts, in the order of the rows."""
        return self._read(CHUNKS_FILE)

    def read_keywords(self) -> KeywordIndex:
        """Open the keyword index."""
        # Imported late, since a search by vectors alone does not need it.
        from backstory.index.engines.keyword_scores import read_keywords

        with naming_damage(self.folder, TERMS_FOLDER):
            return read_keywords(
                self.folder / TERMS_FOLDER, self.manifest.languages, self.manifest.mean_words
            )

    def open_graph(self) -> Graph:
        """Open the HNSW index, which the caller closes.

        Raises:
            SearchIndexError: It is damaged, or cannot be used.
        """
        settings = self.manifest.settings
        if self.manifest.collection is None:
            from backstory.index.engines.vss import VssGraph

            with naming_damage(self.folder, GRAPH_FILE):
                return VssGraph(self.folder / GRAPH_FILE, self.vectors, settings.ef_search)
        from backstory.index.engines.milvus import Collection, MilvusGraph

        collection = Collection(settings, self.manifest.collection)
        moments = list_moments(self.documents)[self.rows["document"].to_numpy()]
        chunk_ids, version = self.rows["chunk_id"], self.manifest.version
        return MilvusGraph(collection, version, self.vectors, chunk_ids, moments, settings.ef_search)

    def read_texts(self, rows: NDArray[np.int64]) -> list[str]:
        """Read the texts of some rows."""
        bounds = zip(self._bounds[rows].tolist(), self._bounds[rows + 1].tolist(), strict=True)
        with naming_damage(self.folder, TEXTS_FILE):
            return [self._texts[first:last].tobytes().decode() for first, last in bounds]

    def _map(self, name: str) -> NDArray[Any]:
        with naming_damage(self.folder, name):
            return map_array(self.folder / name)

    def _read(self, name: str, columns: list[str] | None = None) -> pl.DataFrame:
        with naming_damage(self.folder, name), (self.folder / name).open("rb") as file:
            return pl.read_ipc(file, columns=columns)


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory that are searched like those of a :class:`Snapshot`, whose attributes they have.

    Attributes:
        chunks: What is told of the chunks but their texts.
        texts: The texts.
        keywords: The keyword index.
    """

    manifest: Manifest
    vectors: Vectors
    documents: pl.DataFrame
    chunks: pl.DataFrame
    texts: pl.Series
    keywords: KeywordIndex

    @property
    def rows(self) -> pl.DataFrame:
        """Id of each chunk, and position of its document."""
        return self.chunks.select(_ROW_COLUMNS)

    def close(self) -> None:
        """Do nothing: no file is open."""

    def read_chunks(self) -> pl.DataFrame:
        """Read everything that is told of the chunks but their texts, in the order of the rows."""
        return self.chunks

    def read_texts(self, rows: NDArray[np.int64]) -> list[str]:
        """Read the texts of some rows."""
        return self.texts[rows].to_list()

    def read_keywords(self) -> KeywordIndex:
        """Return the keyword index."""
        return self.keywords


def _lock_manifest(folder: Path) -> int:
    try:
        descriptor = os.open(folder / MANIFEST_FILE, os.O_RDONLY)
    except FileNotFoundError as error:
        raise damaged(folder, MANIFEST_FILE, "is absent") from error
    lock(descriptor, shared=True)
    return descriptor


def open_current(folder: Path) -> Snapshot:
    """Open the current snapshot.

    Raises:
        NoIndexError: No snapshot is published.
        SearchIndexError: The snapshot is damaged.
    """
    version = require_current(folder)
    while True:
        try:
            return Snapshot(folder / version)
        except SearchIndexError:
            # After the pointer was read, another process may have published a newer snapshot and deleted this one.
            newer = require_current(folder)
            if newer == version:
                raise
            version = newer


def current_version(folder: Path) -> str:
    """Return the version of the current snapshot, or an empty string if nothing is published.

    A pointer that is damaged points to nothing, as one that is gone: the next build publishes its snapshot again.
    """
    try:
        written = (folder / CURRENT_FILE).read_bytes()
    except FileNotFoundError:
        return ""
    named = _VERSION.fullmatch(written)
    return named[1].decode() if named else ""


def has_pointer(folder: Path) -> bool:
    """Return whether anything was published into a folder, whether or not it can be opened."""
    return (folder / CURRENT_FILE).exists()


def require_current(folder: Path) -> str:
    """Return the version of the current snapshot.

    Raises:
        NoIndexError: Nothing is published.
        SearchIndexError: The pointer to the current snapshot is damaged.
    """
    version = current_version(folder)
    if not version and has_pointer(folder):
        raise SearchIndexError(
            f"{folder / CURRENT_FILE} is damaged; run `{REBUILD_COMMAND}`", code="damaged_publication"
        )
    if not version:
        raise NoIndexError(
            f"no search index is published in {folder}; run `{REBUILD_COMMAND}`, or without chats `backstory add`"
        )
    return version


def find_moment(folder: Path) -> datetime | None:
    """Find when the current snapshot was published, by the clock of that machine; None if nothing is published."""
    try:
        return datetime.fromtimestamp(int((folder / CURRENT_FILE).stat().st_mtime), UTC)
    except FileNotFoundError:
        return None


@contextmanager
def publishing(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, and wait for it while another process publishes.

    Leftovers of a killed publication are removed, and at the end those of one that failed.

    Args:
        folder: The folder of the index; made if absent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("ab") as lock_file:
        lock(lock_file)
        _remove_leftovers(folder)
        try:
            yield
        finally:
            _remove_leftovers(folder)


def start_snapshot(folder: Path, version: str) -> Path:
    """Make a hidden folder to build a snapshot in, which readers ignore."""
    path = folder / f"{UNPUBLISHED}{version}"
    path.mkdir()
    return path


def publish(folder: Path, version: str, built: Path | None) -> None:
    """Make a snapshot the current one, durably and in one step.

    Args:
        folder: The folder of the index.
        version: The snapshot's version.
        built: Folder from :func:`start_snapshot` with the built snapshot, which replaces a damaged one of the same
            version; None if the snapshot is in its final folder.
    """
    target = folder / version
    if built is not None:
        for path in [*built.rglob("*"), built]:
            flush(path)
        if target.exists():
            _discard(folder, target)
        built.rename(target)
        flush(folder)
    pointer = folder / f"{UNPUBLISHED}{CURRENT_FILE}"
    pointer.write_text(f"{version}\n", encoding="utf-8")
    flush(pointer)
    pointer.replace(folder / CURRENT_FILE)
    flush(folder)


def prune(folder: Path) -> list[str]:
    """Delete all snapshots but the current one and those that a process has open.

    Returns:
        Versions of the deleted snapshots.
    """
    current = current_version(folder)
    deleted = []
    for path in sorted(folder.glob("[!.]*/")):
        if path.name != current:
            with _closed_to_readers(path) as is_closed:
                if is_closed:
                    _discard(folder, path)
                    deleted.append(path.name)
    return deleted


@contextmanager
def _closed_to_readers(folder: Path) -> Iterator[bool]:
    """Lock a snapshot against readers; yield False if a process has it open."""
    try:
        file = (folder / MANIFEST_FILE).open("rb")
    except FileNotFoundError:
        yield True
        return
    with file:
        yield lock(file, wait=False)


def _remove_leftovers(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.startswith((UNPUBLISHED, _DISCARDED)):
            _remove(path)


def _discard(folder: Path, snapshot: Path) -> None:
    # Renamed before deletion, so that a killed process never leaves half a snapshot under its name.
    discarded = folder / f"{_DISCARDED}{snapshot.name}"
    snapshot.rename(discarded)
    _remove(discarded)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
