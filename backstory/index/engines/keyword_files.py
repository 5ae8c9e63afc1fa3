"""Writes the keyword index of a snapshot: BM25 scores, computed block by block of rows.

How many rows hold a term, and how long a row usually is, is known when all rows are split into words. Until then their
terms wait in a file without a name. The scores are those of bm25s, bit for bit, which takes all rows into memory.
"""

from __future__ import annotations

import itertools
import json
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.found_terms import name_term
from backstory.index.engines.keywords import (
    BOUNDS_FILE,
    FREQUENCY_FILE,
    NUMBERS_FILE,
    SCORED_ROWS_FILE,
    SCORES_FILE,
    measure_rarity,
    weigh_frequency,
)
from backstory.index.engines.language_terms import LanguageTerms
from backstory.index.engines.score_blocks import ENTRY, Entries, ScoreBlocks
from backstory.index.snapshot.shards import write_header
from backstory.text.words import Words

ROWS_AT_ONCE = 8192

_K1: Final = 1.5
_B: Final = 0.75


class Strings(Protocol):
    """One string for each row, some of which are read at once."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Iterable[str]: ...


@dataclass(frozen=True)
class OrderedScores:
    """Scores in the order of the terms, and of the rows of a term.

    Attributes:
        bounds: The scores of term t lie from ``bounds[t]`` to ``bounds[t + 1]``.
        pieces: The scores, some terms at a time.
    """

    bounds: NDArray[np.int64]
    pieces: Iterator[Entries]


class CountedRows:
    """The rows that decide which words are known, how rare each is, and how long a text usually is.

    The score of any other row follows from these alone, so it is computed once, whatever rows there are beside it.

    Attributes:
        languages: The languages of the rows; empty if none holds a word.
        frequency: Number of rows that hold each term.
        names: Number of each term, by its name.
    """

    def __init__(
        self,
        texts: Strings,
        stemmers: Strings,
        *,
        counted: NDArray[np.bool_] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Split the rows into words, and score them.

        Args:
            texts: The searched text of each row.
            stemmers: The stemmer of each row; see :class:`backstory.text.words.Words`.
            counted: Which rows count; None for all.
            folder: Where the scores of many rows wait; None for the system's folder of temporary files.

        Raises:
            SettingsError: There is no such stemmer.
            OSError: The disk is full, or cannot be written.
        """
        self.languages: tuple[LanguageTerms, ...] = ()
        self.frequency = np.empty(0, np.int64)
        self.names: dict[str, int] = {}
        self._words: dict[str, Words] = {}
        self._others: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float32]]] = {}
        self._blocks = ScoreBlocks(folder)
        rows_of, lengths = Counter[str](), array("i")
        count = itertools.count()
        # Numbers in the order in which terms are first seen, until all are known.
        seen = defaultdict[str, dict[str, int]](lambda: defaultdict(count.__next__))
        for block in _read_blocks(texts, stemmers, counted, wanted=True):
            terms, first = array("i"), len(lengths)
            for _, stemmer, text in block:
                before = len(terms)
                terms.extend(map(seen[stemmer].__getitem__, self._split(stemmer, text)))
                lengths.append(len(terms) - before)
                rows_of[stemmer] += 1
            self._append(terms, first, lengths[first:])
        if not len(self.frequency):
            return
        self.languages = tuple(LanguageTerms(each, rows_of[each], len(seen[each])) for each in sorted(seen))
        order = self._name_terms(seen)
        self._average = sum(lengths) / len(lengths)
        self._weights = self._score_blocks(order, np.frombuffer(lengths, np.int32))

    def order_with(self, places: NDArray[np.int64], others: Mapping[int, tuple[str, str]]) -> OrderedScores:
        """Put other rows among these, and give the scores in the order of the terms, and of the rows of a term.

        Args:
            places: The place of each of these rows, ascending.
            others: The stemmer and the text of each other row by its place.
        """
        scored = [(place, *self._score(*row)) for place, row in others.items()]
        added = np.empty(sum(len(terms) for _, terms, _ in scored), ENTRY)
        if scored:
            added["term"] = np.concatenate([terms for _, terms, _ in scored])
            added["row"] = np.repeat(list(others), [len(terms) for _, terms, _ in scored])
            added["score"] = np.concatenate([scores for _, _, scores in scored])
        widths = self.frequency + np.bincount(added["term"], minlength=len(self.frequency))
        return OrderedScores(
            np.concatenate([[0], np.cumsum(widths)]), self._blocks.read_by_term(places, added)
        )

    def _split(self, stemmer: str, text: str) -> list[str]:
        if stemmer not in self._words:
            self._words[stemmer] = Words(stemmer)
        return self._words[stemmer].split(text)

    def _append(self, terms: array[int], first: int, lengths: array[int]) -> None:
        """Count how often each row of a block holds each term, and how many rows hold it."""
        rows = np.repeat(np.arange(first, first + len(lengths)), lengths)
        keys, repeats = np.unique(np.array(terms, np.int64) << 32 | rows, return_counts=True)
        entries = np.empty(len(keys), ENTRY)
        entries["term"], entries["row"], entries["score"] = keys >> 32, keys & 0xFFFFFFFF, repeats
        frequency = np.bincount(entries["term"], minlength=len(self.frequency))
        frequency[: len(self.frequency)] += self.frequency
        self.frequency = frequency
        self._blocks.append(entries)

    def _name_terms(self, seen: Mapping[str, Mapping[str, int]]) -> NDArray[np.int32]:
        """Number the terms language by language, each in alphabetic order; return the number of each seen one."""
        order = np.empty(len(self.frequency), np.int32)
        for stemmer in sorted(seen):
            for term in sorted(seen[stemmer]):
                order[seen[stemmer][term]] = number = len(self.names)
                self.names[name_term(stemmer, term)] = number
        self.frequency[order] = self.frequency.copy()
        return order

    def _score_blocks(self, order: NDArray[np.int32], lengths: NDArray[np.int32]) -> NDArray[np.float64]:
        """Score the rows so that each word weighs by its rarity in its language, and return the weights.

        A word of a single row weighs the same in every language.
        """
        counts, kind = np.unique(self.frequency, return_inverse=True)
        # The logarithm of the standard library and the type are those of bm25s, on which the last bits depend.
        rarity = [math.log(1 + (len(lengths) - count + 0.5) / (count + 0.5)) for count in counts.tolist()]
        rarities = np.array(rarity, np.float32)[kind]
        weights = weigh_frequency(self.frequency, len(lengths))
        factors: NDArray[np.float32] | None = None
        if len(self.languages) > 1:
            single = weigh_frequency(np.ones(1, np.int64), len(lengths))
            by_language = measure_rarity(self.frequency, self.languages) * single
            factors = (by_language / weights).astype(np.float32)
            weights = by_language

        def score(entries: Entries) -> None:
            term = entries["term"] = order[entries["term"]]
            repeats = entries["score"].astype(np.float64)
            length = lengths[entries["row"]]
            repeats /= _K1 * (1 - _B + _B * length / self._average) + repeats
            entries["score"] = rarities[term] * repeats
            if factors is not None:
                entries["score"] *= factors[term]

        self._blocks.replace(score, self.frequency)
        return weights

    def _score(self, stemmer: str, text: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        known = self._others.get((stemmer, text))
        if known is None:
            numbers = [self.names.get(name_term(stemmer, word)) for word in self._split(stemmer, text)]
            known = self._others[stemmer, text] = _score_row(numbers, self._weights, self._average)
        return known


def write_keywords(
    folder: Path,
    texts: Strings,
    stemmers: Strings,
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
        rows: The rows that count, if they were counted before.

    Returns:
        The languages of the counted rows, for :func:`backstory.index.engines.keywords.read_keywords`; empty if none
        holds a word.

    Raises:
        SettingsError: There is no such stemmer.
        OSError: The disk is full, or cannot be written.
    """
    rows = CountedRows(texts, stemmers, counted=counted, folder=folder) if rows is None else rows
    if not rows.languages:
        return ()
    places, others = split_rows(texts, stemmers, counted)
    ordered = rows.order_with(places, others)
    with (folder / SCORED_ROWS_FILE).open("wb") as row_file, (folder / SCORES_FILE).open("wb") as score_file:
        for file, name in ((row_file, "row"), (score_file, "score")):
            write_header(file, ENTRY[name], (int(ordered.bounds[-1]),))
        for piece in ordered.pieces:
            row_file.write(np.ascontiguousarray(piece["row"]).data)
            score_file.write(np.ascontiguousarray(piece["score"]).data)
    np.save(folder / BOUNDS_FILE, ordered.bounds)
    (folder / NUMBERS_FILE).write_text(json.dumps(rows.names, ensure_ascii=False), encoding="utf-8")
    if others:
        np.save(folder / FREQUENCY_FILE, rows.frequency)
    return rows.languages


def split_rows(
    texts: Strings, stemmers: Strings, counted: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], dict[int, tuple[str, str]]]:
    """Split rows into the places of those that count, and the stemmer and text of each other row by its place."""
    if counted is None:
        return np.arange(len(texts)), {}
    others = _read_blocks(texts, stemmers, counted, wanted=False)
    return np.flatnonzero(counted), {
        place: (stemmer, text) for block in others for place, stemmer, text in block
    }


def _read_blocks(
    texts: Strings, stemmers: Strings, counted: NDArray[np.bool_] | None, *, wanted: bool
) -> Iterator[Iterator[tuple[int, str, str]]]:
    """Read the place, stemmer and text of the rows that count, or of the others, block by block."""
    for start in range(0, len(texts), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        chosen = itertools.repeat(wanted) if counted is None else (counted[block] == wanted).tolist()
        if counted is None or any(chosen):
            rows = zip(itertools.count(start), stemmers[block], texts[block])
            yield itertools.compress(rows, chosen)


def _score_row(
    terms: Sequence[int | None], weights: NDArray[np.float64], average: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Score a row by the statistics of other rows, in the form of BM25 that bm25s calls "lucene".

    Args:
        terms: The number of each word of the row; None for one that is not known, which counts for its length.
        weights: Inverse document frequency of each term in the other rows.
        average: Their mean number of words.

    Returns:
        The row's terms, and the score of each.
    """
    found = Counter(term for term in terms if term is not None)
    term = np.fromiter(found.keys(), np.int64, len(found))
    repeats = np.fromiter(found.values(), np.float64, len(found))
    scores = weights[term] * repeats / (repeats + _K1 * (1 - _B + _B * len(terms) / average))
    return term, scores.astype(np.float32)
