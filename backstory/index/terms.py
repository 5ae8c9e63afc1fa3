"""The terms of an index: how rare each is, which rows hold it, and what each row scores by it (BM25).

How many rows hold a term, and how long a row usually is, is known when all rows that count are split into words. Other
rows, such as written posts, are scored by these statistics and change none of them. All is computed once, when an
index is built.
"""

from __future__ import annotations

import itertools
import json
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backstory.base.files.arrays import map_array, view_array
from backstory.text.words import Words

_ROWS_AT_ONCE: Final = 8192
_K1: Final = 1.5
_B: Final = 0.75
_ARRAYS: Final = ("bounds", "rows", "scores", "frequency")
_NUMBERS_FILE: Final = "terms.json"

Rows: TypeAlias = Iterable[tuple[int, str, str]]
"""The place, the stemmer and the searched text of rows."""


@dataclass(frozen=True)
class LanguageTerms:
    """A Snowball stemmer or ``none``, the number of counted rows of its language, and of their distinct terms."""

    stemmer: str
    rows: int
    terms: int


@dataclass(frozen=True)
class Statistics:
    """What the rows that count say of words. The score of any other row follows from these alone.

    ``numbers`` has the number of each term, in the order of the languages; ``frequency`` the rows that hold it.
    """

    languages: tuple[LanguageTerms, ...]
    numbers: Mapping[str, int]
    frequency: NDArray[np.int64]
    mean_words: float

    @property
    def rows(self) -> int:
        """Number of rows that count."""
        return sum(language.rows for language in self.languages)

    @property
    def rarity(self) -> NDArray[np.float64]:
        """How rare each term is in the rows of its language: 1 for a term of a single row.

        Other languages do not count, since all words of a language with few rows would be rare among all rows.
        """
        rows = np.repeat(
            [language.rows for language in self.languages], [language.terms for language in self.languages]
        )
        return _weigh_frequency(self.frequency, rows) / _weigh_frequency(np.ones(len(rows), np.int64), rows)

    @property
    def weights(self) -> NDArray[np.float64]:
        """What a term adds to the score of a row, before its repeats and the length of the row count."""
        if len(self.languages) == 1:
            return _weigh_frequency(self.frequency, self.rows)
        return self.rarity * _weigh_frequency(np.ones(1, np.int64), self.rows)


_NO_WORDS = Statistics((), {}, np.empty(0, np.int64), 0.0)


class Entries(NamedTuple):
    """Scores, each of one term in one row."""

    term: NDArray[np.int32]
    row: NDArray[np.int32]
    score: NDArray[np.float32]


class StoredScores(NamedTuple):
    """Scores and their rows: those of term t lie from ``bounds[t]`` to ``bounds[t + 1]``, ordered by row."""

    bounds: NDArray[np.integer]
    rows: NDArray[np.integer]
    scores: NDArray[np.float32]


class _Counts(NamedTuple):
    """How often each row holds each term, and the number of words of that row."""

    term: NDArray[np.int32]
    row: NDArray[np.int32]
    repeats: NDArray[np.int32]
    length: NDArray[np.int32]


def count_rows(rows: Rows) -> tuple[Statistics, Entries]:
    """Split the rows that count into words, and score them.

    Each word weighs by its rarity in its language, so that a word of a single row weighs the same in every language.
    """
    number = itertools.count()
    # Numbers in the order in which terms are first seen, until all are known.
    seen = defaultdict[str, dict[str, int]](lambda: defaultdict(number.__next__))
    rows_of, words_of = Counter[str](), Counter[str]()
    counts = _count(rows, lambda stemmer: seen[stemmer].__getitem__, rows_of, words_of)
    if not len(counts.term):
        return _NO_WORDS, Entries(counts.term, counts.row, np.empty(0, np.float32))
    languages = tuple(LanguageTerms(each, rows_of[each], len(seen[each])) for each in sorted(seen))
    numbers: dict[str, int] = {}
    order = np.empty(sum(language.terms for language in languages), np.int32)
    for stemmer in sorted(seen):
        for term in sorted(seen[stemmer]):
            order[seen[stemmer][term]] = numbers[name_term(stemmer, term)] = len(numbers)
    counts = counts._replace(term=order[counts.term])
    frequency = np.bincount(counts.term)
    mean = sum(words_of.values()) / sum(rows_of.values())
    statistics = Statistics(languages, numbers, frequency, mean)
    # The last bits depend on the logarithm of the standard library, and on the type.
    kinds, kind = np.unique(frequency, return_inverse=True)
    rarity = [math.log(1 + (statistics.rows - each + 0.5) / (each + 0.5)) for each in kinds.tolist()]
    score = np.array(rarity, np.float32)[kind][counts.term] * _saturate(counts, mean)
    entries = Entries(counts.term, counts.row, score.astype(np.float32))
    if len(languages) > 1:
        factors = statistics.weights / _weigh_frequency(frequency, statistics.rows)
        entries.score[:] *= factors.astype(np.float32)[counts.term]
    return statistics, entries


def score_rows(rows: Rows, statistics: Statistics) -> Entries:
    """Score rows by the statistics of others; a word that is not known counts for the length of its row."""
    numbers = statistics.numbers

    def number_by(stemmer: str) -> Callable[[str], int]:
        return lambda word: numbers.get(name_term(stemmer, word), -1)

    counts = _count(rows if statistics.languages else (), number_by, Counter(), Counter())
    score = statistics.weights[counts.term] * _saturate(counts, statistics.mean_words)
    return Entries(counts.term, counts.row, score.astype(np.float32))


def order_entries(entries: Iterable[Entries], statistics: Statistics) -> StoredScores:
    """Put scores in the order of the terms, and of the rows of a term."""
    term, row, score = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    order = np.argsort(term.astype(np.int64) << 32 | row)
    bounds = np.zeros(len(statistics.numbers) + 1, np.int64)
    np.cumsum(np.bincount(term, minlength=len(statistics.numbers)), out=bounds[1:])
    return StoredScores(bounds, row[order], score[order])


def write_terms(folder: Path, stored: StoredScores, statistics: Statistics) -> None:
    """Write scores and the statistics of words into a folder, which is made, for :func:`read_terms`."""
    folder.mkdir()
    arrays: list[NDArray[Any]] = [stored.bounds, stored.rows, stored.scores, statistics.frequency]
    for name, values in zip(_ARRAYS, arrays, strict=True):
        np.save(folder / f"{name}.npy", values)
    (folder / _NUMBERS_FILE).write_text(json.dumps(statistics.numbers, ensure_ascii=False), encoding="utf-8")


def read_terms(
    folder: Path, languages: tuple[LanguageTerms, ...], mean_words: float
) -> tuple[StoredScores, Statistics]:
    """Open the terms of a folder, whose scores are mapped; OSError and ValueError tell that a file is damaged."""
    # The small ones are read, since each mapping keeps its file open.
    bounds, frequency = (
        view_array((folder / name).read_bytes(), np.int64) for name in ("bounds.npy", "frequency.npy")
    )
    rows, scores = map_array(folder / "rows.npy", np.int32), map_array(folder / "scores.npy", np.float32)
    numbers = json.loads((folder / _NUMBERS_FILE).read_text(encoding="utf-8"))
    return StoredScores(bounds, rows, scores), Statistics(languages, numbers, frequency, mean_words)


def name_term(stemmer: str, term: str) -> str:
    """Name a term of a language."""
    return f"{stemmer} {term}"


def _count(
    rows: Rows,
    number_by: Callable[[str], Callable[[str], int]],
    rows_of: Counter[str],
    words_of: Counter[str],
) -> _Counts:
    """Count the terms of rows, and add up the rows and words of each stemmer; a negative number is no term."""
    rows, words = iter(rows), dict[str, Words]()
    parts = [_Counts(*(np.empty(0, np.int32) for _ in _Counts._fields))]
    while block := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        terms, lengths = array("q"), array("q")
        for _, stemmer, text in block:
            if stemmer not in words:
                words[stemmer] = Words(stemmer)
            before = len(terms)
            terms.extend(map(number_by(stemmer), words[stemmer].split(text)))
            lengths.append(len(terms) - before)
            rows_of[stemmer] += 1
            words_of[stemmer] += lengths[-1]
        term, length = np.array(terms, np.int64), np.array(lengths, np.int64)
        place = np.repeat(np.arange(len(block)), length)
        known = term >= 0
        keys, repeats = np.unique(term[known] << 32 | place[known], return_counts=True)
        place = keys & 0xFFFFFFFF
        row = np.array([row for row, _, _ in block])
        counts = (keys >> 32, row[place], repeats, length[place])
        parts.append(_Counts(*(each.astype(np.int32) for each in counts)))
    return _Counts(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _saturate(counts: _Counts, mean_words: float) -> NDArray[np.float64]:
    """Return how much repeats of a term in a row count, by the number of words of the row."""
    saturated = counts.repeats.astype(np.float64)
    saturated /= _K1 * (1 - _B + _B * counts.length / mean_words) + saturated
    return saturated


def _weigh_frequency(frequency: NDArray[np.int64], rows: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Return the inverse document frequency of BM25 in Lucene's form, which is never negative."""
    weights: NDArray[np.float64] = np.log1p((rows - frequency + 0.5) / (frequency + 0.5))
    return weights
