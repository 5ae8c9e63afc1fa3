"""Writes the keyword index of a snapshot, with the scores of bm25s."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Final, TypeAlias

import bm25s
import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.found_terms import name_term
from backstory.index.engines.keywords import FREQUENCY_FILE, measure_rarity, weigh_frequency
from backstory.index.engines.language_terms import LanguageTerms
from backstory.text.words import Words

Scores: TypeAlias = NDArray[Any]
"""An array of the scores of bm25s: ``data``, ``indices`` or ``indptr``."""

_K1: Final = 1.5
_B: Final = 0.75


class CountedRows:
    """The rows that decide which words are known, how rare each is, and how long a text usually is.

    The score of any other row follows from these alone, so it is computed once, whatever rows there are beside it.

    Attributes:
        languages: The languages of the rows; empty if none holds a word.
        ranker: The scores of the rows; None if none holds a word.
        frequency: Number of rows that hold each term.
        names: Number of each term, by its name.
    """

    def __init__(self, texts: Sequence[str], stemmers: Sequence[str]) -> None:
        """Split the rows into words, and score them.

        Args:
            texts: The searched text of each row.
            stemmers: The stemmer of each row; see :class:`backstory.text.words.Words`.

        Raises:
            SettingsError: There is no such stemmer.
        """
        self._words = {stemmer: Words(stemmer) for stemmer in sorted(set(stemmers))}
        self._others: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float32]]] = {}
        self._numbers, rows = _number_terms(self._words, texts, stemmers)
        rows_of = Counter(stemmers)
        self.languages: tuple[LanguageTerms, ...] = ()
        self.ranker: bm25s.BM25 | None = None
        self.frequency = np.empty(0, np.int64)
        self.names: dict[str, int] = {}
        if not any(self._numbers.values()):
            return
        self.languages = tuple(
            LanguageTerms(each, rows_of[each], len(terms)) for each, terms in self._numbers.items()
        )
        self.ranker = bm25s.BM25(method="lucene", k1=_K1, b=_B)
        self.names = {
            name_term(each, term): number
            for each in self._numbers
            for term, number in self._numbers[each].items()
        }
        self.ranker.index((rows, self.names), create_empty_token=False, show_progress=False)
        self.frequency = np.diff(self.ranker.scores["indptr"]).astype(np.int64)
        self._weights = _weigh_by_language(self.ranker, self.frequency, self.languages)
        self._average = sum(map(len, rows)) / len(rows)

    def score_with(self, places: Sequence[int], others: Mapping[int, tuple[str, str]]) -> dict[str, Scores]:
        """Put other rows among these, so that the scores of each word are in the order of the rows.

        Args:
            places: The place of each of these rows, ascending.
            others: The stemmer and the text of each other row by its place, ascending.

        Returns:
            The scores of all rows, as :attr:`ranker` holds them.
        """
        assert self.ranker is not None  # noqa: S101 - a caller asks only if there are words
        added = {place: self._score(*row) for place, row in others.items()}
        return _add_rows(self.ranker.scores, np.array(places, np.int64), added)

    def _score(self, stemmer: str, text: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        known = self._others.get((stemmer, text))
        if known is None:
            if stemmer not in self._words:
                self._words[stemmer] = Words(stemmer)
            known = self._others[stemmer, text] = _score_row(
                self._words[stemmer].split(text), self._numbers.get(stemmer, {}), self._weights, self._average
            )
        return known


def count_rows(
    texts: Sequence[str], stemmers: Sequence[str], counted: NDArray[np.bool_] | None = None
) -> CountedRows:
    """Count the rows of a snapshot that count; for the arguments, see :func:`write_keywords`."""
    places, _ = split_rows(texts, stemmers, counted)
    return CountedRows([texts[place] for place in places], [stemmers[place] for place in places])


def write_keywords(
    folder: Path,
    texts: Sequence[str],
    stemmers: Sequence[str],
    *,
    counted: NDArray[np.bool_] | None = None,
    rows: CountedRows | None = None,
) -> tuple[LanguageTerms, ...]:
    """Build the keyword index of rows and write it.

    Args:
        folder: An existing empty folder.
        texts: The searched text of each row.
        stemmers: The stemmer of each row; see :class:`backstory.text.words.Words`.
        counted: Which rows count, as for :class:`CountedRows`; None for all. The score of a row does not depend on the
            rows that are not counted.
        rows: The rows that count, if :func:`count_rows` has counted them.

    Returns:
        The languages of the counted rows, for :func:`backstory.index.engines.keywords.read_keywords`; empty if none
        holds a word.

    Raises:
        SettingsError: There is no such stemmer.
    """
    rows = count_rows(texts, stemmers, counted) if rows is None else rows
    if rows.ranker is None:
        return ()
    places, others = split_rows(texts, stemmers, counted)
    written = copy(rows.ranker)
    if others:
        written.scores = {**written.scores, **rows.score_with(places, others)}
        np.save(folder / FREQUENCY_FILE, rows.frequency)
    written.save(folder, show_progress=False)
    return rows.languages


def split_rows(
    texts: Sequence[str], stemmers: Sequence[str], counted: NDArray[np.bool_] | None
) -> tuple[list[int], dict[int, tuple[str, str]]]:
    """Split rows into the places of those that count, and the stemmer and text of each other row by its place."""
    if counted is None:
        return list(range(len(texts))), {}
    places: list[int] = np.flatnonzero(counted).tolist()
    others: list[int] = np.flatnonzero(~counted).tolist()
    return places, {place: (stemmers[place], texts[place]) for place in others}


def _weigh_by_language(
    ranker: bm25s.BM25, frequency: NDArray[np.int64], languages: Sequence[LanguageTerms]
) -> NDArray[np.float64]:
    """Change the scores so that each word weighs by its rarity in its language, and give the weights.

    A word of a single row weighs the same in every language. With one language, nothing changes.
    """
    rows = sum(each.rows for each in languages)
    weights = weigh_frequency(frequency, rows)
    if len(languages) == 1:
        return weights
    by_language = measure_rarity(frequency, languages) * weigh_frequency(np.ones(1, np.int64), rows)
    ranker.scores["data"] *= np.repeat(by_language / weights, frequency).astype(np.float32)
    return by_language


def _number_terms(
    words: Mapping[str, Words], texts: Sequence[str], stemmers: Sequence[str]
) -> tuple[dict[str, dict[str, int]], list[array[int]]]:
    """Split rows into terms, and number those of all languages, language by language, each in alphabetic order.

    Rows are kept as numbers, in whose place their words would take several times the memory.

    Args:
        words: What splits the texts, by stemmer.
        texts: The searched text of each row.
        stemmers: The stemmer of each row.

    Returns:
        The number of each term by stemmer, and the numbers of each row's terms.
    """
    count = itertools.count()
    # Numbers in the order in which terms are first seen, until all are known.
    seen = {stemmer: defaultdict[str, int](count.__next__) for stemmer in words}
    rows = [
        array("i", map(seen[stemmer].__getitem__, words[stemmer].split(text)))
        for text, stemmer in zip(texts, stemmers, strict=True)
    ]
    ordered = [(stemmer, term) for stemmer in sorted(seen) for term in sorted(seen[stemmer])]
    number_of = np.empty(len(ordered), np.int32)
    numbers: dict[str, dict[str, int]] = {stemmer: {} for stemmer in sorted(seen)}
    for number, (stemmer, term) in enumerate(ordered):
        number_of[seen[stemmer][term]] = number
        numbers[stemmer][term] = number
    for row in rows:
        view = np.frombuffer(row, np.int32)
        view[:] = number_of[view]
    return numbers, rows


def _score_row(
    words: Sequence[str], numbers: Mapping[str, int], weights: NDArray[np.float64], average: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Score a row by the statistics of other rows, in the form of BM25 that bm25s calls "lucene".

    Args:
        words: The words of the row; its length counts those that are not known, too.
        numbers: Number of each known word.
        weights: Inverse document frequency of each known word in the other rows.
        average: Their mean number of words.

    Returns:
        Numbers of the row's known words, and the score of each.
    """
    found = Counter(numbers[word] for word in words if word in numbers)
    term = np.fromiter(found.keys(), np.int64, len(found))
    repeats = np.fromiter(found.values(), np.float64, len(found))
    scores = weights[term] * repeats / (repeats + _K1 * (1 - _B + _B * len(words) / average))
    return term, scores.astype(np.float32)


def _add_rows(
    stored: Mapping[str, Scores],
    places: NDArray[np.int64],
    added: Mapping[int, tuple[NDArray[np.int64], NDArray[np.float32]]],
) -> dict[str, Scores]:
    """Put further rows among the scored ones, so that the scores of each word stay in the order of the rows."""
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
    return {
        "indices": row[order].astype(stored["indices"].dtype),
        "data": score[order].astype(stored["data"].dtype),
        "indptr": np.concatenate([[0], np.cumsum(np.bincount(term, minlength=len(widths)))]).astype(
            bounds.dtype
        ),
    }
