"""The search over a published snapshot, and what is known of its chunks."""

from __future__ import annotations

import heapq
import logging
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import InputError, SearchIndexError
from backstory.base.ids import WRITTEN_PREFIX, digest_each
from backstory.base.telemetry.logs import log_event
from backstory.index.calibration import Calibration
from backstory.index.engines.matches import Matches
from backstory.index.engines.scope import Scope, scope_of
from backstory.index.engines.scoring import find_best, unite
from backstory.index.request import Filters, SearchRequest
from backstory.index.result import SearchResult, check_queries, tabulate
from backstory.index.snapshot.manifest import REBUILD_COMMAND, Manifest
from backstory.index.snapshot.publication import HeldRows, Snapshot, open_current
from backstory.models.embeddings.protocol import Vectors

if TYPE_CHECKING:
    from backstory.index.engines.graph import Graph
    from backstory.index.engines.keywords import IndexedWords, KeywordIndex

logger = logging.getLogger(__name__)

_FACTS = ("uri", "title", "slug", "published_at", "tags", "kind", "tenant")


def open_index(folder: Path, *, embedder_id: str | None = None) -> SearchIndex:
    """Open the current snapshot of the search index, and compare the sizes of its files.

    Args:
        folder: The folder of the index.
        embedder_id: Embedding space of the queries; None to skip the comparison with the index.

    Raises:
        NoIndexError: No snapshot is published.
        SearchIndexError: The index holds vectors of another embedding space.
        SearchIndexError: The snapshot is damaged.
    """
    index = SearchIndex(open_current(folder))
    if embedder_id is not None and embedder_id != index.embedder_id:
        index.close()
        raise SearchIndexError(
            f"search index {folder} was made with embedder {index.embedder_id!r}, not {embedder_id!r}; run "
            f"`{REBUILD_COMMAND}` to rebuild it, or set the embedder to that of the index",
            code="embedder_mismatch",
        )
    return index


class SearchIndex:
    """An open snapshot of the search index; use as a context manager, or call :meth:`close`.

    Any number of processes may have a snapshot open while another snapshot is published, and any number of threads may
    search it.

    Args:
        snapshot: The open snapshot, which closes with the index.
    """

    def __init__(self, snapshot: Snapshot | HeldRows) -> None:
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._opened_keywords: KeywordIndex | None = None
        self._opened_graph: Graph | None = None
        self._samples: dict[int, NDArray[np.float64]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the snapshot; the index cannot be searched afterwards."""
        with self._lock:
            if self._opened_graph is not None:
                self._opened_graph.close()
        self._snapshot.close()

    @property
    def manifest(self) -> Manifest:
        """Content and origin of the snapshot."""
        return self._snapshot.manifest

    @property
    def version(self) -> str:
        """Version of the snapshot: a hash of its content and settings."""
        return self.manifest.version

    @property
    def rows(self) -> int:
        """Number of indexed chunks."""
        return self.manifest.rows

    @property
    def calibration(self) -> Calibration:
        """Constants of the embedding space for the documents of the snapshot."""
        return self.manifest.calibration

    @property
    def embedder_id(self) -> str:
        """Name of the vectors' embedding space."""
        return self.manifest.embedder_id

    @property
    def dimension(self) -> int:
        """Width of a vector."""
        return self.manifest.dimension

    def __contains__(self, chunk_id: str) -> bool:
        """Return whether a chunk is in the index."""
        return chunk_id in self._row_of_chunk

    def search(
        self, queries: Vectors, request: SearchRequest, *, texts: Sequence[str] | None = None
    ) -> SearchResult:
        """Find the best chunks for each query of a batch.

        Args:
            queries: Unit rows, float32, shape ``(queries, dimension)``.
            request: Ranking, filters and limits for all queries.
            texts: The queries' texts, required unless the ranking is ``dense``.

        Returns:
            The hits, and the engine with the reason for its choice. Equal scores are ordered by similarity, then
            by date of publication and chunk id.

        Raises:
            SearchIndexError: The queries differ from the index in width.
            InputError: The queries are not finite unit rows, or there is not one text or time per query.
            SearchIndexError: A file is damaged, or a Milvus server does not answer.
        """
        started = time.perf_counter()
        check_queries(queries, self.manifest)
        if request.nprobe is not None:
            warnings.warn(
                "nprobe is a parameter of IVF indexes. The HNSW index uses it as ef_search, and the exact "
                "search ignores it. Set index.ef_search instead",
                stacklevel=2,
            )
        scope = self._scope_of(request.filters, len(queries))
        engine, reason, pairs = self._find(queries, texts, request, scope)
        snapshot = self._snapshot
        hits = tabulate(queries, snapshot.vectors, pairs, request, snapshot.rows, snapshot.documents)
        seconds = time.perf_counter() - started
        figures = {"queries": len(queries), "hits": hits.height, "engine": engine, "reason": reason}
        log_event(logger, "search", figures, seconds=seconds)
        return SearchResult(hits, engine, reason)

    def count_admitted(self, filters: Filters) -> int:
        """Count the chunks that filters admit to a query.

        Args:
            filters: Conditions, with the time of one query or none.
        """
        return int(self._scope_of(filters, 1).allowed[0])

    @cached_property
    def documents(self) -> pl.DataFrame:
        """The documents by uri: ``document_id``, ``revision``, ``uri``, ``title``, ``slug`` and ``tenant``."""
        columns = ("document_id", "revision", "uri", "title", "slug", "tenant")
        return self.all_documents.select(columns).sort("uri", "document_id")

    @property
    def all_documents(self) -> pl.DataFrame:
        """The documents with everything that is told of them, in no certain order."""
        return self._snapshot.documents

    def list_labels(self, column: Literal["kind", "tags"], tenant: str | None) -> list[str]:
        """List the kinds or the tags of the documents, sorted.

        Args:
            column: Which of the two.
            tenant: Only the documents of this tenant; None for all.
        """
        documents = self.all_documents
        if tenant is not None:
            documents = documents.filter(pl.col("tenant") == tenant)
        labels = documents[column].explode() if column == "tags" else documents[column]
        return [label for label in labels.unique().sort().to_list() if label]

    def describe(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        """Read chunks with the metadata of their documents.

        Args:
            chunk_ids: Any chunks of this snapshot.

        Returns:
            One row per chunk in the order of ``chunk_ids``: the columns of table ``document_chunks``, then the
            document's uri, title, slug, published_at, tags, kind and tenant.

        Raises:
            InputError: A chunk is not in this snapshot.
        """
        rows = self._rows_of(chunk_ids)
        documents = self._snapshot.documents[self._row_documents[rows]]
        chunks = self._chunks[rows].drop("document")
        texts = pl.Series("text", self._snapshot.read_texts(rows), dtype=pl.String)
        keyed = chunks.with_columns(documents["document_id"], documents["revision"], texts)
        return keyed.hstack(documents.select(_FACTS))

    def read_around(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        """Read chunks, and the one before and after each in its document.

        Args:
            chunk_ids: Any chunks of this snapshot, without repeats.

        Returns:
            One to three rows per chunk, in the order of ``chunk_ids`` and of the document: ``chunk_id`` (the requested
            one), ``char_start`` and ``text`` of the chunk itself or of one beside it on its pages.

        Raises:
            InputError: A chunk is not in this snapshot.
        """
        rows = self._rows_of(chunk_ids)
        columns = ("document", "chunk_index", "page_start", "page_end")
        wanted = self._chunks[rows].select("chunk_id", *columns).with_row_index("position")
        of_documents = np.flatnonzero(np.isin(self._row_documents, self._row_documents[rows]))
        others = self._chunks[of_documents].select(*columns, "char_start").with_columns(row=of_documents)
        distance = pl.col("chunk_index_right").cast(pl.Int64) - pl.col("chunk_index").cast(pl.Int64)
        # A passage is cited by the pages of its chunk.
        is_inside = pl.col("page_start").is_null() | (
            (pl.col("page_start_right") >= pl.col("page_start"))
            & (pl.col("page_end_right") <= pl.col("page_end"))
        )
        near = (
            wanted.join(others, on="document")
            .filter(distance.abs() <= 1, is_inside)
            .sort("position", "chunk_index_right")
        )
        texts = self._snapshot.read_texts(near["row"].to_numpy())
        return near.select("chunk_id", "char_start", text=pl.Series(texts, dtype=pl.String))

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that occur in the index.

        Returns:
            One row per text and distinct indexed word: text (position), term (number of the word), rarity
            (inverse document frequency, 1 for a word of a single chunk).
        """
        return self.keywords.terms_of(texts)

    def words_of(self, texts: Sequence[str]) -> IndexedWords:
        """Find the words of texts that occur in the index, in their order.

        Returns:
            The words, numbered and weighed as in :meth:`terms_of`.
        """
        return self.keywords.words_of(texts)

    def sample_vectors(self, most: int) -> NDArray[np.float64]:
        """Read the vectors of some chunks that people wrote, in double precision.

        Hashes of their ids choose, so that an added chunk changes one of them at most.

        Args:
            most: Number of chunks, if there are so many.

        Returns:
            Unit rows, read-only, shape ``(chunks, dimension)``.
        """
        sample = self._samples.get(most)
        if sample is None:
            by_people = np.flatnonzero(self._is_row_by_people)
            hashes = digest_each(self._snapshot.rows["chunk_id"].gather(by_people))
            chosen = [row for _, row in heapq.nsmallest(most, zip(hashes, by_people.tolist(), strict=True))]
            sample = self._snapshot.vectors[chosen].astype(np.float64)
            sample.setflags(write=False)
            self._samples[most] = sample
        return sample

    def vectors_of(self, chunk_ids: Iterable[str]) -> Vectors:
        """Read the vectors of chunks.

        Args:
            chunk_ids: Any chunks of this snapshot.

        Returns:
            Unit rows in the order of ``chunk_ids``, shape ``(chunks, dimension)``.

        Raises:
            InputError: A chunk is not in this snapshot.
        """
        vectors: Vectors = np.array(self._snapshot.vectors[self._rows_of(chunk_ids)])
        return vectors

    @property
    def rows_by_people(self) -> int:
        """Number of indexed chunks of documents that people wrote."""
        return int(np.count_nonzero(self._is_row_by_people))

    def list_posts(self, chunk_ids: Iterable[str]) -> list[str]:
        """List the chunks that are of posts that Backstory wrote.

        Args:
            chunk_ids: Any chunks of this snapshot.

        Returns:
            Some of them, in their order.

        Raises:
            InputError: A chunk is not in this snapshot.
        """
        ids = list(chunk_ids)
        by_people = self._is_row_by_people[self._rows_of(ids)].tolist()
        return [chunk_id for chunk_id, is_by_people in zip(ids, by_people, strict=True) if not is_by_people]

    @cached_property
    def _chunks(self) -> pl.DataFrame:
        return self._snapshot.read_chunks()

    @cached_property
    def _row_documents(self) -> NDArray[np.int64]:
        return self._snapshot.rows["document"].to_numpy()

    @cached_property
    def _documents_by_origin(self) -> pl.DataFrame:
        """The documents, with whether people wrote each."""
        return self._snapshot.documents.with_columns(by_people=~pl.col("uri").str.starts_with(WRITTEN_PREFIX))

    @cached_property
    def _is_row_by_people(self) -> NDArray[np.bool_]:
        by_people: NDArray[np.bool_] = self._documents_by_origin["by_people"].to_numpy()[self._row_documents]
        return by_people

    @cached_property
    def _row_of_chunk(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self._snapshot.rows["chunk_id"])}

    @property
    def keywords(self) -> KeywordIndex:
        """The words of the chunks, opened when a search first needs them."""
        with self._lock:
            if self._opened_keywords is None:
                self._opened_keywords = self._snapshot.read_keywords()
            return self._opened_keywords

    def _open_graph(self, snapshot: Snapshot) -> Graph:
        """Open the HNSW index when a search first needs it."""
        with self._lock:
            if self._opened_graph is None:
                self._opened_graph = snapshot.open_graph()
            return self._opened_graph

    def _find(
        self, queries: Vectors, texts: Sequence[str] | None, request: SearchRequest, scope: Scope
    ) -> tuple[str, str, Matches]:
        """Find candidates: the engine, the reason for its choice, and the pairs with their score by keywords."""
        if request.ranking == "dense":
            engine, reason, near = self._approximate(queries, request, scope)
            if near is not None:
                return engine, reason, replace(near, score=np.zeros(len(near)))
            return engine, reason, find_best(queries, self._snapshot.vectors, request, scope)
        if texts is None or len(texts) != len(queries):
            count = "none" if texts is None else len(texts)
            raise InputError(
                f"ranking {request.ranking} needs one text for each of {len(queries)} queries; got {count}",
                code="wrong_count",
            )
        keywords = self.keywords
        terms = keywords.find_terms(texts, request.keyword_terms)
        if request.ranking == "keyword":
            return "bm25", "ranking keyword compares words only", keywords.search(terms, request, scope)
        engine, reason, near = self._approximate(queries, request, scope)
        if near is not None:
            return engine, reason, unite(near, keywords.search(terms, request, scope, besides=near))
        score_words = partial(keywords.score, terms)
        return engine, reason, find_best(queries, self._snapshot.vectors, request, scope, score_words)

    def _approximate(
        self, queries: Vectors, request: SearchRequest, scope: Scope
    ) -> tuple[str, str, Matches | None]:
        """Search the HNSW index; if it cannot answer, give the reason and no pairs."""
        hnsw, rows, snapshot = self.manifest.hnsw, self.rows, self._snapshot
        if request.mode == "exact":
            return "exact", "the request sets mode exact", None
        if not rows:
            return "exact", "the index is empty", None
        if hnsw is None or not isinstance(snapshot, Snapshot):
            least = self.manifest.settings.ann_min_rows
            return "exact", f"{rows} rows are below ann_min_rows {least}", None
        from backstory.index.engines.graph import LOW_RECALL

        if hnsw.recall_at_5 < LOW_RECALL:
            reason = f"the HNSW index found only {hnsw.recall_at_5:.0%} of the best five when it was built"
            return "exact", reason, None
        graph = self._open_graph(snapshot)
        found = graph.search(queries, request, scope)
        if isinstance(found, str):
            return "exact", found, None
        return graph.name, graph.describe(request, hnsw.recall_at_5), found

    def _scope_of(self, filters: Filters, query_count: int) -> Scope:
        documents = self._snapshot.documents if filters.by_people is None else self._documents_by_origin
        on_pages = None if filters.pages is None else self._find_rows_on(*filters.pages)
        return scope_of(filters, documents, self._row_documents, query_count, on_pages=on_pages)

    def _find_rows_on(self, first: int, last: int) -> NDArray[np.bool_]:
        """Return for each row whether it holds text of a range of pages."""
        on_pages = (pl.col("page_start") <= last) & (pl.col("page_end") >= first)
        found: NDArray[np.bool_] = self._chunks.select(on_pages.fill_null(value=False)).to_series().to_numpy()
        return found

    def _rows_of(self, chunk_ids: Iterable[str]) -> NDArray[np.int64]:
        try:
            return np.array([self._row_of_chunk[chunk_id] for chunk_id in chunk_ids], np.int64)
        except KeyError as error:
            raise InputError(
                f"chunk {error} is not in search index {self.version}", code="unknown_chunk"
            ) from error
