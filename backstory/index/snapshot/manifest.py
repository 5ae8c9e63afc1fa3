"""A snapshot of the search index: an immutable folder of files, and the manifest with their sizes and checksums.

``vectors.npy``, ``texts.npy`` and the arrays of ``terms/`` are mapped: the vectors, the texts of the chunks one after
another with their bounds, and the BM25 scores. ``chunks.arrow`` and ``documents.arrow`` hold everything else that is
told of a hit. ``graph.duckdb`` holds the HNSW index, if DuckDB has one. Rows are ordered by the document's date of
publication, undated rows first, then by chunk id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError

from backstory.base.errors import SearchIndexError
from backstory.index.calibration import DEFAULT_CALIBRATION, Calibration
from backstory.index.engines.terms import LanguageTerms
from backstory.settings.models import IndexSettings
from backstory.text.stemmers import NO_LANGUAGE

FORMAT: Final = 4
MANIFEST_FILE: Final = "manifest.json"
VECTORS_FILE: Final = "vectors.npy"
TEXTS_FILE: Final = "texts.npy"
TEXT_BOUNDS_FILE: Final = "text_bounds.npy"
CHUNKS_FILE: Final = "chunks.arrow"
DOCUMENTS_FILE: Final = "documents.arrow"
TERMS_FOLDER: Final = "terms"
GRAPH_FILE: Final = "graph.duckdb"
REBUILD_COMMAND: Final = "backstory run"


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
        sampled_rows: Number of queries, each made from a sampled row (:mod:`backstory.index.engines.graph`).
    """

    recall_at_5: float
    sampled_rows: int

    def describe(self) -> str:
        """Describe the measured recall in words."""
        return f"the HNSW index finds {self.recall_at_5:.1%} of the best five of {self.sampled_rows} queries"


class Manifest(_Record):
    """Content and origin of a snapshot.

    ``languages`` and ``mean_words`` are those of the keyword index, and ``main_stemmer`` is that of documents whose
    language is unclear. ``collection`` is that of a Milvus server, if one holds the HNSW index.
    """

    format: int
    version: str
    embedder_id: str
    dimension: int
    documents: int
    rows: int
    languages: tuple[LanguageTerms, ...] = ()
    mean_words: float = 0.0
    main_stemmer: str = NO_LANGUAGE
    settings: IndexSettings
    hnsw: HnswRecord | None
    collection: str | None = None
    calibration: Calibration = DEFAULT_CALIBRATION
    made_with: dict[str, str]
    files: dict[str, FileRecord]


def record_files(folder: Path) -> dict[str, FileRecord]:
    """Record size and checksum of every file of a snapshot except its manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST_FILE)
    return {
        path.relative_to(folder).as_posix(): FileRecord(size=path.stat().st_size, sha256=_hash_file(path))
        for path in paths
    }


def read_manifest(folder: Path) -> Manifest:
    """Read a snapshot's manifest.

    Raises:
        SearchIndexError: The manifest is absent, damaged or of another format.
    """
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST_FILE).read_bytes())
    except FileNotFoundError as error:
        raise damaged(folder, MANIFEST_FILE, "is absent") from error
    except ValidationError as error:
        raise damaged(
            folder, MANIFEST_FILE, "cannot be read, or is of another version of Backstory"
        ) from error
    if manifest.format != FORMAT:
        raise damaged(folder, MANIFEST_FILE, f"has format {manifest.format}, and this version reads {FORMAT}")
    return manifest


def require_files(folder: Path, manifest: Manifest, *, checksums: bool = False) -> None:
    """Compare the files of a snapshot with its manifest.

    Args:
        folder: The snapshot.
        manifest: Its manifest.
        checksums: Whether every file is read, and not only its size.

    Raises:
        SearchIndexError: A file is absent, or differs.
    """
    for name, expected in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise damaged(folder, name, "is absent")
        if (size := path.stat().st_size) != expected.size:
            raise damaged(folder, name, f"has {size} bytes and should have {expected.size}")
        if checksums and _hash_file(path) != expected.sha256:
            raise damaged(folder, name, "differs from its checksum")


def find_damage(folder: Path, *, checksums: bool) -> str | None:
    """Compare a snapshot with its manifest.

    Args:
        folder: The snapshot.
        checksums: Whether every file is read, and not only its size.

    Returns:
        The first damage found, as a message that says what to do; None if there is none.
    """
    try:
        require_files(folder, read_manifest(folder), checksums=checksums)
    except SearchIndexError as error:
        return str(error)
    return None


@contextmanager
def naming_damage(folder: Path, name: str) -> Iterator[None]:
    """Raise an error that a file of a snapshot causes as one that names the file.

    Raises:
        SearchIndexError: The file cannot be read.
    """
    try:
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
