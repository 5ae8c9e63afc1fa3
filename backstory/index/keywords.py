"""Keyword search: BM25 (Robertson and Zaragoza 2009, in Lucene's form) by bm25s, mapped from files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import bm25s
import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.filters import Scope
from backstory.index.matches import Matches, take_best
from backstory.index.words import Words


class KeywordIndex:
    """Ranks rows by the words that they share with a query.

    Args:
        ranker: The BM25 scores, or None if no row holds any word.
        words: How texts are split.
    """

    def __init__(self, ranker: bm25s.BM25 | None, words: Words) -> None:
        self._ranker = ranker
        self._words = words

    def search(
        self, texts: Sequence[str], limit: int, scope: Scope, besides: Matches | None = None
    ) -> Matches:
        """Find the rows that share words with each query.

        Args:
            texts: The queries.
            limit: Most rows to find for one query.
            scope: The rows that each query may be given.
            besides: Pairs, ordered by query, that are scored too, however low.

        Returns:
            Rows with a BM25 score above zero: the best of each query, and those of ``besides``.
        """
        others = Matches.none() if besides is None else besides
        bounds = np.searchsorted(others.query, np.arange(len(texts) + 1))
        found, scored = [], []
        for query, text in enumerate(texts):
            scores = self._score(text, int(scope.stop[query]), scope.mask)
            lowest = np.partition(scores, -limit)[-limit] if limit < len(scores) else 0.0
            best = np.flatnonzero((scores >= lowest) & (scores > 0)).astype(np.int64)
            asked = others.row[bounds[query] : bounds[query + 1]]
            asked = asked[asked < len(scores)]
            found.append(_matches(query, best, scores))
            scored.append(_matches(query, asked[scores[asked] > 0], scores))
        return Matches.joined([take_best(Matches.joined(found), limit), *scored])

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that occur in some row.

        Args:
            texts: Any texts.

        Returns:
            One row per text and distinct known word: ``text`` (its position, uint32), ``term`` (number of the
            word, int64), ``rarity`` (inverse document frequency as in BM25, 1 for a word of a single row).
        """
        schema = {"text": pl.UInt32, "term": pl.Int64}
        if self._ranker is None:
            return pl.DataFrame(schema={**schema, "rarity": pl.Float64})
        ranker = self._ranker
        known = [sorted(set(ranker.get_tokens_ids(self._words.split(text)))) for text in texts]
        terms = np.fromiter(chain.from_iterable(known), np.int64)
        positions = np.repeat(np.arange(len(texts)), [len(row) for row in known])
        # One stored score is one row that holds the word.
        frequency = np.diff(np.asarray(ranker.scores["indptr"]))[terms]
        rows = ranker.scores["num_docs"]
        rarity = np.log1p((rows - frequency + 0.5) / (frequency + 0.5)) / np.log1p((rows - 0.5) / 1.5)
        return pl.DataFrame({"text": positions, "term": terms}, schema=schema).with_columns(
            rarity=pl.Series(rarity, dtype=pl.Float64)
        )

    def _score(self, text: str, stop: int, mask: NDArray[np.bool_] | None) -> NDArray[np.float32]:
        numbers = [] if self._ranker is None else self._ranker.get_tokens_ids(self._words.split(text))
        if self._ranker is None or not numbers:
            return np.zeros(stop, dtype=np.float32)
        scores: NDArray[np.float32] = self._ranker.get_scores_from_ids(numbers)[:stop]
        return scores if mask is None else scores * mask[:stop]


def _matches(query: int, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> Matches:
    return Matches(np.full(len(rows), query, np.int64), rows, scores[rows].astype(np.float64))


def write_keywords(folder: Path, texts: Sequence[str], language: str) -> int:
    """Build the keyword index of rows and write it.

    Args:
        folder: An existing empty folder.
        texts: What is searched of each row.
        language: Language of the texts; see :class:`backstory.index.words.Words`.

    Returns:
        Number of distinct words.

    Raises:
        SettingsError: The language is not known.
    """
    words = Words(language)
    split = [words.split(text) for text in texts]
    vocabulary = {word: number for number, word in enumerate(sorted({word for row in split for word in row}))}
    if vocabulary:
        ranker = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        numbers = [[vocabulary[word] for word in row] for row in split]
        ranker.index((numbers, vocabulary), create_empty_token=False, show_progress=False)
        ranker.save(folder, show_progress=False)
    return len(vocabulary)


def read_keywords(folder: Path, language: str, word_count: int) -> KeywordIndex:
    """Open the keyword index that :func:`write_keywords` wrote, its scores mapped.

    Args:
        folder: Where it was written.
        language: The language with which it was written.
        word_count: The number of distinct words that was returned.
    """
    ranker = bm25s.BM25.load(folder, mmap=True, show_progress=False) if word_count else None
    return KeywordIndex(ranker, Words(language))
