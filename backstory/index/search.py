"""The search over a published snapshot, and what is known of its chunks."""

from __future__ import annotations

import heapq
import logging
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import InputError
from backstory.base.ids import WRITTEN_PREFIX, digest_each
from backstory.index.calibration import Calibration
from backstory.index.engines.choice import Engines
from backstory.index.engines.fusion import fuse
from backstory.index.engines.matches import pair_similarities
from backstory.index.engines.scope import Scope, scope_of
from backstory.index.request import Filters, SearchRequest, check_queries
from backstory.index.result import SearchResult, tabulate
from backstory.index.snapshot.held import HeldSnapshot
from backstory.index.snapshot.manifest import Manifest, Snapshot
from backstory.models.embeddings.protocol import Vectors

if TYPE_CHECKING:
    from backstory.index.engines.keywords import IndexedWords

logger = logging.getLogger(__name__)


class SearchIndex:
    """An open snapshot of the search index; use as a context manager, or call :meth:`close`.

    Any number of processes may have a snapshot open while another snapshot is published. A search reads only the
    files that it needs.

    Args:
        snapshot: The open snapshot, which closes with the index.
        degraded: Why this is not the current snapshot; None if it is.

    Attributes:
        degraded: Why this is not the current snapshot, how old it is and what to do; None if it is the current one.
    """

    def __init__(self, snapshot: Snapshot | HeldSnapshot, *, degraded: str | None = None) -> None:
        self._snapshot = snapshot
        self.degraded = degraded
        self._engines = Engines(snapshot)
        self._samples: dict[int, NDArray[np.float64]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the snapshot; the index cannot be searched afterwards."""
        self._engines.close()
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
            EmbedderMismatchError: The queries differ from the index in width.
            InputError: The queries are not finite unit rows, or there is not one text or time per query.
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
        engine, reason, ranked = self._engines.find(queries, texts, request, scope)
        keyword = None if request.ranking == "dense" else ranked.score
        similarity = ranked.score
        if request.ranking != "dense":
            similarity = pair_similarities(queries, self._snapshot.vectors, ranked.query, ranked.row)
        if request.ranking == "hybrid":
            ranked = replace(ranked, score=fuse(similarity, ranked.score, request.keyword_weight))
        hits = tabulate(ranked, similarity, keyword, request, self._snapshot.rows, self._snapshot.documents)
        counts = {"queries": len(queries), "hits": hits.height, "engine": engine}
        seconds = time.perf_counter() - started
        text = "search queries=%d hits=%d engine=%s seconds=%.3f"
        logger.info(text, *counts.values(), seconds, extra={**counts, "reason": reason})
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
        return self._engines.database.read_documents()

    def list_labels(self, column: Literal["kind", "tags"], tenant: str | None) -> list[str]:
        """List the kinds or the tags of the documents, sorted.

        Args:
            column: Which of the two.
            tenant: Only the documents of this tenant; None for all.
        """
        documents = self._snapshot.documents
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
        return self._engines.database.describe(self._rows_of(chunk_ids))

    def describe_few(self, chunk_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Read some chunks as the rows of :meth:`describe`, for which a table would take longer to make.

        Args:
            chunk_ids: Any chunks of this snapshot, at least one.

        Raises:
            InputError: A chunk is not in this snapshot.
        """
        rows = self._rows_of(chunk_ids)
        chunks = self._engines.database.read_chunks(rows)
        documents = (self._facts.row(place, named=True) for place in self._row_documents[rows].tolist())
        return [{**chunk, **document} for chunk, document in zip(chunks, documents, strict=True)]

    def read_around(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        """Read chunks, and the one before and after each in its document.

        Args:
            chunk_ids: Any chunks of this snapshot, without repeats.

        Returns:
            One to three rows per chunk, in the order of ``chunk_ids`` and of the document: ``chunk_id`` (the requested
            one), ``char_start`` and ``text`` of the chunk itself or of one beside it.

        Raises:
            InputError: A chunk is not in this snapshot.
        """
        return self._engines.database.read_around(self._rows_of(chunk_ids))

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that occur in the index.

        Returns:
            One row per text and distinct indexed word: text (position), term (number of the word), rarity
            (inverse document frequency, 1 for a word of a single chunk).
        """
        return self._engines.keywords.terms_of(texts)

    def words_of(self, texts: Sequence[str]) -> IndexedWords:
        """Find the words of texts that occur in the index, in their order.

        Returns:
            The words, numbered and weighed as in :meth:`terms_of`.
        """
        return self._engines.keywords.words_of(texts)

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
    def _facts(self) -> pl.DataFrame:
        """What :meth:`describe` tells of each document, in the order of the snapshot's documents."""
        keys = ["document_id", "revision"]
        named = self.documents.select(*keys, "uri", "title", "slug")
        known = self._snapshot.documents.join(named, on=keys, how="left", maintain_order="left")
        return known.select("uri", "title", "slug", "published_at", "tags", "kind", "tenant")

    @cached_property
    def _row_documents(self) -> NDArray[np.int64]:
        return self._snapshot.rows["document"].to_numpy()

    @cached_property
    def _documents_by_origin(self) -> pl.DataFrame:
        """The columns of the documents that filters need, with whether people wrote each."""
        posts = self._engines.database.list_documents(WRITTEN_PREFIX)
        return self._snapshot.documents.with_columns(by_people=~pl.col("document_id").is_in(posts))

    @cached_property
    def _is_row_by_people(self) -> NDArray[np.bool_]:
        by_people: NDArray[np.bool_] = self._documents_by_origin["by_people"].to_numpy()[self._row_documents]
        return by_people

    @cached_property
    def _row_of_chunk(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self._snapshot.rows["chunk_id"])}

    def _scope_of(self, filters: Filters, query_count: int) -> Scope:
        documents = self._snapshot.documents if filters.by_people is None else self._documents_by_origin
        on_pages = None if filters.pages is None else self._find_rows_on(*filters.pages)
        return scope_of(filters, documents, self._row_documents, query_count, on_pages=on_pages)

    def _find_rows_on(self, first: int, last: int) -> NDArray[np.bool_]:
        """Return for each row whether it holds text of a range of pages."""
        on_pages = (pl.col("page_start") <= last) & (pl.col("page_end") >= first)
        found: NDArray[np.bool_] = self._pages.select(on_pages.fill_null(value=False)).to_series().to_numpy()
        return found

    @cached_property
    def _pages(self) -> pl.DataFrame:
        return self._engines.database.read_pages()

    def _rows_of(self, chunk_ids: Iterable[str]) -> NDArray[np.int64]:
        try:
            return np.array([self._row_of_chunk[chunk_id] for chunk_id in chunk_ids], np.int64)
        except KeyError as error:
            raise InputError(
                f"chunk {error} is not in search index {self.version}",
                code="unknown_chunk",
                chunk_id=error.args[0],
            ) from error
