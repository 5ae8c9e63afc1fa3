"""Keyword search by BM25 (Robertson and Zaragoza 2009, in Lucene's form), with scores that are mapped from files.

Each row has one language, and its terms belong to this language. A word of a query is looked up in every language of
the rows, each time with the stemmer and stop words of that language. So a query needs no language, which a short
message does not reveal. As a row has one language, no word counts twice.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.engines.matches import Matches, cells_of_best, rank_within, take_best
from backstory.index.engines.scope import Scope
from backstory.index.engines.terms import FoundTerms, Statistics
from backstory.index.request import SearchRequest
from backstory.text.words import find_words

CELLS_AT_ONCE = 1 << 22
"""Scores of queries with rows that are in memory at once."""

_KEPT_TEXTS: Final = 4096
"""Texts whose words an open index keeps, a few megabytes."""
_LONGEST_KEPT: Final = 1 << 13
"""Characters of the longest of them. A chunk has fewer, and only chunks are found again and again."""


@dataclass(frozen=True)
class QueryTerms:
    """The indexed terms of a batch of queries, ordered by query and term.

    Attributes:
        query: Position of the query, int64.
        term: Number of the term, int64.
        weight: Weight of the term's BM25 score, float64.
    """

    query: NDArray[np.int64]
    term: NDArray[np.int64]
    weight: NDArray[np.float64]


class StoredScores(NamedTuple):
    """The stored scores, each of one term in one row.

    Attributes:
        bounds: The scores of term t lie from ``bounds[t]`` to ``bounds[t + 1]``.
        rows: The row of each score, ascending within a term.
        scores: The scores.
    """

    bounds: NDArray[np.integer]
    rows: NDArray[np.integer]
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class IndexedWords:
    """The words of some texts that occur in the index, in their order; a word that follows itself counts once.

    Attributes:
        start: Place of the first word of each text, then the number of all words; shape ``(texts + 1,)``.
        term: Number of each word.
        rarity: Rarity of each word.
    """

    start: NDArray[np.int64]
    term: NDArray[np.int64]
    rarity: NDArray[np.float64]


class KeywordIndex:
    """Ranks rows by the words that they share with a query.

    Args:
        stored: The BM25 scores.
        statistics: The words of the rows that count.
    """

    def __init__(self, stored: StoredScores, statistics: Statistics) -> None:
        self._bounds, self._rows, self._scores = stored
        self.statistics = statistics
        self._rarity = statistics.rarity
        self._found = FoundTerms(statistics, self._rarity)
        self._known: dict[str, NDArray[np.int64]] = {}

    def with_scores(self, stored: StoredScores) -> KeywordIndex:
        """Return an index of other rows by the same statistics. Both share what they have found of words."""
        other = copy(self)
        other._bounds, other._rows, other._scores = stored  # noqa: SLF001 - one of this class
        return other

    def find_terms(self, texts: Sequence[str], most: int | None) -> QueryTerms:
        """Find the words of queries that occur in the index, and weigh them.

        The rare words of a query chunk say what it is about; common and repeated words only favour long messages.
        So the rarest words of each text are taken, each once, similar to Lucene's MoreLikeThis. A text as long as
        a window is characterised by the words that it repeats, so without a limit every word has the weight
        1 + ln(its count).

        Args:
            texts: The queries.
            most: Most words of one query, the rarest first; None for all. A word of several languages is one word.

        Returns:
            The terms of all queries.
        """
        query, term, home = self._look_up(texts)
        width = max(1, len(self._bounds))
        if most is not None:
            rarest = self._take_rarest(np.unique(query * width + home), most)
            chosen = np.isin(query * width + home, rarest)
            query, term = query[chosen], term[chosen]
            home = home[chosen]
        # A score is by the rarity of its term. So that a word weighs the same everywhere, that of its home replaces it.
        factor = self._rarity[home] / self._rarity[term]
        order = np.lexsort((factor, query * width + term))
        keys, first, counts = np.unique((query * width + term)[order], return_index=True, return_counts=True)
        weight = factor[order][first]
        if most is None:
            weight *= 1 + np.log(counts)
        return QueryTerms(keys // width, keys % width, weight)

    def _look_up(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the query, the term, and the term's home of every word of the queries; see :class:`FoundTerms`."""
        found = self._found
        pairs = [
            list(itertools.chain.from_iterable(map(found.__getitem__, find_words(text)))) for text in texts
        ]
        query = np.repeat(np.arange(len(texts)), [len(row) // 2 for row in pairs])
        table = np.fromiter(itertools.chain.from_iterable(pairs), np.int64).reshape(-1, 2)
        return query, table[:, 0], table[:, 1]

    def _take_rarest(self, keys: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Keep the rarest words of each query, given as query times number of terms, plus the word's term."""
        width = max(1, len(self._bounds))
        query, term = keys // width, keys % width
        rarest = np.lexsort((term, -self._rarity[term], query))
        return keys[rarest[rank_within(query[rarest]) < most]]

    def score(self, terms: QueryTerms, first: int, last: int, start: int, stop: int) -> NDArray[np.float32]:
        """Score a range of rows for a range of queries.

        Args:
            terms: Words of at least these queries.
            first: The first query.
            last: The query after the last one.
            start: The first row.
            stop: The row after the last one.

        Returns:
            BM25 scores, shape ``(last - first, stop - start)``. A score does not depend on the ranges.
        """
        scores = np.zeros((last - first, stop - start), np.float32)
        begin, end = np.searchsorted(terms.query, [first, last])
        query, term, weight = (
            column[begin:end].tolist()
            for column in (terms.query, terms.term, terms.weight.astype(np.float32))
        )
        # In the stored type, since numpy would otherwise convert all stored rows.
        bounds = np.array((start, stop), self._rows.dtype)
        for position, number, factor in zip(query, term, weight, strict=True):
            stored = slice(*self._bounds[number : number + 2].tolist())
            rows, gains = self._rows[stored], self._scores[stored]
            # A word's rows are stored in order and without repeats, so the addition hits each row once.
            within = slice(*rows.searchsorted(bounds).tolist())
            scores[position - first][rows[within] - start] += gains[within] * factor
        return scores

    def search(
        self,
        terms: QueryTerms,
        request: SearchRequest,
        scope: Scope,
        besides: Matches | None = None,
    ) -> Matches:
        """Find the rows that share words with each query.

        Args:
            terms: The words of the queries.
            request: Number of candidates for one query.
            scope: The rows that each query may see.
            besides: Further pairs to score, ordered by query, even if they are not among the best.

        Returns:
            Rows with a BM25 score above zero: the best of each query, and those of ``besides``.
        """
        others = Matches.none() if besides is None else besides
        found, scored = [], []
        for first, last in scope.groups(CELLS_AT_ONCE):
            row_count = int(scope.stop[first:last].max(initial=0))
            scores = self.score(terms, first, last, 0, row_count)
            scope.hide(scores, first, 0)
            query, row = cells_of_best(scores, request.candidates, above=0)
            pairs = Matches(query + first, row, scores[query, row].astype(np.float64))
            found.append(take_best(pairs, request.candidates))
            begin, end = np.searchsorted(others.query, [first, last])
            group = others.where(slice(begin, end))
            group = group.where(group.row < row_count)
            score = scores[group.query - first, group.row].astype(np.float64)
            pairs = Matches(group.query, group.row, score)
            scored.append(pairs.where(score > 0))
        return Matches.joined([*found, *scored])

    def words_of(self, texts: Sequence[str]) -> IndexedWords:
        """Find the words of texts that occur in the index, in their order. Those of recent texts are remembered."""
        words = [self._list_words(text) for text in texts]
        start = np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(each) for each in words], out=start[1:])
        term = np.concatenate([np.empty(0, np.int64), *words])
        return IndexedWords(start, term, self._rarity[term])

    def _list_words(self, text: str) -> NDArray[np.int64]:
        known = self._known.get(text)
        if known is None:
            pairs = itertools.chain.from_iterable(map(self._found.__getitem__, find_words(text)))
            homes = list(itertools.islice(pairs, 1, None, 2))
            starts = map(operator.ne, homes, itertools.chain((None,), homes))
            known = np.array(list(itertools.compress(homes, starts)), np.int64)
            if len(self._known) >= _KEPT_TEXTS:
                self._known.clear()
            if len(text) <= _LONGEST_KEPT:
                self._known[text] = known
        return known

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that occur in the index.

        Returns:
            One row per text and distinct indexed word: ``text`` (position, uint32), ``term`` (number of the
            word, int64), ``rarity`` (inverse document frequency as in BM25, 1 for a word of a single row). A word of
            several languages is one word: that of the language in which it is least rare.
        """
        query, _, home = self._look_up(texts)
        width = max(1, len(self._bounds))
        keys = np.unique(query * width + home)
        text, term = keys // width, keys % width
        return pl.DataFrame(
            {"text": text, "term": term, "rarity": self._rarity[term]}, schema_overrides={"text": pl.UInt32}
        )
