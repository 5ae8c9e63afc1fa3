"""Writes the keyword index of a snapshot, with the scores of bm25s."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import bm25s
import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.found_terms import name_term
from backstory.index.engines.keywords import FREQUENCY_FILE, measure_rarity, weigh_frequency
from backstory.index.engines.language_terms import LanguageTerms
from backstory.text.words import Words

_K1: Final = 1.5
_B: Final = 0.75


def write_keywords(
    folder: Path,
    texts: Sequence[str],
    stemmers: Sequence[str],
    *,
    counted: NDArray[np.bool_] | None = None,
) -> tuple[LanguageTerms, ...]:
    """Build the keyword index of rows and write it.

    Args:
        folder: An existing empty folder.
        texts: The searched text of each row.
        stemmers: The stemmer of each row; see :class:`backstory.text.words.Words`.
        counted: Which rows decide which words are known, how rare each is, and how long a text usually is; None for
            all. The score of a row does not depend on the rows that are not counted.

    Returns:
        The languages of the counted rows, for :func:`backstory.index.engines.keywords.read_keywords`; empty if none
        holds a word.

    Raises:
        SettingsError: There is no such stemmer.
    """
    words = {stemmer: Words(stemmer) for stemmer in sorted(set(stemmers))}
    split = [words[stemmer].split(text) for text, stemmer in zip(texts, stemmers, strict=True)]
    places: list[int] = (np.arange(len(split)) if counted is None else np.flatnonzero(counted)).tolist()
    numbers = _number_terms((stemmers[place], split[place]) for place in places)
    rows_of = Counter(stemmers[place] for place in places)
    languages = tuple(LanguageTerms(each, rows_of[each], len(numbers[each])) for each in numbers)
    if not any(each.terms for each in languages):
        return ()
    ranker = bm25s.BM25(method="lucene", k1=_K1, b=_B)
    rows = [list(map(numbers[stemmers[place]].__getitem__, split[place])) for place in places]
    names = {name_term(each, term): number for each in numbers for term, number in numbers[each].items()}
    ranker.index((rows, names), create_empty_token=False, show_progress=False)
    frequency = np.diff(ranker.scores["indptr"]).astype(np.int64)
    weights = _weigh_by_language(ranker, frequency, languages)
    if len(places) < len(split):
        average = sum(map(len, rows)) / len(rows)
        others = sorted(set(range(len(split))).difference(places))
        added = {
            place: _score_row(split[place], numbers.get(stemmers[place], {}), weights, average)
            for place in others
        }
        _add_rows(ranker, np.array(places), added)
        np.save(folder / FREQUENCY_FILE, frequency)
    ranker.save(folder, show_progress=False)
    return languages


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


def _number_terms(rows: Iterable[tuple[str, Sequence[str]]]) -> dict[str, dict[str, int]]:
    """Number the terms of all languages, language by language, from the language and the terms of each row."""
    terms: defaultdict[str, set[str]] = defaultdict(set)
    for stemmer, row in rows:
        terms[stemmer].update(row)
    count = itertools.count()
    return {stemmer: dict(zip(sorted(terms[stemmer]), count, strict=False)) for stemmer in sorted(terms)}


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
