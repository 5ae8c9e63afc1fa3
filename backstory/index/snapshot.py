"""A snapshot of the search index: an immutable folder of files, and the manifest with their sizes and checksums.

The arrays of vectors, texts and BM25 scores are mapped. ``chunks.arrow`` and ``documents.arrow`` hold everything else
that is told of a hit, and ``graph.duckdb`` the HNSW index, if DuckDB has one. Rows are ordered by the date of their
document, undated rows first, then by chunk id.

The ``CURRENT`` file names the published snapshot and is replaced atomically. A publishing process holds the folder's
lock. A shared lock of its manifest keeps a snapshot that a reader has open; all others are deleted.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from backstory.base.errors import NoIndexError, SearchIndexError, naming_faults_of_system
from backstory.base.files.arrays import map_array, view_array
from backstory.base.files.atomic import flush, lock
from backstory.index.calibration import DEFAULT_CALIBRATION, Calibration
from backstory.index.keywords import KeywordIndex
from backstory.index.terms import LanguageTerms, read_terms
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings
from backstory.text.words import NO_LANGUAGE

FORMAT: Final = 4
CURRENT_FILE: Final = "CURRENT"
MANIFEST_FILE: Final = "manifest.json"
VECTORS_FILE: Final = "vectors.npy"
TEXTS_FILE: Final = "texts.npy"
TEXT_BOUNDS_FILE: Final = "text_bounds.npy"
CHUNKS_FILE: Final = "chunks.arrow"
DOCUMENTS_FILE: Final = "documents.arrow"
TERMS_FOLDER: Final = "terms"
GRAPH_FILE: Final = "graph.duckdb"
REBUILD_COMMAND: Final = "backstory run"
UNPUBLISHED: Final = ".building-"
"""Start of the names of what is not published yet, which the next publication removes."""
_DISCARDED: Final = ".discarded-"
_LOCK_FILE: Final = ".lock"
_VERSION: Final = re.compile(rb"([0-9a-f]{16})\n")
_ROW_COLUMNS: Final = ["chunk_id", "document"]


class FileRecord(NamedTuple):
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


class Manifest(BaseModel):
    """Content and origin of a snapshot.

    ``main_stemmer`` is that of documents whose language is unclear. ``recall_at_5`` is the share of the exact best five
    that the HNSW index found when it was built; None without one. ``collection`` is that of a Milvus server, if one
    holds it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[4] = FORMAT
    version: str
    embedder_id: str
    dimension: int
    documents: int
    rows: int
    languages: tuple[LanguageTerms, ...] = ()
    mean_words: float = 0.0
    main_stemmer: str = NO_LANGUAGE
    settings: IndexSettings
    recall_at_5: float | None
    collection: str | None = None
    calibration: Calibration = DEFAULT_CALIBRATION
    files: dict[str, FileRecord]


def record_files(folder: Path) -> dict[str, FileRecord]:
    """Record size and checksum of every file of a snapshot except its manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST_FILE)
    return {
        path.relative_to(folder).as_posix(): FileRecord(path.stat().st_size, _hash_file(path))
        for path in paths
    }


def read_manifest(folder: Path) -> Manifest:
    """Read a snapshot's manifest; :class:`SearchIndexError` if it is absent, damaged or of another format."""
    try:
        return Manifest.model_validate_json((folder / MANIFEST_FILE).read_bytes())
    except FileNotFoundError as error:
        raise damaged(folder, MANIFEST_FILE, "is absent") from error
    except ValidationError as error:
        what = "cannot be read, or is of another version of Backstory"
        raise damaged(folder, MANIFEST_FILE, what) from error


def require_files(folder: Path, manifest: Manifest, *, checksums: bool = False) -> None:
    """Raise :class:`SearchIndexError` if the size of a file, or its checksum, is not that of the manifest."""
    for name, expected in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise damaged(folder, name, "is absent")
        if (size := path.stat().st_size) != expected.size:
            raise damaged(folder, name, f"has {size} bytes and should have {expected.size}")
        if checksums and _hash_file(path) != expected.sha256:
            raise damaged(folder, name, "differs from its checksum")


def find_damage(folder: Path, *, checksums: bool) -> str | None:
    """Compare a snapshot with its manifest; return the first damage as a message that says what to do."""
    try:
        require_files(folder, read_manifest(folder), checksums=checksums)
    except SearchIndexError as error:
        return str(error)
    return None


@contextmanager
def naming_damage(folder: Path, name: str) -> Iterator[None]:
    """Raise an error that a file of a snapshot causes as a :class:`SearchIndexError` that names the file."""
    try:
        with naming_faults_of_system(folder):
            yield
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise damaged(folder, name, f"cannot be read ({error})") from error


def damaged(folder: Path, name: str, what: str) -> SearchIndexError:
    """Make the error of a damaged file, which names what builds it again."""
    return SearchIndexError(
        f"search index {folder} is damaged: {name} {what}; delete that folder and run `{REBUILD_COMMAND}`",
        code="damaged_snapshot",
    )


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Snapshot:
    """An open snapshot, whose files have the sizes that were written; it is not deleted while it is open.

    Garbage collection closes it if nothing did before. ``rows`` has the id of each chunk, and the position of its
    document.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            descriptor = os.open(folder / MANIFEST_FILE, os.O_RDONLY)
        except FileNotFoundError as error:
            raise damaged(folder, MANIFEST_FILE, "is absent") from error
        self.close = weakref.finalize(self, os.close, descriptor)
        lock(descriptor, shared=True)
        self.manifest = read_manifest(folder)
        require_files(folder, self.manifest)
        self.vectors: Vectors = self._map(VECTORS_FILE, np.float32).reshape(
            self.manifest.rows, self.manifest.dimension
        )
        self.documents = self._read(DOCUMENTS_FILE)
        self.rows = self._read(CHUNKS_FILE, _ROW_COLUMNS)
        self._texts = self._map(TEXTS_FILE, np.uint8)
        with naming_damage(folder, TEXT_BOUNDS_FILE):
            # Read, since each mapping keeps its file open.
            self._bounds = view_array((folder / TEXT_BOUNDS_FILE).read_bytes(), np.int64)
        self._lock = threading.Lock()
        self._keywords: KeywordIndex | None = None

    @cached_property
    def chunks(self) -> pl.DataFrame:
        """Everything that is told of the chunks but their texts, in the order of the rows."""
        return self._read(CHUNKS_FILE)

    @property
    def keywords(self) -> KeywordIndex:
        """The words of the chunks, opened when a search first needs them."""
        with self._lock, naming_damage(self.folder, TERMS_FOLDER):
            if self._keywords is None:
                folder, manifest = self.folder / TERMS_FOLDER, self.manifest
                self._keywords = KeywordIndex(*read_terms(folder, manifest.languages, manifest.mean_words))
            return self._keywords

    def read_texts(self, rows: NDArray[np.int64]) -> list[str]:
        """Read the texts of some rows."""
        bounds = zip(self._bounds[rows].tolist(), self._bounds[rows + 1].tolist(), strict=True)
        with naming_damage(self.folder, TEXTS_FILE):
            return [self._texts[first:last].tobytes().decode() for first, last in bounds]

    def _map(self, name: str, dtype: DTypeLike) -> NDArray[Any]:
        with naming_damage(self.folder, name):
            return map_array(self.folder / name, dtype)

    def _read(self, name: str, columns: list[str] | None = None) -> pl.DataFrame:
        with naming_damage(self.folder, name), (self.folder / name).open("rb") as file:
            return pl.read_ipc(file, columns=columns)


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory that are searched like those of a :class:`Snapshot`, whose attributes they have."""

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

    def read_texts(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the texts of some rows."""
        return self.texts[rows].to_list()


def open_current(folder: Path) -> Snapshot:
    """Open the current snapshot of an index; :class:`NoIndexError` if nothing is published."""
    while version := current_version(folder):
        try:
            return Snapshot(folder / version)
        except SearchIndexError:
            # After the pointer was read, another process may have published a newer snapshot and deleted this one.
            if current_version(folder) == version:
                raise
    raise NoIndexError(
        f"no search index is published in {folder}; run `{REBUILD_COMMAND}`, or without chats `backstory add`"
    )


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


def find_moment(folder: Path) -> datetime | None:
    """Find when the current snapshot was published, by the clock of that machine; None if nothing is published."""
    try:
        return datetime.fromtimestamp(int((folder / CURRENT_FILE).stat().st_mtime), UTC)
    except FileNotFoundError:
        return None


@contextmanager
def publishing(folder: Path) -> Iterator[None]:
    """Hold the lock of an index's folder, which is made if absent; wait while another process publishes.

    What a killed publication left is deleted, and at the end all snapshots that are neither current nor open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("ab") as lock_file:
        lock(lock_file)
        _remove_hidden(folder)
        try:
            yield
            current = current_version(folder)
            for path in sorted(folder.glob("[!.]*/")):
                if path.name != current and not _is_open(path):
                    _hide(path)
        finally:
            _remove_hidden(folder)


def prune(folder: Path) -> None:
    """Delete the snapshots that were open when another one was published, and are not any more."""
    with publishing(folder):
        pass


def publish(folder: Path, version: str, built: Path | None) -> None:
    """Make a snapshot the current one, durably and in one step.

    ``built`` is its hidden folder, which replaces a damaged one of the same version; None if it is in its final folder.
    """
    target = folder / version
    if built is not None:
        for path in [*built.rglob("*"), built]:
            flush(path)
        if target.exists():
            _hide(target)
        built.rename(target)
        flush(folder)
    pointer = folder / f"{UNPUBLISHED}{CURRENT_FILE}"
    pointer.write_text(f"{version}\n", encoding="utf-8")
    flush(pointer)
    pointer.replace(folder / CURRENT_FILE)
    flush(folder)


def _is_open(snapshot: Path) -> bool:
    try:
        with (snapshot / MANIFEST_FILE).open("rb") as file:
            return not lock(file, wait=False)
    except FileNotFoundError:
        return False


def _hide(snapshot: Path) -> None:
    """Give a snapshot another name before it is deleted, so that half a one never has its own."""
    snapshot.rename(snapshot.with_name(f"{_DISCARDED}{snapshot.name}"))


def _remove_hidden(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.startswith((UNPUBLISHED, _DISCARDED)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
