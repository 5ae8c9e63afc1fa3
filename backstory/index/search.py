"""One search over a published snapshot, whichever engine answers."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.embeddings.protocol import Vectors
from backstory.errors import InputError, SearchIndexError
from backstory.index.engines.exact import ExactEngine
from backstory.index.engines.fusion import fuse, unite
from backstory.index.engines.vss import LOW_RECALL, VssEngine
from backstory.index.filters import Filters, Scope, scope_of
from backstory.index.matches import Matches, pair_similarities
from backstory.index.result import Mode, Ranking, SearchRequest, SearchResult, check_queries, tabulate
from backstory.index.snapshot.database import Database
from backstory.index.snapshot.manifest import (
    DATABASE_FILE,
    KEYWORDS_FOLDER,
    Manifest,
    Snapshot,
    find_damage,
)

if TYPE_CHECKING:
    from backstory.index.engines.hybrid import HybridEngine
    from backstory.index.engines.keywords import KeywordIndex

logger = logging.getLogger(__name__)

_NO_FILTERS = Filters()


class SearchIndex:
    """An open snapshot of the search index; use as a context manager, or call :meth:`close`.

    Any number of processes may have a snapshot open while another one is published. What a search does not
    need is not read.

    Args:
        snapshot: The open snapshot, which is closed with the index.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._exact = ExactEngine(snapshot.vectors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the snapshot; the index cannot be searched afterwards."""
        if "_database" in self.__dict__:
            self._database.close()
        self._snapshot.close()

    @property
    def manifest(self) -> Manifest:
        """What the snapshot holds, and how it was made."""
        return self._snapshot.manifest

    @property
    def version(self) -> str:
        """Version of the snapshot: a hash of everything that went into it."""
        return self.manifest.version

    @property
    def rows(self) -> int:
        """Number of indexed chunks."""
        return self.manifest.rows

    @property
    def embedder_id(self) -> str:
        """The space of the vectors."""
        return self.manifest.embedder_id

    @property
    def dimension(self) -> int:
        """Width of a vector."""
        return self.manifest.dimension

    def search(
        self,
        queries: Vectors,
        *,
        texts: Sequence[str] | None = None,
        top_k: int,
        min_similarity: float | None = None,
        mode: Mode = "ann",
        ranking: Ranking = "dense",
        keyword_weight: float = 0.1,
        keyword_terms: int | None = 32,
        filters: Filters = _NO_FILTERS,
        nprobe: int | None = None,
        overfetch: int | None = None,
    ) -> SearchResult:
        """Find the best chunks for each query of a batch.

        Args:
            queries: Unit rows, float32, shape ``(queries, dimension)``.
            texts: The queries' texts, needed unless the ranking is ``dense``.
            top_k: Most hits for one query.
            min_similarity: Cosine similarity that every hit must reach under every ranking, or None.
            mode: ``exact`` compares with every chunk; ``ann`` allows the approximate index where it serves.
            ranking: ``dense`` orders by similarity, ``keyword`` by BM25, ``hybrid`` by both: over every chunk,
                or over the best 100 of each (or ``overfetch * top_k``) where the approximate index serves.
            keyword_weight: In ``hybrid``, weight of the square root of the BM25 score beside the cosine, 0 to 1.
            keyword_terms: Most distinct words of a query that keywords compare, the rarest, each once; None for
                all, each weighing 1 + ln(its count), which suits a query as long as a window.
            filters: Which documents may be returned.
            nprobe: Of another kind of index; taken as ``ef_search`` of this one, with a warning.
            overfetch: How many times ``top_k`` the approximate index fetches, in place of its own default.

        Returns:
            The hits, the engine that answered and why. Equal scores are ordered by similarity, then by date
            of publication and chunk id.

        Raises:
            EmbedderMismatchError: The queries have another width than the index.
            InputError: An argument is out of its range.
        """
        started = time.perf_counter()
        request = SearchRequest(
            top_k, min_similarity, mode, ranking, keyword_weight, keyword_terms, nprobe, overfetch
        )
        check_queries(queries, self.manifest)
        if nprobe is not None:
            warnings.warn(
                "nprobe is a parameter of IVF indexes; the HNSW index takes it as ef_search, and the exact "
                "search ignores it: set index.ef_search instead",
                stacklevel=2,
            )
        scope = scope_of(filters, self._snapshot.documents, self._row_documents, len(queries))
        engine, reason, ranked = self._find(queries, texts, request, scope)
        keyword = None if ranking == "dense" else ranked.where(ranked.score > 0)
        similarity = ranked.score
        if ranking != "dense":
            similarity = pair_similarities(queries, self._snapshot.vectors, ranked.query, ranked.row)
        if ranking == "hybrid":
            ranked = replace(ranked, score=fuse(similarity, ranked.score, keyword_weight))
        hits = tabulate(ranked, similarity, keyword, request, self._snapshot.rows, self._snapshot.documents)
        counts = {"queries": len(queries), "hits": hits.height, "engine": engine}
        seconds = time.perf_counter() - started
        text = "search queries=%d hits=%d engine=%s seconds=%.3f"
        logger.info(text, *counts.values(), seconds, extra={**counts, "reason": reason})
        return SearchResult(hits, engine, reason)

    def describe(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        """Read chunks and what is known of their documents.

        Args:
            chunk_ids: Any chunks of this snapshot.

        Returns:
            One row per chunk in the order asked for: the columns of table ``document_chunks``, then the
            document's uri, title, slug, published_at, tags, kind and tenant.

        Raises:
            InputError: A chunk is not in this snapshot.
        """
        return self._database.describe(self._rows_of(chunk_ids))

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that the index knows.

        Args:
            texts: Any texts.

        Returns:
            One row per text and distinct known word: text (its position), term (number of the word), rarity
            (inverse document frequency, 1 for a word of a single chunk).
        """
        return self._keywords.terms_of(texts)

    def vectors_of(self, chunk_ids: Iterable[str]) -> Vectors:
        """Read the vectors of chunks.

        Args:
            chunk_ids: Any chunks of this snapshot.

        Returns:
            Unit rows in the order asked for, shape ``(chunks, dimension)``.

        Raises:
            InputError: A chunk is not in this snapshot.
        """
        vectors: Vectors = np.array(self._snapshot.vectors[self._rows_of(chunk_ids)])
        return vectors

    def verify(self) -> None:
        """Read every file of the snapshot and compare it with its checksum.

        Raises:
            SearchIndexError: A file differs.
        """
        if damage := find_damage(self._snapshot.folder, checksums=True):
            raise SearchIndexError(damage)

    @cached_property
    def _row_documents(self) -> NDArray[np.int64]:
        return self._snapshot.rows["document"].to_numpy()

    @cached_property
    def _row_of_chunk(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self._snapshot.rows["chunk_id"])}

    @cached_property
    def _database(self) -> Database:
        return Database(self._snapshot.folder / DATABASE_FILE, has_hnsw=self.manifest.hnsw is not None)

    @cached_property
    def _vss(self) -> VssEngine:
        return VssEngine(self._database, self._snapshot.vectors, self.manifest.settings.ef_search)

    @cached_property
    def _hybrid(self) -> HybridEngine:
        from backstory.index.engines.hybrid import HybridEngine

        return HybridEngine(self._snapshot.vectors, self._keywords)

    @cached_property
    def _keywords(self) -> KeywordIndex:
        # Loaded late: most searches compare vectors only.
        from backstory.index.engines.keywords import read_keywords

        folder = self._snapshot.folder / KEYWORDS_FOLDER
        return read_keywords(folder, self.manifest.settings.language, self.manifest.words)

    def _find(
        self, queries: Vectors, texts: Sequence[str] | None, request: SearchRequest, scope: Scope
    ) -> tuple[str, str, Matches]:
        """Give the engine, why it answered, and pairs: with their similarity if dense, else their keyword score."""
        if request.ranking == "dense":
            engine, reason, near = self._approximate(queries, request, scope)
            if near is None:
                near = self._exact.search(queries, request.top_k, request.min_similarity, scope)
            return engine, reason, near
        if texts is None or len(texts) != len(queries):
            count = "none" if texts is None else len(texts)
            raise InputError(
                f"ranking {request.ranking} needs one text for each of {len(queries)} queries; got {count}"
            )
        terms = self._keywords.find_terms(texts, request.keyword_terms)
        if request.ranking == "keyword":
            found = self._keywords.search(terms, request.candidates, scope)
            return "bm25", "ranking keyword compares words only", found
        engine, reason, near = self._approximate(queries, request, scope)
        if near is None:
            return engine, reason, self._hybrid.search(queries, terms, request, scope)
        found = self._keywords.search(terms, request.candidates, scope, besides=near)
        return engine, reason, unite(near, found)

    def _approximate(
        self, queries: Vectors, request: SearchRequest, scope: Scope
    ) -> tuple[str, str, Matches | None]:
        """Search the HNSW index; give no pairs, and why, where that does not serve."""
        limit, least = request.candidates, request.min_similarity
        ef_search = request.nprobe or self.manifest.settings.ef_search
        reason = self._reason_for_exact(request.mode) or self._vss.starves(limit, scope)
        found: Matches | str = reason or ""
        if reason is None:
            found = self._vss.search(
                queries, limit, least, scope, ef_search=ef_search, overfetch=request.overfetch
            )
        if isinstance(found, str):
            return "exact", found, None
        return "vss", f"HNSW index of {self.rows} rows with ef_search {ef_search}", found

    def _reason_for_exact(self, mode: Mode) -> str | None:
        if mode == "exact":
            return "mode exact was asked for"
        if not self.rows:
            return "the index is empty"
        hnsw = self.manifest.hnsw
        if hnsw is None:
            return f"{self.rows} rows are below ann_min_rows {self.manifest.settings.ann_min_rows}"
        if hnsw.recall_at_5 < LOW_RECALL:
            return f"the HNSW index found only {hnsw.recall_at_5:.0%} of the best five when it was built"
        return None

    def _rows_of(self, chunk_ids: Iterable[str]) -> NDArray[np.int64]:
        try:
            return np.array([self._row_of_chunk[chunk_id] for chunk_id in chunk_ids], np.int64)
        except KeyError as error:
            raise InputError(f"chunk {error} is not in search index {self.version}") from error
