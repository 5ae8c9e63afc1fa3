"""Words and phrases that a part and a chunk share, weighted by rarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from backstory.index.keywords import IndexedWords

Values = NDArray[np.float64]
Rows = NDArray[np.int64]

_PAIRS_AT_ONCE: Final = 1 << 14


@dataclass(frozen=True)
class WordLists:
    """The distinct words, or phrases, of some texts.

    Attributes:
        start: Place of the first word of each text, then the number of all words; shape ``(texts + 1,)``.
        word: Number of each word, ascending within a text.
        rarity: Rarity of each word.
    """

    start: Rows
    word: Rows
    rarity: Values

    def sum_rarity(self) -> Values:
        """Return the sum of the rarities of each text, shape ``(texts,)``."""
        text = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        return np.bincount(text, weights=self.rarity, minlength=len(self.start) - 1).astype(np.float64)


def list_words(words: IndexedWords) -> WordLists:
    """List the distinct words of texts.

    Args:
        words: From :meth:`backstory.index.search.SearchIndex.words_of`.
    """
    return _list_distinct(_number_texts(words), words.term, words.rarity, len(words.start) - 1)


def list_phrases(words: IndexedWords, width: int) -> WordLists:
    """List the distinct pairs of neighbouring words of texts, each with the mean of the rarities of its words.

    Args:
        words: See :func:`list_words`.
        width: A number above that of every word. Lists are comparable if they have the same.
    """
    text, term, rarity = _number_texts(words), words.term, words.rarity
    within = text[1:] == text[:-1]
    phrase = term[:-1] * width + term[1:]
    means = (rarity[:-1] + rarity[1:]) / 2
    return _list_distinct(text[:-1][within], phrase[within], means[within], len(words.start) - 1)


def weigh_shared(
    left: WordLists, left_rows: Rows, right: WordLists, right_rows: Rows
) -> tuple[Values, Values]:
    """Weigh what two texts share, pair by pair.

    Args:
        left: Lists of words.
        left_rows: Text of ``left`` of each pair; -1 for a text without words.
        right: Lists of words.
        right_rows: Text of ``right`` of each pair.

    Returns:
        The sum and the maximum of the rarities of the shared words, each of shape ``(pairs,)``; 0 for nothing.
    """
    # Numbers of the words of the left side alone, so that a word with its text fits into one integer.
    known, left_word = np.unique(left.word, return_inverse=True)
    place = np.minimum(np.searchsorted(known, right.word), max(0, len(known) - 1))
    is_known = known[place] == right.word if len(known) else np.zeros(len(right.word), bool)
    text = np.repeat(np.arange(len(right.start) - 1), np.diff(right.start))
    keys = text[is_known] * len(known) + place[is_known]
    sums, most = np.zeros(len(left_rows)), np.zeros(len(left_rows))
    if not len(keys):
        return sums, most
    lengths = np.append(np.diff(left.start), 0)[left_rows]
    starts = left.start[np.maximum(left_rows, 0)]
    # Pairs of one text follow each other, since what is looked up in turns of all texts is found more slowly.
    order = np.argsort(right_rows, kind="stable")
    for first in range(0, len(left_rows), _PAIRS_AT_ONCE):
        group = order[first : first + _PAIRS_AT_ONCE]
        length = lengths[group]
        pair = np.repeat(np.arange(len(length)), length)
        word = np.arange(len(pair)) + np.repeat(starts[group] - np.cumsum(length) + length, length)
        wanted = right_rows[group][pair] * len(known) + left_word[word]
        shared = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
        pair, rarity = pair[shared], left.rarity[word[shared]]
        sums[group] = np.bincount(pair, weights=rarity, minlength=len(length))
        highest = np.zeros(len(length))
        np.maximum.at(highest, pair, rarity)
        most[group] = highest
    return sums, most


def _number_texts(words: IndexedWords) -> Rows:
    """Return the text of each word."""
    return np.repeat(np.arange(len(words.start) - 1), np.diff(words.start))


def _list_distinct(text: Rows, word: Rows, rarity: Values, texts: int) -> WordLists:
    scale = int(word.max(initial=0)) + 1
    # The texts are in order, so that one key is sorted in a fraction of the time of two.
    fits = texts * scale < np.iinfo(np.int64).max
    order = np.argsort(text * scale + word, kind="stable") if fits else np.lexsort((word, text))
    text, word, rarity = text[order], word[order], rarity[order]
    is_first = np.ones(len(text), bool)
    is_first[1:] = (text[1:] != text[:-1]) | (word[1:] != word[:-1])
    start = np.searchsorted(text[is_first], np.arange(texts + 1))
    return WordLists(start, word[is_first], rarity[is_first])
