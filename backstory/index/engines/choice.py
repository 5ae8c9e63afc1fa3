"""The engines of a snapshot, each opened when a search first needs it, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from backstory.base.errors import InputError
from backstory.index.engines.exact import ExactEngine
from backstory.index.engines.fusion import unite
from backstory.index.engines.graph import LOW_RECALL, GraphEngine
from backstory.index.engines.matches import Matches
from backstory.index.engines.scope import Scope, list_moments
from backstory.index.engines.vss import VssEngine
from backstory.index.request import Mode, SearchRequest
from backstory.index.snapshot.database import Database
from backstory.index.snapshot.held import HeldSnapshot
from backstory.index.snapshot.manifest import (
    DATABASE_FILE,
    KEYWORDS_FOLDER,
    REBUILD_COMMAND,
    HnswRecord,
    Snapshot,
)
from backstory.index.snapshot.row_keys import read_row_keys
from backstory.index.snapshot.served import name_alias
from backstory.models.embeddings.protocol import Vectors

if TYPE_CHECKING:
    from backstory.index.engines.hybrid import HybridEngine
    from backstory.index.engines.keywords import KeywordIndex


class Engines:
    """What searches a snapshot: vectors and words, exactly or by a graph.

    Args:
        snapshot: The open snapshot.
    """

    def __init__(self, snapshot: Snapshot | HeldSnapshot) -> None:
        self._snapshot = snapshot
        self._manifest = snapshot.manifest
        self._exact = ExactEngine(snapshot.vectors)

    def close(self) -> None:
        """Close what was opened."""
        if "_graph" in self.__dict__:
            self._graph.close()
        if "database" in self.__dict__:
            self.database.close()

    def find(
        self, queries: Vectors, texts: Sequence[str] | None, request: SearchRequest, scope: Scope
    ) -> tuple[str, str, Matches]:
        """Find the best chunks for each query of a batch; see :meth:`backstory.index.search.SearchIndex.search`.

        Returns:
            The engine, the reason for its choice, and the pairs: with their similarity under ranking dense, else with
            their score by keywords.
        """
        if request.ranking == "dense":
            engine, reason, near = self._approximate(queries, request, scope)
            if near is None:
                near = self._exact.search(queries, request, scope)
            return engine, reason, near
        if texts is None or len(texts) != len(queries):
            count = "none" if texts is None else len(texts)
            raise InputError(
                f"ranking {request.ranking} needs one text for each of {len(queries)} queries; got {count}",
                code="wrong_count",
                name="texts",
                count=count,
                expected=len(queries),
            )
        terms = self.keywords.find_terms(texts, request.keyword_terms)
        if request.ranking == "keyword":
            found = self.keywords.search(terms, request, scope)
            return "bm25", "ranking keyword compares words only", found
        engine, reason, near = self._approximate(queries, request, scope)
        if near is None:
            return engine, reason, self._hybrid.search(queries, terms, request, scope)
        found = self.keywords.search(terms, request, scope, besides=near)
        return engine, reason, unite(near, found)

    def _approximate(
        self, queries: Vectors, request: SearchRequest, scope: Scope
    ) -> tuple[str, str, Matches | None]:
        """Search the HNSW index; if it cannot answer, give the reason and no pairs."""
        hnsw = self._find_reliable_hnsw(request.mode)
        if isinstance(hnsw, str):
            return "exact", hnsw, None
        graph = self._graph
        found: Matches | str | None = graph.starves(request.candidates, request.filters, scope)
        if found is None:
            found = graph.search(queries, request, scope)
        if isinstance(found, str):
            return "exact", found, None
        return graph.name, graph.describe(request, self._manifest.rows, hnsw.recall_at_5), found

    def _find_reliable_hnsw(self, mode: Mode) -> HnswRecord | str:
        """Return the record of the HNSW index, or the reason for an exact search."""
        if mode == "exact":
            return "the request sets mode exact"
        if not self._manifest.rows:
            return "the index is empty"
        hnsw = self._manifest.hnsw
        if hnsw is None:
            least = self._manifest.settings.ann_min_rows
            return f"{self._manifest.rows} rows are below ann_min_rows {least}"
        if (collection := self._manifest.keyless_collection) is not None:
            return f"the rows of Milvus collection {collection} have no keys; run `{REBUILD_COMMAND}`"
        if hnsw.recall_at_5 < LOW_RECALL:
            return f"the HNSW index found only {hnsw.recall_at_5:.0%} of the best five when it was built"
        return hnsw

    @cached_property
    def _graph(self) -> GraphEngine:
        snapshot = self._snapshot
        settings, vectors = self._manifest.settings, snapshot.vectors
        if isinstance(snapshot, Snapshot) and (collection := self._manifest.collection) is not None:
            # Imported late, since no other engine needs it.
            from backstory.index.engines.milvus import MilvusEngine

            keys = read_row_keys(snapshot.folder)
            moments = list_moments(snapshot.documents)[snapshot.rows["document"].to_numpy()]
            return MilvusEngine(
                settings, name_alias(collection, self._manifest.version), vectors, keys, moments
            )
        return VssEngine(self.database, vectors, settings.ef_search)

    @cached_property
    def _hybrid(self) -> HybridEngine:
        from backstory.index.engines.hybrid import HybridEngine

        return HybridEngine(self._snapshot.vectors, self.keywords)

    @cached_property
    def keywords(self) -> KeywordIndex:
        """The words of the chunks."""
        snapshot = self._snapshot
        if isinstance(snapshot, HeldSnapshot):
            return snapshot.keywords
        # Imported late, since a search by vectors alone does not need it.
        from backstory.index.engines.keywords import read_keywords

        return read_keywords(snapshot.folder / KEYWORDS_FOLDER, self._manifest.languages)

    @cached_property
    def database(self) -> Database:
        """Documents and chunks."""
        snapshot = self._snapshot
        if isinstance(snapshot, HeldSnapshot):
            return snapshot.database
        return Database(snapshot.folder / DATABASE_FILE, has_hnsw=self._manifest.hnsw_in_database)
