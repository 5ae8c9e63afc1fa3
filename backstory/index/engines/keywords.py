"""Keyword search by BM25 (Robertson and Zaragoza 2009, in Lucene's form), with scores from bm25s mapped from files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.engines.matches import Matches, cells_of_best, rank_within, take_best
from backstory.index.engines.scope import Scope
from backstory.index.engines.words import Words
from backstory.index.request import SearchRequest

CELLS_AT_ONCE = 1 << 22

_K1 = 1.5
_B = 0.75
_FREQUENCY_FILE = "frequency.npy"


@dataclass(frozen=True)
class QueryTerms:
    """The indexed words of a batch of queries, ordered by query and word.

    Attributes:
        query: Position of the query, int64.
        term: Number of the word, int64.
        weight: Weight of the word's BM25 score, float64.
    """

    query: NDArray[np.int64]
    term: NDArray[np.int64]
    weight: NDArray[np.float64]


class KeywordIndex:
    """Ranks rows by the words that they share with a query.

    Args:
        ranker: The BM25 scores, or None if no row holds any word.
        words: Splits texts into words.
        frequency: Number of counted rows that hold each word; None if every row counts.
    """

    def __init__(
        self, ranker: bm25s.BM25 | None, words: Words, frequency: NDArray[np.int64] | None = None
    ) -> None:
        self._words = words
        self._numbers: dict[str, int] = {} if ranker is None else ranker.vocab_dict
        self._row_count = 0 if ranker is None else int(ranker.scores["num_docs"])
        # Each stored score is of one word in one row; the scores of word t lie from bounds[t] to bounds[t + 1].
        # The arrays are viewed as plain ndarrays, since slicing a numpy.memmap is expensive.
        self._bounds = _plain(ranker, "indptr", np.zeros(1, np.int64))
        self._rows = _plain(ranker, "indices", np.empty(0, np.int32))
        self._scores = _plain(ranker, "data", np.empty(0, np.float32))
        self._counted = np.diff(self._bounds).astype(np.int64) if frequency is None else frequency

    def find_terms(self, texts: Sequence[str], most: int | None) -> QueryTerms:
        """Find the words of queries that occur in the index, and weigh them.

        The rare words of a query chunk say what it is about; common and repeated words only favour long messages.
        So the rarest words of each text are taken, each once, similar to Lucene's MoreLikeThis. A text as long as
        a window is characterised by the words that it repeats, so without a limit every word has the weight
        1 + ln(its count).

        Args:
            texts: The queries.
            most: Most words of one query, the rarest first; None for all.

        Returns:
            The words of all queries.
        """
        numbers = self._numbers
        known = [[numbers[word] for word in self._words.split(text) if word in numbers] for text in texts]
        term = np.fromiter(chain.from_iterable(known), np.int64)
        query = np.repeat(np.arange(len(texts)), [len(row) for row in known])
        width = max(1, len(self._bounds))
        keys, counts = np.unique(query * width + term, return_counts=True)
        query, term = keys // width, keys % width
        if most is None:
            return QueryTerms(query, term, 1 + np.log(counts))
        rarest = np.lexsort((term, self._frequency(term), query))
        kept = np.sort(rarest[rank_within(query[rarest]) < most])
        return QueryTerms(query[kept], term[kept], np.ones(len(kept)))

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
            asked = others.where(slice(begin, end))
            asked = asked.where(asked.row < row_count)
            score = scores[asked.query - first, asked.row].astype(np.float64)
            pairs = Matches(asked.query, asked.row, score)
            scored.append(pairs.where(score > 0))
        return Matches.joined([*found, *scored])

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that occur in the index.

        Args:
            texts: Any texts.

        Returns:
            One row per text and distinct indexed word: ``text`` (position, uint32), ``term`` (number of the
            word, int64), ``rarity`` (inverse document frequency as in BM25, 1 for a word of a single row).
        """
        terms = self.find_terms(texts, most=None)
        rows, frequency = self._row_count, self._frequency(terms.term)
        rarity = np.log1p((rows - frequency + 0.5) / (frequency + 0.5))
        if rows:
            rarity /= np.log1p((rows - 0.5) / 1.5)
        return pl.DataFrame(
            {"text": terms.query, "term": terms.term, "rarity": rarity}, schema_overrides={"text": pl.UInt32}
        )

    def _frequency(self, term: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the number of counted rows that hold each word."""
        frequency: NDArray[np.int64] = self._counted[term]
        return frequency


def _plain(ranker: bm25s.BM25 | None, name: str, empty: NDArray[Any]) -> NDArray[Any]:
    return empty if ranker is None else np.asarray(ranker.scores[name])


def write_keywords(
    folder: Path, texts: Sequence[str], language: str, *, counted: NDArray[np.bool_] | None = None
) -> int:
    """Build the keyword index of rows and write it.

    Args:
        folder: An existing empty folder.
        texts: The searched text of each row.
        language: Language of the texts; see :class:`backstory.index.engines.words.Words`.
        counted: Which rows decide which words are known, how rare each is, and how long a text usually is; None for
            all. The score of a row does not depend on the rows that are not counted.

    Returns:
        Number of distinct words.

    Raises:
        SettingsError: There is no stemmer for the language.
    """
    words = Words(language)
    split = [words.split(text) for text in texts]
    places = np.arange(len(split)) if counted is None else np.flatnonzero(counted)
    basis = [split[place] for place in places]
    numbers = {word: number for number, word in enumerate(sorted(set().union(*basis)))}
    if not numbers:
        return 0
    ranker = bm25s.BM25(method="lucene", k1=_K1, b=_B)
    rows = [list(map(numbers.__getitem__, row)) for row in basis]
    ranker.index((rows, numbers), create_empty_token=False, show_progress=False)
    if len(places) < len(split):
        frequency = np.diff(ranker.scores["indptr"]).astype(np.int64)
        others = np.setdiff1d(np.arange(len(split)), places)
        average = sum(map(len, basis)) / len(basis)
        added = {
            int(place): _score_row(split[place], numbers, frequency, len(basis), average) for place in others
        }
        _add_rows(ranker, places, added)
        np.save(folder / _FREQUENCY_FILE, frequency)
    ranker.save(folder, show_progress=False)
    return len(numbers)


def _score_row(
    words: Sequence[str], numbers: Mapping[str, int], frequency: NDArray[np.int64], count: int, average: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Score a row by the statistics of other rows, in the form of BM25 that bm25s calls "lucene".

    Args:
        words: The words of the row; its length counts those that are not known, too.
        numbers: Number of each known word.
        frequency: Number of the other rows that hold each known word.
        count: Number of the other rows.
        average: Their mean number of words.

    Returns:
        Numbers of the row's known words, and the score of each.
    """
    found = Counter(numbers[word] for word in words if word in numbers)
    term = np.fromiter(found.keys(), np.int64, len(found))
    repeats = np.fromiter(found.values(), np.float64, len(found))
    rarity = np.log1p((count - frequency[term] + 0.5) / (frequency[term] + 0.5))
    scores = rarity * repeats / (repeats + _K1 * (1 - _B + _B * len(words) / average))
    return term, scores.astype(np.float32)


def _add_rows(
    ranker: bm25s.BM25,
    places: NDArray[np.int64],
    added: Mapping[int, tuple[NDArray[np.int64], NDArray[np.float32]]],
) -> None:
    """Put further rows among the scored ones, so that the scores of each word stay in the order of the rows."""
    stored = ranker.scores
    bounds = stored["indptr"]
    widths = np.diff(bounds)
    term = np.concatenate(
        [np.repeat(np.arange(len(widths)), widths), *(terms for terms, _ in added.values())]
    )
    row = np.concatenate(
        [places[stored["indices"]], *(np.full(len(terms), place) for place, (terms, _) in added.items())]
    )
    score = np.concatenate([stored["data"], *(scores for _, scores in added.values())])
    order = np.lexsort((row, term))
    stored["indices"] = row[order].astype(stored["indices"].dtype)
    stored["data"] = score[order].astype(stored["data"].dtype)
    stored["indptr"] = np.concatenate([[0], np.cumsum(np.bincount(term, minlength=len(widths)))]).astype(
        bounds.dtype
    )


def read_keywords(folder: Path, language: str, word_count: int) -> KeywordIndex:
    """Open the keyword index that :func:`write_keywords` wrote, with its scores mapped.

    Args:
        folder: Folder that was passed to :func:`write_keywords`.
        language: Language that was passed to :func:`write_keywords`.
        word_count: Number of distinct words that :func:`write_keywords` returned.
    """
    ranker = bm25s.BM25.load(folder, mmap=True, show_progress=False) if word_count else None
    counted = folder / _FREQUENCY_FILE
    return KeywordIndex(ranker, Words(language), np.load(counted) if counted.is_file() else None)
