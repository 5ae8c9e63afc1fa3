"""A snapshot of the search index: an immutable folder of files, and the manifest with their checksums.

``index.duckdb`` holds documents and chunks, and the HNSW index with its vectors if there is one. ``vectors.npy`` holds
the vectors that the exact search maps, or the last of their shards (:mod:`backstory.index.snapshot.shards`).
``rows.arrow`` and ``documents.arrow`` hold the columns that filters and results need. ``keywords/`` holds the BM25
index. Rows are ordered by the document's date of publication, undated rows first, then by chunk id.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError

from backstory.base.errors import SearchIndexError
from backstory.base.files.atomic import lock
from backstory.index.calibration import DEFAULT_CALIBRATION, Calibration
from backstory.index.engines.language_terms import LanguageTerms
from backstory.index.snapshot.row_keys import KEYS_FILE
from backstory.index.snapshot.shards import ShardRecord, hash_file, open_vectors
from backstory.settings.models import IndexSettings

FORMAT = 3
# Formats 1 and 2 have no calibration. Their keyword index holds one language, and words that were found by other rules.
# Such a snapshot is described, and its documents are found, but it is not searched.
DESCRIBED_FORMATS = (1, 2, FORMAT)
MANIFEST_FILE = "manifest.json"
DATABASE_FILE = "index.duckdb"
ROWS_FILE = "rows.arrow"
DOCUMENTS_FILE = "documents.arrow"
KEYWORDS_FOLDER = "keywords"
REBUILD_COMMAND = "backstory run"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileRecord(_Record):
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


class HnswRecord(_Record):
    """The recall of the HNSW index, measured when it was built.

    Attributes:
        recall_at_5: Share of the exact best five that the index finds.
        sampled_rows: Number of queries, each made from a sampled row (:mod:`backstory.index.snapshot.recall`).
    """

    recall_at_5: float
    sampled_rows: int


class Manifest(_Record):
    """Content and origin of a snapshot.

    ``words`` and ``languages`` are those of the keyword index; ``shards`` are those of the vectors but the last.
    ``collection`` is that of a Milvus server, if one holds the HNSW index
    (:mod:`backstory.index.snapshot.served`).
    """

    format: int
    version: str
    embedder_id: str
    dimension: int
    documents: int
    rows: int
    words: int
    languages: tuple[LanguageTerms, ...] = ()
    settings: IndexSettings
    hnsw: HnswRecord | None
    collection: str | None = None
    calibration: Calibration = DEFAULT_CALIBRATION
    made_with: dict[str, str]
    shards: tuple[ShardRecord, ...] = ()
    files: dict[str, FileRecord]

    @property
    def hnsw_in_database(self) -> bool:
        """Whether the snapshot's database holds the HNSW index."""
        return self.hnsw is not None and self.settings.engine == "embedded"

    @property
    def keyless_collection(self) -> str | None:
        """The collection that an earlier version of Backstory gave this snapshot alone, if it did.

        Its rows have no keys, so it is not searched.
        """
        if self.hnsw is None or self.settings.engine != "milvus" or KEYS_FILE in self.files:
            return None
        # The first ones are not named in the manifest.
        return self.collection or f"backstory_{self.version}"


def record_files(folder: Path) -> dict[str, FileRecord]:
    """Record size and checksum of every file of a snapshot except its manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST_FILE)
    return {
        path.relative_to(folder).as_posix(): FileRecord(size=path.stat().st_size, sha256=hash_file(path))
        for path in paths
    }


def hash_manifest(folder: Path) -> str:
    """Return the SHA-256 of a snapshot's manifest.

    Raises:
        OSError: The manifest is absent or cannot be read.
    """
    return hash_file(folder / MANIFEST_FILE)


def find_damage(folder: Path, *, checksums: bool) -> str | None:
    """Compare a snapshot with its manifest.

    Args:
        folder: The snapshot.
        checksums: Whether to read every file and compare its checksum; otherwise only the sizes are compared.

    Returns:
        The first damage found, as a message that says what to do; None if there is none.
    """
    try:
        manifest = read_manifest(folder)
    except SearchIndexError as error:
        return str(error)
    damage = _find_damaged_file(folder, manifest.files, checksums=checksums)
    return None if damage is None else str(damage)


def read_manifest(folder: Path) -> Manifest:
    """Read a snapshot's manifest.

    Raises:
        SearchIndexError: The manifest is absent, damaged or of an unknown format.
    """
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST_FILE).read_bytes())
    except FileNotFoundError as error:
        raise _damaged(folder, MANIFEST_FILE, "is absent") from error
    except ValidationError as error:
        raise _damaged(folder, MANIFEST_FILE, "cannot be read") from error
    if manifest.format not in DESCRIBED_FORMATS:
        raise _of_another_format(folder, manifest)
    return manifest


def _of_another_format(folder: Path, manifest: Manifest) -> SearchIndexError:
    return SearchIndexError(
        f"search index {folder} has format {manifest.format}, and this version of Backstory searches format "
        f"{FORMAT}; run `{REBUILD_COMMAND}`",
        code="other_format",
        folder=folder,
        format=manifest.format,
    )


def _find_damaged_file(
    folder: Path, files: Mapping[str, FileRecord], *, checksums: bool
) -> SearchIndexError | None:
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            return _damaged(folder, name, "is absent")
        if (size := path.stat().st_size) != expected.size:
            return _damaged(folder, name, f"has {size} bytes and should have {expected.size}")
        if checksums and hash_file(path) != expected.sha256:
            return _damaged(folder, name, "differs from its checksum")
    return None


def _damaged(folder: Path, name: str, what: str) -> SearchIndexError:
    return SearchIndexError(
        f"search index {folder} is damaged: {name} {what}; delete that folder and run `{REBUILD_COMMAND}`",
        code="damaged_snapshot",
        folder=folder,
        name=name,
    )


class Snapshot:
    """An open snapshot, every file of which had its checksum when it was opened.

    While it is open, a shared lock on its manifest protects it from pruning. Garbage collection closes the snapshot if
    nothing closed it before.

    Args:
        folder: The snapshot's folder.

    Raises:
        SearchIndexError: The snapshot is absent, damaged or of an earlier format.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.close = weakref.finalize(self, os.close, _lock_manifest(folder))
        self.manifest = read_manifest(folder)
        if self.manifest.format != FORMAT:
            raise _of_another_format(folder, self.manifest)
        # Before any file is parsed: a parser may crash on a damaged one, or read other rows from it.
        if damage := _find_damaged_file(folder, self.manifest.files, checksums=True):
            raise damage
        manifest = self.manifest
        self.vectors = open_vectors(folder, manifest.shards, manifest.rows, manifest.dimension)
        self.rows = read_frame(folder / ROWS_FILE)
        self.documents = read_frame(folder / DOCUMENTS_FILE)


def _lock_manifest(folder: Path) -> int:
    try:
        descriptor = os.open(folder / MANIFEST_FILE, os.O_RDONLY)
    except FileNotFoundError as error:
        raise _damaged(folder, MANIFEST_FILE, "is absent") from error
    lock(descriptor, shared=True)
    return descriptor


@contextmanager
def closed_to_readers(folder: Path) -> Iterator[bool]:
    """Lock a snapshot against readers, so that it can be deleted.

    Yields:
        Whether the lock was taken; False if a process has the snapshot open.
    """
    try:
        file = (folder / MANIFEST_FILE).open("rb")
    except FileNotFoundError:
        yield True
        return
    with file:
        yield lock(file, wait=False)


def read_documents(folder: Path) -> pl.DataFrame:
    """Read the documents of a snapshot that is not open, after comparing them with their checksum.

    Raises:
        SearchIndexError: They, or the manifest, are absent or damaged.
    """
    record = read_manifest(folder).files.get(DOCUMENTS_FILE)
    if record is None:
        raise _damaged(folder, MANIFEST_FILE, f"does not name {DOCUMENTS_FILE}")
    if damage := _find_damaged_file(folder, {DOCUMENTS_FILE: record}, checksums=True):
        raise damage
    return read_frame(folder / DOCUMENTS_FILE)


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame as Arrow's file format, which :func:`read_frame` reads."""
    frame.write_ipc(path, compression="uncompressed")


def read_frame(path: Path) -> pl.DataFrame:
    """Read a frame that :func:`write_frame` wrote."""
    with path.open("rb") as file:
        return pl.read_ipc(file)
