"""Keyword search by BM25 (Robertson and Zaragoza 2009, in Lucene's form), with scores that are mapped from files.

Each row has one language, and its terms belong to this language. A word of a query is looked up in every language of
the rows, each time with its stemmer and stop words, so that a query, whose few words do not reveal it, needs none.

Rows of a language that are few say little of how rare its words are. So a word weighs the same in every language, and a
stop word of any other is left out of a language of few rows.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.request import Scope, SearchRequest
from backstory.index.scoring import CELLS_AT_ONCE, Matches, cells_of_best, rank_within, take_best
from backstory.index.terms import Statistics, StoredScores, name_term
from backstory.text.words import Words, find_words, list_parts

KEPT_WORDS = 65_536
"""Words whose terms are kept, some 15 MB; people may ask for any number of others."""
_ENOUGH_ROWS = 10
"""Number of rows of a language from which on they say how rare its words are."""
_KEPT_TEXTS: Final = 4096
"""Texts whose words an open index keeps, a few megabytes."""
_LONGEST_KEPT: Final = 1 << 13
"""Characters of the longest of them. A chunk has fewer, and only chunks are found again and again."""


@dataclass(frozen=True)
class QueryTerms:
    """The indexed terms of a batch of queries, ordered by query and term, with the weight of the BM25 score of each."""

    query: NDArray[np.int64]
    term: NDArray[np.int64]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class IndexedWords:
    """The words of some texts that occur in the index, in their order; a word that follows itself counts once.

    ``start`` has the place of the first word of each text, then the number of all words; shape ``(texts + 1,)``.
    """

    start: NDArray[np.int64]
    term: NDArray[np.int64]
    rarity: NDArray[np.float64]


class FoundTerms(dict[str, list[int]]):
    """A cache of the terms of words, in all languages, which begins again when it holds :data:`KEPT_WORDS`.

    A word and its parts each give pairs of numbers, one pair after another: a term in some language, and its home. That
    is the term in which the word is least rare among the languages of enough rows, or else the one in the language of
    most rows, so that the forms of a word have one home, whatever stemmers make of them.
    """

    def __init__(self, statistics: Statistics, rarity: NDArray[np.float64]) -> None:
        self._numbers = statistics.numbers
        largest_first = sorted(statistics.languages, key=lambda language: (-language.rows, language.stemmer))
        self._languages = [(each, Words(each.stemmer)) for each in largest_first]
        self._rarity = rarity

    def __missing__(self, word: str) -> list[int]:
        if len(self) >= KEPT_WORDS:
            self.clear()
        pairs = self[word] = [number for part in list_parts(word) for number in self._find_pairs(part)]
        return pairs

    def _find_pairs(self, part: str) -> list[int]:
        terms: list[int] = []
        homes: list[int] = []
        is_stop_word = False
        for language, words in self._languages:
            suffices = language.rows >= _ENOUGH_ROWS
            if is_stop_word and not suffices:
                # The few rows that hold the stop word would seem to be about it.
                break
            term = words.find_term(part)
            is_stop_word |= term is None
            number = None if term is None else self._numbers.get(name_term(language.stemmer, term))
            if number is None:
                continue
            terms.append(number)
            if not homes or suffices:
                homes.append(number)
        if not terms:
            return []
        home = min(homes, key=lambda term: (self._rarity[term], term))
        return [number for term in terms for number in (term, home)]


class KeywordIndex:
    """Ranks rows by the words that they share with a query."""

    def __init__(self, stored: StoredScores, statistics: Statistics) -> None:
        self._bounds, self._rows, self._scores = stored
        self.statistics = statistics
        self._width = max(1, len(stored.bounds))
        self._rarity = statistics.rarity
        self._found = FoundTerms(statistics, self._rarity)
        self._known: dict[str, NDArray[np.int64]] = {}

    def with_scores(self, stored: StoredScores) -> KeywordIndex:
        """Return an index of other rows by the same statistics. Both share what they have found of words."""
        other = copy(self)
        other._bounds, other._rows, other._scores = stored  # noqa: SLF001 - one of this class
        return other

    def find_terms(self, texts: Sequence[str], most: int | None) -> QueryTerms:
        """Find and weigh the words of queries that occur in the index, of each the ``most`` rarest; None for all.

        The rare words of a query chunk say what it is about, similar to Lucene's MoreLikeThis. A text as long as a
        window is characterised by the words that it repeats, so without a limit every word has the weight 1 + ln(its
        count).
        """
        pairs = [self._look_up(text) for text in texts]
        query = np.repeat(np.arange(len(texts)), [len(row) // 2 for row in pairs])
        table = np.fromiter(itertools.chain.from_iterable(pairs), np.int64).reshape(-1, 2)
        term, home = table[:, 0], table[:, 1]
        if most is not None:
            words = query * self._width + home
            chosen = np.isin(words, self._take_rarest(np.unique(words), most))
            query, term, home = query[chosen], term[chosen], home[chosen]
        # A score is by the rarity of its term. So that a word weighs the same everywhere, that of its home replaces it.
        factor = self._rarity[home] / self._rarity[term]
        order = np.lexsort((factor, query * self._width + term))
        keys, first, counts = np.unique(
            (query * self._width + term)[order], return_index=True, return_counts=True
        )
        weight = factor[order][first]
        if most is None:
            weight *= 1 + np.log(counts)
        return QueryTerms(keys // self._width, keys % self._width, weight)

    def _look_up(self, text: str) -> list[int]:
        """Return the terms of the words of a text with their homes; see :class:`FoundTerms`."""
        return list(itertools.chain.from_iterable(map(self._found.__getitem__, find_words(text))))

    def _take_rarest(self, keys: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Keep the rarest words of each query, given as query times number of terms, plus the word's term."""
        query, term = keys // self._width, keys % self._width
        rarest = np.lexsort((term, -self._rarity[term], query))
        return keys[rarest[rank_within(query[rarest]) < most]]

    def score(self, terms: QueryTerms, first: int, last: int, start: int, stop: int) -> NDArray[np.float32]:
        """Give the BM25 scores of the rows from ``start`` to ``stop`` for the queries from ``first`` to ``last``.

        The shape is ``(last - first, stop - start)``. A score does not depend on the ranges.
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
        self, terms: QueryTerms, request: SearchRequest, scope: Scope, besides: Matches | None = None
    ) -> Matches:
        """Find the rows with a BM25 score above zero: the best candidates of each query, and those of ``besides``.

        The pairs of ``besides``, which are ordered by query, are scored even if they are not among the best.
        """
        others = Matches.joined([]) if besides is None else besides
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
        """Find the words of texts that occur in the index, in their order. Those of recent texts are remembered.

        The rarity is that of BM25, 1 for a word of a single row, in the language in which the word is least rare.
        """
        words = [self._list_words(text) for text in texts]
        start = np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(each) for each in words], out=start[1:])
        term = np.concatenate([np.empty(0, np.int64), *words])
        return IndexedWords(start, term, self._rarity[term])

    def _list_words(self, text: str) -> NDArray[np.int64]:
        known = self._known.get(text)
        if known is None:
            homes = self._look_up(text)[1::2]
            starts = map(operator.ne, homes, itertools.chain((None,), homes))
            known = np.array(list(itertools.compress(homes, starts)), np.int64)
            if len(self._known) >= _KEPT_TEXTS:
                self._known.clear()
            if len(text) <= _LONGEST_KEPT:
                self._known[text] = known
        return known

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the distinct words of each text that occur in the index: ``text`` (position), ``term``, ``rarity``."""
        words = self.words_of(texts)
        text = np.repeat(np.arange(len(texts)), np.diff(words.start))
        keys = np.unique(text * self._width + words.term)
        term = keys % self._width
        return pl.DataFrame(
            {"text": keys // self._width, "term": term, "rarity": self._rarity[term]},
            schema_overrides={"text": pl.UInt32},
        )
