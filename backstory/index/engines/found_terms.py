"""The terms of the words of queries, in every language of the rows.

Rows of a language that are few say little of how rare its words are, and some of them may be in another language than
was detected. So a word weighs the same in every language, and a stop word of any other is left out of a language of
few rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from backstory.index.engines.language_terms import LanguageTerms
from backstory.text.words import Words, list_parts

_ENOUGH_ROWS = 10
"""Number of rows of a language from which on they say how rare its words are."""
KEPT_WORDS = 65_536
"""Words whose terms are kept, some 15 MB; people may ask for any number of others."""


class FoundTerms(dict[str, list[int]]):
    """A cache of the terms of words, in all languages, which begins again when it holds :data:`KEPT_WORDS`.

    A word and its parts each give pairs of numbers, one pair after another: a term in some language, and its home.
    The home is the term in which the word is least rare among the languages of enough rows; if there is none, the one
    in the language of most rows. So the forms of a word have one home, whatever the stemmers of other languages make
    of them.

    Args:
        numbers: Number of each term, named by :func:`name_term`.
        languages: The languages, in the order of their terms.
        rarity: Rarity of each term.
    """

    def __init__(
        self, numbers: Mapping[str, int], languages: Sequence[LanguageTerms], rarity: NDArray[np.float64]
    ) -> None:
        self._numbers = numbers
        largest_first = sorted(languages, key=lambda language: (-language.rows, language.stemmer))
        self._languages = [(each.stemmer, Words(each.stemmer)) for each in largest_first]
        self._rows = {each.stemmer: each.rows for each in languages}
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
