"""Exact hybrid search: similarity and keywords of every query and every row, a group of queries at a time."""

from __future__ import annotations

import numpy as np

from backstory.embedders.protocol import Vectors
from backstory.index.exact import SLACK
from backstory.index.filters import Scope
from backstory.index.fusion import fuse
from backstory.index.keywords import CELLS_AT_ONCE, KeywordIndex, QueryTerms
from backstory.index.matches import Matches, cells_of_best, order_best, pair_similarities
from backstory.index.result import SearchRequest

# With fewer queries the product reads the vectors more often than it computes with them.
LEAST_QUERIES = 32


class HybridEngine:
    """Compares every query with every row, by both scores, and hides the rows that it may not be given.

    Args:
        vectors: Unit rows, shape ``(rows, dimension)``, float32; usually mapped from a file.
        keywords: The keyword index of the same rows.
    """

    def __init__(self, vectors: Vectors, keywords: KeywordIndex) -> None:
        self._vectors = vectors
        self._keywords = keywords

    def search(self, queries: Vectors, terms: QueryTerms, request: SearchRequest, scope: Scope) -> Matches:
        """Find exactly the rows with the best fused score for each query.

        Args:
            queries: Unit rows, shape ``(queries, dimension)``, float32.
            terms: The words of the queries.
            request: Number of hits, threshold and weight of keywords.
            scope: The rows that each query may be given.

        Returns:
            The best pairs of each query, best first, with their keyword score.
        """
        weight, least = request.keyword_weight, request.min_similarity
        found = []
        for first, last in scope.groups(CELLS_AT_ONCE, least=LEAST_QUERIES):
            row_count = int(scope.stop[first:last].max(initial=0))
            words = self._keywords.score(terms, first, last, row_count)
            fused = queries[first:last] @ self._vectors[:row_count].T
            if least is not None:
                fused[fused < least - SLACK] = -np.inf
            bonus = np.sqrt(words)
            bonus *= np.float32(weight)
            fused += bonus
            scope.hide(fused, first, hidden=-np.inf)
            query, row = cells_of_best(fused, request.top_k, slack=SLACK)
            pairs = Matches(query + first, row, words[query, row].astype(np.float64))
            similarity = pair_similarities(queries, self._vectors, pairs.query, pairs.row)
            score = fuse(similarity, pairs.score, weight)
            best = order_best(pairs, similarity, score, request.top_k, least)
            found.append(Matches(pairs.query[best], pairs.row[best], pairs.score[best]))
        return Matches.joined(found)
