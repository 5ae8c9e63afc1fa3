"""Documents, chunks and vectors -> the content of a snapshot, checked and in the order of its rows -> the snapshot."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import numpy as np
import polars as pl

from backstory.base.errors import InputError
from backstory.base.files.arrays import map_array
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.telemetry import log_event
from backstory.index.calibration import Calibration
from backstory.index.graph import VssGraph, write_graph
from backstory.index.milvus import (
    Collection,
    MilvusGraph,
    choose_collection,
    is_served,
    release_collection,
    tell_rows,
)
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
    Manifest,
    current_version,
    find_damage,
    publish,
    publishing,
    read_manifest,
    record_files,
)
from backstory.index.terms import count_rows, order_entries, score_rows, write_terms
from backstory.models.embeddings.protocol import Vectors, find_stray_vector
from backstory.settings.models import IndexSettings
from backstory.text.words import choose_stemmers, find_main_stemmer

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE: Final = 8192
_KEY = ["document_id", "revision"]
_DOCUMENT_COLUMNS = [*_KEY, "uri", "title", "slug", "published_at", "tags", "kind", "tenant"]


@dataclass(frozen=True)
class Content:
    """The content of a snapshot: documents by id, and chunks with the title and the position of their document.

    ``vectors`` are unit rows in the order of the chunks. ``stemmers`` has that of each document, and ``main_stemmer``
    is that of documents whose language is unclear.
    """

    documents: pl.DataFrame
    chunks: pl.DataFrame
    vectors: Vectors
    embedder_id: str
    settings: IndexSettings
    stemmers: pl.Series
    main_stemmer: str

    @property
    def told(self) -> pl.DataFrame:
        """What is told of the chunks, with the position of the document of each in place of its columns.

        The texts, which are stored apart, leave their place in the order of the columns empty.
        """
        empty = (pl.lit(None).alias(name) for name in (*_KEY, "text"))
        return self.chunks.drop("title").with_columns(*empty, pl.col("document").cast(pl.Int64))

    def list_rows(self, *, by_people: bool) -> Iterator[tuple[int, str, str]]:
        """List the place, the stemmer and the searched text of the rows of people, which count, or of written posts."""
        stemmers = self.stemmers.gather(self.chunks["document"])
        counted = _written_by_people(self.documents).gather(self.chunks["document"])
        places = counted.eq(by_people).arg_true()
        for start in range(0, len(places), _ROWS_AT_ONCE):
            some = places[start : start + _ROWS_AT_ONCE]
            texts = self.chunks[some].select(pl.concat_str("title", "heading", "text", separator="\n"))
            yield from zip(some, stemmers[some], texts.to_series(), strict=True)

    def hash(self, calibration: str) -> str:
        """Hash the content, the settings and the calibration, as JSON, into the snapshot's version."""
        state = hashlib.blake2b(digest_size=8)
        unread = {"engine", "uri"} if self.settings.engine == "embedded" else {"ann_min_rows"}
        effective = self.settings.model_dump_json(exclude={"allow_http", *unread})
        header = [
            str(FORMAT), duckdb.__version__, self.embedder_id, effective, calibration, str(self.vectors.shape[1]),
        ]  # fmt: skip
        state.update("\n".join([*header, *self.stemmers]).encode())
        for frame in (self.documents, self.chunks):
            for rows in frame.iter_slices(_ROWS_AT_ONCE):
                buffer = BytesIO()
                rows.write_ndjson(buffer)
                state.update(buffer.getbuffer())
        state.update(self.vectors.data)
        return state.hexdigest()


def arrange(
    documents: pl.DataFrame,
    document_chunks: pl.DataFrame,
    vectors: Vectors,
    embedder_id: str,
    settings: IndexSettings,
    main_stemmer: str | None = None,
) -> Content:
    """Put the chunks of documents of status ``ok`` in the order of a snapshot.

    For the posts over a snapshot, ``main_stemmer`` is that of the snapshot.
    """
    stray = find_stray_vector(vectors)
    if len(vectors) != document_chunks.height or stray is not None:
        wrong = "" if stray is None else f", and row {stray} is no unit vector"
        message = f"there are {len(vectors)} vectors for {document_chunks.height} chunks{wrong}"
        raise InputError(message, code="unusable_vectors")
    ok = documents.filter(pl.col("status") == "ok").sort("document_id")
    searched = ok.select(_DOCUMENT_COLUMNS)
    positions = searched.with_row_index("document").select(*_KEY, "document", "published_at", "title")
    ordered = (
        document_chunks.with_row_index("source")
        .join(positions, on=_KEY, how="inner")
        .sort("published_at", "chunk_id", nulls_last=False)
    )
    found = ok["language"].to_list()
    main = find_main_stemmer(found, _written_by_people(ok)) if main_stemmer is None else main_stemmer
    return Content(
        documents=searched,
        chunks=ordered.drop("source", "published_at"),
        vectors=vectors[ordered["source"].to_numpy()],
        embedder_id=embedder_id,
        settings=settings,
        stemmers=pl.Series("stemmer", choose_stemmers(found, settings.language, main), dtype=pl.String),
        main_stemmer=main,
    )


def _written_by_people(documents: pl.DataFrame) -> pl.Series:
    return ~documents["uri"].str.starts_with(WRITTEN_PREFIX)


class IndexBuild(NamedTuple):
    """The snapshot that is current now, whether it was built or existed, and the rows that a Milvus server was sent."""

    manifest: Manifest
    built: bool
    uploaded: int


def publish_content(folder: Path, content: Content, calibration: Calibration) -> IndexBuild:
    """Build and publish a snapshot in the folder of an index, unless the current one has the same content.

    It is built in a hidden folder, and published in one step: a process that is killed at any point leaves the earlier
    snapshot current and whole.
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
    vectors: Vectors = map_array(folder / VECTORS_FILE, np.float32).reshape(rows, dimension)
    recall, collection, uploaded = None, None, 0
    if settings.has_graph(rows) and settings.engine == "milvus":
        collection = choose_collection(folder.parent, settings, content.embedder_id, dimension)
        told, served = (content.told, content.documents), Collection(settings, collection, version)
        with closing(MilvusGraph(served, vectors, *told)) as graph:
            uploaded = served.upload(tell_rows(*told, vectors), dimension)
            recall = graph.measure_recall()
    elif settings.has_graph(rows):
        write_graph(folder / GRAPH_FILE, vectors, settings)
        with closing(VssGraph(folder / GRAPH_FILE, vectors, settings.ef_search)) as vss:
            recall = vss.measure_recall()
    manifest = Manifest(
        version=version,
        embedder_id=content.embedder_id,
        dimension=dimension,
        documents=content.documents.height,
        rows=rows,
        languages=statistics.languages,
        mean_words=statistics.mean_words,
        main_stemmer=content.main_stemmer,
        settings=settings,
        recall_at_5=recall,
        collection=collection,
        calibration=calibration,
        files=record_files(folder),
    )
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return uploaded
