"""The terms of the words of queries, in every language of the rows, and how rare each is.

Rows of a language that are few say little of how rare its words are, and some of them may be in another language than
was detected. So a word weighs the same in every language, and a stop word of any other is left out of a language of
few rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backstory.text.words import Words, list_parts

_ENOUGH_ROWS = 10
"""Number of rows of a language from which on they say how rare its words are."""
KEPT_WORDS = 65_536
"""Words whose terms are kept, some 15 MB; people may ask for any number of others."""


@dataclass(frozen=True)
class LanguageTerms:
    """The part of a keyword index that is in one language.

    Attributes:
        stemmer: Name of the Snowball stemmer, or ``none``.
        rows: Number of counted rows.
        terms: Number of distinct terms of these rows.
    """

    stemmer: str
    rows: int
    terms: int


@dataclass(frozen=True)
class Statistics:
    """What the rows that count say of words. The score of any other row follows from these alone.

    Attributes:
        languages: The languages of the rows, in the order of their terms; empty if no row holds a word.
        numbers: Number of each term, named by :func:`name_term`.
        frequency: Number of rows that hold each term.
        mean_words: Mean number of words of a row.
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
        return weigh_frequency(self.frequency, rows) / weigh_frequency(np.ones(len(rows), np.int64), rows)


NO_WORDS = Statistics((), {}, np.empty(0, np.int64), 0.0)
"""The statistics of rows without any word."""


class FoundTerms(dict[str, list[int]]):
    """A cache of the terms of words, in all languages, which begins again when it holds :data:`KEPT_WORDS`.

    A word and its parts each give pairs of numbers, one pair after another: a term in some language, and its home.
    The home is the term in which the word is least rare among the languages of enough rows; if there is none, the one
    in the language of most rows. So the forms of a word have one home, whatever the stemmers of other languages make
    of them.

    Args:
        statistics: The terms and the languages.
        rarity: Rarity of each term.
    """

    def __init__(self, statistics: Statistics, rarity: NDArray[np.float64]) -> None:
        self._numbers = statistics.numbers
        largest_first = sorted(statistics.languages, key=lambda language: (-language.rows, language.stemmer))
        self._languages = [(each.stemmer, Words(each.stemmer)) for each in largest_first]
        self._rows = {each.stemmer: each.rows for each in largest_first}
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
        for stemmer, words in self._languages:
            suffices = self._rows[stemmer] >= _ENOUGH_ROWS
            if is_stop_word and not suffices:
                # The few rows that hold the stop word would seem to be about it.
                break
            term = words.find_term(part)
            is_stop_word |= term is None
            number = None if term is None else self._numbers.get(name_term(stemmer, term))
            if number is None:
                continue
            terms.append(number)
            if not homes or suffices:
                homes.append(number)
        if not terms:
            return []
        home = min(homes, key=lambda term: (self._rarity[term], term))
        return [number for term in terms for number in (term, home)]


def name_term(stemmer: str, term: str) -> str:
    """Name a term of a language."""
    return f"{stemmer} {term}"


def weigh_frequency(frequency: NDArray[np.int64], rows: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Return the inverse document frequency of BM25 in Lucene's form, which is never negative."""
    weights: NDArray[np.float64] = np.log1p((rows - frequency + 0.5) / (frequency + 0.5))
    return weights
