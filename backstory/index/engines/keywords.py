"""Keyword search by BM25 (Robertson and Zaragoza 2009, in Lucene's form), with scores from bm25s mapped from files.

Each row has one language, and its terms belong to this language. A word of a query is looked up in every language of
the rows, each time with the stemmer and stop words of that language. So a query needs no language, which a short
message does not reveal. As a row has one language, no word counts twice.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.engines.found_terms import FoundTerms, name_term
from backstory.index.engines.language_terms import LanguageTerms
from backstory.index.engines.matches import Matches, cells_of_best, rank_within, take_best
from backstory.index.engines.scope import Scope
from backstory.index.request import SearchRequest
from backstory.text.words import Words, find_words

CELLS_AT_ONCE = 1 << 22

_K1 = 1.5
_B = 0.75
_FREQUENCY_FILE = "frequency.npy"


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


class KeywordIndex:
    """Ranks rows by the words that they share with a query.

    Args:
        ranker: The BM25 scores, or None if no row holds any word.
        languages: The languages of the rows, in the order of their terms.
        frequency: Number of counted rows that hold each term; None if every row counts.
    """

    def __init__(
        self,
        ranker: bm25s.BM25 | None,
        languages: Sequence[LanguageTerms],
        frequency: NDArray[np.int64] | None = None,
    ) -> None:
        # Each stored score is of one term in one row; the scores of term t lie from bounds[t] to bounds[t + 1].
        # The arrays are viewed as plain ndarrays, since slicing a numpy.memmap is expensive.
        self._bounds = _plain(ranker, "indptr", np.zeros(1, np.int64))
        self._rows = _plain(ranker, "indices", np.empty(0, np.int32))
        self._scores = _plain(ranker, "data", np.empty(0, np.float32))
        counts = np.diff(self._bounds).astype(np.int64) if frequency is None else frequency
        self._rarity = _measure_rarity(counts, languages)
        numbers = {} if ranker is None else ranker.vocab_dict
        self._found = FoundTerms(numbers, languages, self._rarity)

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

    def words_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that occur in the index, in their order.

        Args:
            texts: Any texts.

        Returns:
            One row per word, with the columns of :meth:`terms_of`. A word that follows itself counts once.
        """
        text, _, term = self._look_up(texts)
        starts = np.ones(len(text), bool)
        starts[1:] = (text[1:] != text[:-1]) | (term[1:] != term[:-1])
        text, term = text[starts], term[starts]
        return pl.DataFrame({"text": text, "term": term, "rarity": self._rarity[term]})

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that occur in the index.

        Args:
            texts: Any texts.

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


def _measure_rarity(frequency: NDArray[np.int64], languages: Sequence[LanguageTerms]) -> NDArray[np.float64]:
    """Measure how rare each term is in the rows of its language: 1 for a term of a single row.

    Other languages do not count, since all words of a language with few rows would be rare among all rows.

    Args:
        frequency: Number of counted rows that hold each term.
        languages: The languages, in the order of their terms.
    """
    rows = np.repeat([each.rows for each in languages], [each.terms for each in languages])
    return _weigh(frequency, rows) / _weigh(np.ones(len(rows), np.int64), rows)


def _weigh(frequency: NDArray[np.int64], rows: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Return the inverse document frequency of BM25, in the form of bm25s that is called "lucene"."""
    weights: NDArray[np.float64] = np.log1p((rows - frequency + 0.5) / (frequency + 0.5))
    return weights


def _plain(ranker: bm25s.BM25 | None, name: str, empty: NDArray[Any]) -> NDArray[Any]:
    return empty if ranker is None else np.asarray(ranker.scores[name])


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
        The languages of the counted rows, for :func:`read_keywords`; empty if none holds a word.

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
        np.save(folder / _FREQUENCY_FILE, frequency)
    ranker.save(folder, show_progress=False)
    return languages


def _weigh_by_language(
    ranker: bm25s.BM25, frequency: NDArray[np.int64], languages: Sequence[LanguageTerms]
) -> NDArray[np.float64]:
    """Change the scores so that each word weighs by its rarity in its language, and give the weights.

    A word of a single row weighs the same in every language. With one language, nothing changes.
    """
    rows = sum(each.rows for each in languages)
    weights = _weigh(frequency, rows)
    if len(languages) == 1:
        return weights
    by_language = _measure_rarity(frequency, languages) * _weigh(np.ones(1, np.int64), rows)
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


def read_keywords(folder: Path, languages: Sequence[LanguageTerms]) -> KeywordIndex:
    """Open the keyword index that :func:`write_keywords` wrote, with its scores mapped.

    Args:
        folder: Folder that was passed to :func:`write_keywords`.
        languages: What :func:`write_keywords` returned.
    """
    ranker = bm25s.BM25.load(folder, mmap=True, show_progress=False) if languages else None
    counted = folder / _FREQUENCY_FILE
    return KeywordIndex(ranker, languages, np.load(counted) if counted.is_file() else None)
