"""Exact hybrid search: scores every query against every row by vectors and keywords, a group of queries at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backstory.index.engines.exact import SLACK
from backstory.index.engines.fusion import fuse
from backstory.index.engines.keywords import CELLS_AT_ONCE, KeywordIndex, QueryTerms
from backstory.index.engines.matches import Matches, cells_of_best, multiply, order_best, pair_similarities
from backstory.index.engines.scope import Scope
from backstory.index.request import SearchRequest
from backstory.index.snapshot.shards import StoredVectors, list_blocks
from backstory.models.embeddings.protocol import Vectors

# With fewer queries per group, the matrix product spends most of its time reading the vectors.
LEAST_QUERIES = 64


class HybridEngine:
    """Scores every query against every row by both scores, and hides the rows outside its scope.

    Args:
        vectors: Unit rows, shape ``(rows, dimension)``, float32; usually mapped from a file.
        keywords: The keyword index of the same rows.
    """

    def __init__(self, vectors: StoredVectors, keywords: KeywordIndex) -> None:
        self._vectors = vectors
        self._keywords = keywords

    def search(self, queries: Vectors, terms: QueryTerms, request: SearchRequest, scope: Scope) -> Matches:
        """Find exactly the rows with the best fused score for each query.

        Args:
            queries: Unit rows, shape ``(queries, dimension)``, float32.
            terms: The words of the queries.
            request: Number of hits, threshold and weight of keywords.
            scope: The rows that each query may see.

        Returns:
            The best pairs of each query, best first, with their keyword score.
        """
        arguments = _Arguments(queries, terms, request, scope)
        found = []
        for first, last in scope.groups(CELLS_AT_ONCE, least=LEAST_QUERIES):
            row_count = int(scope.stop[first:last].max(initial=0))
            step = max(1, CELLS_AT_ONCE // (last - first))
            pairs = Matches.joined(
                self._compare(arguments, slice(first, last), slice(start, stop))
                for start, stop in list_blocks(self._vectors, scope.mask, row_count, step)
            )
            similarity = pair_similarities(queries, self._vectors, pairs.query, pairs.row)
            score = fuse(similarity, pairs.score, request.keyword_weight)
            best = order_best(pairs, similarity, score, request.top_k, request.min_similarity)
            found.append(Matches(pairs.query[best], pairs.row[best], pairs.score[best]))
        return Matches.joined(found)

    def _compare(self, arguments: _Arguments, group: slice, rows: slice) -> Matches:
        """Return the rows of a block that may be among the best for a group of queries, with their keyword scores."""
        request = arguments.request
        words = self._keywords.score(arguments.terms, group.start, group.stop, rows.start, rows.stop)
        fused = multiply(arguments.queries[group], self._vectors[rows])
        if request.min_similarity is not None:
            fused[fused < request.min_similarity - SLACK] = -np.inf
        bonus = np.sqrt(words)
        bonus *= np.float32(request.keyword_weight)
        fused += bonus
        arguments.scope.hide(fused, group.start, rows.start)
        query, row = cells_of_best(fused, request.top_k, slack=SLACK)
        return Matches(query + group.start, row + rows.start, words[query, row].astype(np.float64))


@dataclass(frozen=True)
class _Arguments:
    """The arguments of one :meth:`HybridEngine.search`."""

    queries: Vectors
    terms: QueryTerms
    request: SearchRequest
    scope: Scope
