"""Chunks and vectors -> a published snapshot of the search index."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.files.arrays import map_array
from backstory.base.telemetry.logs import log_event
from backstory.index.calibration import DEFAULT_CALIBRATION, Calibration
from backstory.index.engines.graph import Graph
from backstory.index.engines.keyword_scores import count_rows, order_entries, score_rows, write_keywords
from backstory.index.engines.scope import list_moments
from backstory.index.engines.vss import VssGraph, write_graph
from backstory.index.snapshot import publication
from backstory.index.snapshot.collection import choose_collection, is_served, release_collection
from backstory.index.snapshot.content import Content, arrange
from backstory.index.snapshot.manifest import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    FORMAT,
    GRAPH_FILE,
    MANIFEST_FILE,
    TERMS_FOLDER,
    TEXT_BOUNDS_FILE,
    TEXTS_FILE,
    VECTORS_FILE,
    HnswRecord,
    Manifest,
    find_damage,
    read_manifest,
    record_files,
)
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

    The version is a hash of content and settings. The snapshot is built in a hidden folder, and published in one step:
    a process that is killed at any point leaves the earlier snapshot current and whole.

    Args:
        folder: The folder of the index; made if absent.
        documents: Rows of :class:`backstory.storage.tables.schemas.Documents`; only those with status ``ok``
            are indexed.
        document_chunks: Rows of :class:`backstory.storage.tables.schemas.DocumentChunks`; chunks of revisions
            that are not indexed are dropped.
        vectors: Unit rows in the order of ``document_chunks``, float32, shape ``(chunks, dimension)``.
        embedder_id: Name of the vectors' embedding space.
        settings: How to build the index.
        languages: Language of each searched document by id, ISO 639-1, None if unclear; by default they are detected.
        calibration: The constants of the embedding space, from :func:`backstory.index.calibration.calibrate`.

    Returns:
        The version, counts, duration and recall of the current snapshot.

    Raises:
        InputError: The vectors do not fit the chunks, or are not finite unit rows of float32.
        ContractError: A chunk's document is absent, or a document or chunk occurs twice.
        SettingsError: There is no stemmer for the language.
        SearchIndexError: A Milvus server cannot be used, or the extension of DuckDB is not installed.
    """
    content = arrange(documents, document_chunks, vectors, embedder_id, settings, languages)
    return publish_content(folder, content, calibration)


def publish_content(folder: Path, content: Content, calibration: Calibration) -> IndexBuild:
    """Build and publish a snapshot of content that is arranged; see :func:`build_index`.

    Args:
        folder: The folder of the index; made if absent.
        content: The content.
        calibration: The constants of the embedding space.

    Raises:
        SettingsError: There is no stemmer for the language.
        SearchIndexError: A Milvus server cannot be used, or the extension of DuckDB is not installed.
    """
    started = time.perf_counter()
    version = content.hash(calibration.model_dump_json())
    uploaded = 0
    with publication.publishing(folder):
        target = folder / version
        is_built = find_damage(target, checksums=False) is not None or not is_served(target)
        if is_built:
            unpublished = publication.start_snapshot(folder, version)
            uploaded = _write_snapshot(unpublished, content, version, calibration)
            publication.publish(folder, version, unpublished)
        elif publication.current_version(folder) != version:
            publication.publish(folder, version, None)
        publication.prune(folder)
        if content.settings.engine != "milvus":
            release_collection(folder)
    hnsw = read_manifest(target).hnsw
    build = IndexBuild(
        version=version,
        rows=content.chunks.height,
        documents=content.documents.height,
        built=is_built,
        seconds=time.perf_counter() - started,
        recall=None if hnsw is None else hnsw.recall_at_5,
        uploaded=uploaded,
        folder=target,
    )
    figures = {"version": version, "rows": build.rows, "built": is_built, "uploaded": uploaded}
    log_event(logger, "search index", figures, seconds=build.seconds)
    return build


def _write_snapshot(folder: Path, content: Content, version: str, calibration: Calibration) -> int:
    """Write the files of a snapshot, and return the number of rows that were sent to a server."""
    shape = (content.chunks.height, content.vectors.shape[1])
    _write_array(folder / VECTORS_FILE, np.float32, shape, content.read_vectors())
    bounds = np.zeros(len(content.chunks) + 1, np.int64)
    np.cumsum(content.chunks["text"].str.len_bytes(), out=bounds[1:])
    np.save(folder / TEXT_BOUNDS_FILE, bounds)
    texts = (np.frombuffer(texts, np.uint8) for texts in content.read_texts())
    _write_array(folder / TEXTS_FILE, np.uint8, (int(bounds[-1]),), texts)
    content.told.write_ipc(folder / CHUNKS_FILE, compression="uncompressed")
    content.documents.write_ipc(folder / DOCUMENTS_FILE, compression="uncompressed")
    statistics, counted = count_rows(content.list_rows(by_people=True))
    others = score_rows(content.list_rows(by_people=False), statistics)
    write_keywords(folder / TERMS_FOLDER, order_entries([counted, others], statistics), statistics)
    vectors = map_array(folder / VECTORS_FILE)
    hnsw, collection, uploaded = None, None, 0
    if content.has_graph and content.settings.engine == "milvus":
        collection = choose_collection(folder.parent, content.settings, content.embedder_id, shape[1])
        hnsw, uploaded = _upload(content, version, collection, vectors)
    elif content.has_graph:
        write_graph(folder / GRAPH_FILE, vectors, content.settings)
        hnsw = _measure(VssGraph(folder / GRAPH_FILE, vectors, content.settings.ef_search))
    manifest = Manifest(
        format=FORMAT,
        version=version,
        embedder_id=content.embedder_id,
        dimension=shape[1],
        documents=content.documents.height,
        rows=shape[0],
        languages=statistics.languages,
        mean_words=statistics.mean_words,
        main_stemmer=content.main_stemmer,
        settings=content.settings,
        hnsw=hnsw,
        collection=collection,
        calibration=calibration,
        made_with={
            name: _installed_version(name) for name in ("backstory", "duckdb", "duckdb-extension-vss")
        },
        files=record_files(folder),
    )
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return uploaded


def _upload(content: Content, version: str, name: str, vectors: Vectors) -> tuple[HnswRecord, int]:
    """Send the rows that a server lacks, and measure the recall. Return the record and the number of rows."""
    from backstory.index.engines.milvus import Collection, MilvusGraph, tell_rows

    collection = Collection(content.settings, name)
    chunk_ids, moments = content.chunks["chunk_id"], list_moments(content.documents)[content.told["document"]]
    graph = MilvusGraph(collection, version, vectors, chunk_ids, moments, content.settings.ef_search)
    try:
        uploaded = collection.upload(
            version, tell_rows(content.told, content.documents, vectors), vectors.shape[1]
        )
    except BaseException:
        graph.close()
        raise
    return _measure(graph), uploaded


def _measure(graph: Graph) -> HnswRecord:
    """Measure the recall of a graph, and close it."""
    with closing(graph):
        recall, sampled = graph.measure_recall()
    return HnswRecord(recall_at_5=recall, sampled_rows=sampled)


def _write_array(
    path: Path, kind: type[np.generic], shape: tuple[int, ...], blocks: Iterable[NDArray[Any]]
) -> None:
    """Write an array block by block.

    It is written, not mapped: a full disk is an error of a write, and ends a process that writes to a mapping.
    """
    with path.open("wb") as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(kind)),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)


@cache
def _installed_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
