"""Chunks and vectors -> a published snapshot of the search index."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from backstory.base.files.arrays import map_array
from backstory.base.telemetry import log_event
from backstory.index.calibration import Calibration
from backstory.index.content import Content
from backstory.index.milvus import Collection, choose_collection, is_served, release_collection, upload_rows
from backstory.index.snapshot import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    FORMAT,
    GRAPH_FILE,
    MANIFEST_FILE,
    TERMS_FOLDER,
    TEXT_BOUNDS_FILE,
    TEXTS_FILE,
    UNPUBLISHED,
    VECTORS_FILE,
    HnswRecord,
    Manifest,
    current_version,
    find_damage,
    prune,
    publish,
    publishing,
    read_manifest,
    record_files,
)
from backstory.index.terms import count_rows, order_entries, score_rows, write_terms
from backstory.index.vss import VssGraph, write_graph

logger = logging.getLogger(__name__)

_MADE_WITH: Final = ("backstory", "duckdb", "duckdb-extension-vss")


class IndexBuild(NamedTuple):
    """The snapshot that is current now, whether it was built or existed, and the rows that a Milvus server was sent."""

    manifest: Manifest
    built: bool
    uploaded: int


def publish_content(folder: Path, content: Content, calibration: Calibration) -> IndexBuild:
    """Build and publish a snapshot in the folder of an index, unless the current one has the same content.

    The version is a hash of content and settings. The snapshot is built in a hidden folder, and published in one step:
    a process that is killed at any point leaves the earlier snapshot current and whole.

    Raises:
        SettingsError: There is no stemmer for the language.
        SearchIndexError: A Milvus server cannot be used, or the extension of DuckDB is not installed.
    """
    started = time.perf_counter()
    version = content.hash(calibration.model_dump_json())
    uploaded = 0
    with publishing(folder):
        target = folder / version
        is_built = find_damage(target, checksums=False) is not None or not is_served(target)
        if is_built:
            unpublished = folder / f"{UNPUBLISHED}{version}"
            unpublished.mkdir()
            uploaded = _write_snapshot(unpublished, content, version, calibration)
            publish(folder, version, unpublished)
        elif current_version(folder) != version:
            publish(folder, version, None)
        prune(folder)
        if content.settings.engine != "milvus":
            release_collection(folder)
    build = IndexBuild(read_manifest(target), is_built, uploaded)
    figures = {"version": version, "rows": build.manifest.rows, "built": is_built, "uploaded": uploaded}
    log_event(logger, "search index", figures, seconds=time.perf_counter() - started)
    return build


def _write_snapshot(folder: Path, content: Content, version: str, calibration: Calibration) -> int:
    """Write the files of a snapshot, and return the number of rows that were sent to a server."""
    rows, dimension, settings = content.chunks.height, content.vectors.shape[1], content.settings
    np.save(folder / VECTORS_FILE, content.vectors)
    texts = content.chunks["text"]
    bounds = np.zeros(rows + 1, np.int64)
    np.cumsum(texts.str.len_bytes(), out=bounds[1:])
    np.save(folder / TEXT_BOUNDS_FILE, bounds)
    np.save(folder / TEXTS_FILE, np.frombuffer("".join(texts).encode(), np.uint8))
    content.told.write_ipc(folder / CHUNKS_FILE, compression="uncompressed")
    content.documents.write_ipc(folder / DOCUMENTS_FILE, compression="uncompressed")
    statistics, counted = count_rows(content.list_rows(by_people=True))
    others = score_rows(content.list_rows(by_people=False), statistics)
    write_terms(folder / TERMS_FOLDER, order_entries([counted, others], statistics), statistics)
    vectors = map_array(folder / VECTORS_FILE)
    recall, collection, uploaded = None, None, 0
    if rows and settings.engine == "milvus":
        collection = choose_collection(folder.parent, settings, content.embedder_id, dimension)
        connected = Collection(settings, collection)
        recall, uploaded = upload_rows(connected, version, content.told, content.documents, vectors)
    elif rows and rows >= settings.ann_min_rows:
        write_graph(folder / GRAPH_FILE, vectors, settings)
        with closing(VssGraph(folder / GRAPH_FILE, vectors, settings.ef_search)) as graph:
            recall = graph.measure_recall()
    manifest = Manifest(
        format=FORMAT,
        version=version,
        embedder_id=content.embedder_id,
        dimension=dimension,
        documents=content.documents.height,
        rows=rows,
        languages=statistics.languages,
        mean_words=statistics.mean_words,
        main_stemmer=content.main_stemmer,
        settings=settings,
        hnsw=None if recall is None else HnswRecord(recall_at_5=recall[0], sampled_rows=recall[1]),
        collection=collection,
        calibration=calibration,
        made_with={name: _find_version(name) for name in _MADE_WITH},
        files=record_files(folder),
    )
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return uploaded


def _find_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
