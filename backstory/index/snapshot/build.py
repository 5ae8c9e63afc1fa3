"""Chunks and vectors -> a published snapshot of the search index."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import polars as pl

from backstory.base.errors import SearchIndexError
from backstory.index.calibration import DEFAULT_CALIBRATION, Calibration
from backstory.index.engines.keyword_files import CountedRows, write_keywords
from backstory.index.engines.vss import VssEngine
from backstory.index.snapshot import publication, served
from backstory.index.snapshot.content import Content, arrange
from backstory.index.snapshot.database import Database, write_database
from backstory.index.snapshot.manifest import (
    DATABASE_FILE,
    DOCUMENTS_FILE,
    FORMAT,
    KEYWORDS_FOLDER,
    MANIFEST_FILE,
    ROWS_FILE,
    HnswRecord,
    Manifest,
    find_damage,
    read_manifest,
    record_files,
    write_frame,
)
from backstory.index.snapshot.recall import measure_recall
from backstory.index.snapshot.row_keys import ToldRows
from backstory.index.snapshot.shards import StoredVectors, open_vectors, write_vectors
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexBuild:
    """The outcome of a build.

    Attributes:
        version: Version of the snapshot that is current now.
        rows: Number of indexed chunks.
        documents: Number of indexed documents.
        built: Whether a snapshot was built; False if one of this version existed.
        seconds: Duration.
        recall: Share of the exact best five that the HNSW index finds, or None if there is no HNSW index.
        uploaded: Number of rows that were sent to a Milvus server.
        folder: Folder of the snapshot.
    """

    version: str
    rows: int
    documents: int
    built: bool
    seconds: float
    recall: float | None
    uploaded: int
    folder: Path


def build_index(
    folder: Path,
    documents: pl.DataFrame,
    document_chunks: pl.DataFrame,
    vectors: Vectors,
    *,
    embedder_id: str,
    settings: IndexSettings,
    languages: Mapping[str, str | None] | None = None,
    calibration: Calibration = DEFAULT_CALIBRATION,
) -> IndexBuild:
    """Build and publish a snapshot, unless the current snapshot has the same content.

    The version is a hash of content and settings. The snapshot is built in a hidden folder, checked, and published
    in one step: a process that is killed at any point leaves the earlier snapshot current and whole.

    Args:
        folder: The folder of the index; made if absent.
        documents: Rows of :class:`backstory.storage.tables.schemas.Documents`; only those with status ``ok``
            are indexed.
        document_chunks: Rows of :class:`backstory.storage.tables.schemas.DocumentChunks`; chunks of revisions
            that are not indexed are dropped.
        vectors: Unit rows in the order of ``document_chunks``, float32, shape ``(chunks, dimension)``.
        embedder_id: Name of the vectors' embedding space.
        settings: How to build the index and how many snapshots to keep.
        languages: Language of each searched document by id, ISO 639-1, None if unclear; by default they are detected.
        calibration: The constants of the embedding space, from :func:`backstory.index.calibration.calibrate`.

    Returns:
        The version, counts, duration and recall of the current snapshot.

    Raises:
        InputError: The vectors do not fit the chunks, or are not finite unit rows of float32.
        ContractError: A chunk's document is absent, or a document or chunk occurs twice.
        SettingsError: There is no stemmer for the language.
        SearchIndexError: The written database does not hold all documents and chunks.
    """
    content = arrange(documents, document_chunks, vectors, embedder_id, settings, languages)
    return publish_content(folder, content, calibration)


def publish_content(
    folder: Path,
    content: Content,
    calibration: Calibration,
    rows: CountedRows | None = None,
    *,
    interim: bool = False,
) -> IndexBuild:
    """Build and publish a snapshot of content that is arranged; see :func:`build_index`.

    Args:
        folder: The folder of the index; made if absent.
        content: The content.
        calibration: The constants of the embedding space.
        rows: Those of its rows that count for the scores of words, if they were counted before.
        interim: Whether another publication follows soon. Until then, servers keep what it may need.

    Raises:
        SettingsError: There is no stemmer for the language.
        SearchIndexError: The written database does not hold all documents and chunks.
    """
    started = time.perf_counter()
    version = content.hash(calibration.model_dump_json())
    uploaded = 0
    with publication.publishing(folder):
        target = folder / version
        built = find_damage(target, checksums=True) is not None or not served.is_served(target)
        if built:
            unpublished = publication.start_snapshot(folder, version)
            uploaded = _write_snapshot(unpublished, content, version, calibration, rows)
            publication.publish(folder, version, unpublished)
        elif publication.current_version(folder) != version or publication.find_history_damage(folder):
            publication.publish(folder, version, None)
        pruned = publication.prune(folder, content.settings.keep_snapshots, on_server=not interim)
        hnsw = read_manifest(target).hnsw
    build = IndexBuild(
        version=version,
        rows=content.chunks.height,
        documents=content.documents.height,
        built=built,
        seconds=time.perf_counter() - started,
        recall=None if hnsw is None else hnsw.recall_at_5,
        uploaded=uploaded,
        folder=target,
    )
    logger.info(
        "search index version=%s rows=%d built=%s uploaded=%d seconds=%.2f pruned=%d",
        version,
        build.rows,
        built,
        uploaded,
        build.seconds,
        len(pruned),
        extra={
            "version": version,
            "rows": build.rows,
            "built": built,
            "uploaded": uploaded,
            "pruned": len(pruned),
        },
    )
    return build


def _write_snapshot(
    folder: Path, content: Content, version: str, calibration: Calibration, rows: CountedRows | None
) -> int:
    """Write the files of a snapshot, and return the number of rows that were sent to a server."""
    shards = write_vectors(folder, content.vectors, content.chunks["chunk_id"], content.source)
    vectors = open_vectors(folder, shards, content.chunks.height, content.vectors.shape[1])
    write_frame(folder / ROWS_FILE, content.rows)
    write_frame(folder / DOCUMENTS_FILE, content.filtered)
    hnsw_settings = content.settings if content.has_hnsw else None
    write_database(folder / DATABASE_FILE, content.documents, content.stored, vectors, hnsw_settings)
    (folder / KEYWORDS_FOLDER).mkdir()
    languages = write_keywords(folder / KEYWORDS_FOLDER, **content.searched, rows=rows)
    hnsw = _check_database(folder / DATABASE_FILE, content, vectors)
    collection, uploaded = None, 0
    if content.is_in_milvus:
        collection = served.choose_collection(
            folder.parent, content.settings, content.embedder_id, vectors.shape[1]
        )
        hnsw, uploaded = _upload(folder, content, version, collection, vectors)
    manifest = Manifest(
        format=FORMAT,
        version=version,
        embedder_id=content.embedder_id,
        dimension=vectors.shape[1],
        documents=content.documents.height,
        rows=content.chunks.height,
        words=sum(language.terms for language in languages),
        languages=languages,
        settings=content.settings,
        hnsw=hnsw,
        collection=collection,
        calibration=calibration,
        made_with={
            name: _installed_version(name)
            for name in ("backstory", "bm25s", "duckdb", "duckdb-extension-vss")
        },
        shards=tuple(shards),
        files=record_files(folder),
    )
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return uploaded


def _check_database(path: Path, content: Content, vectors: StoredVectors) -> HnswRecord | None:
    """Open the database as a reader does, count its rows, and measure the recall of its HNSW index."""
    with Database(path, has_hnsw=content.has_hnsw) as database:
        counts = database.count_rows()
        if counts != (content.documents.height, content.chunks.height):
            raise SearchIndexError(
                f"{path} holds {counts[0]} documents and {counts[1]} chunks after writing "
                f"{content.documents.height} and {content.chunks.height}; build the index again",
                code="incompletely_written",
                path=path,
            )
        if not content.has_hnsw:
            return None
        return measure_recall(VssEngine(database, vectors, content.settings.ef_search), vectors)


def _upload(
    folder: Path, content: Content, version: str, collection: str, vectors: StoredVectors
) -> tuple[HnswRecord, int]:
    """Send the rows that the Milvus server lacks, and measure the recall. Return the record and the number of rows."""
    from backstory.index.engines.milvus import MilvusEngine

    settings = content.settings
    rows = ToldRows(vectors, content.moments, content.tenants)
    rows.keys.write(folder)
    uploaded = served.upload_rows(folder.parent, version, settings, collection, rows)
    alias = served.name_alias(collection, version)
    with closing(MilvusEngine(settings, alias, vectors, rows.keys, rows.moments)) as engine:
        return measure_recall(engine, vectors), uploaded


@cache
def _installed_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
