"""The place of a quote in a passage: word by word, or with few other words, and never with another number."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import regex
from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

LEAST_SHARE: Final = 0.85
"""Least share of words that a quote and its place have in common, in their order: twice the words of the longest common
subsequence, by all words of both."""
_LEAST_WORDS: Final = 5
"""Words from which a quote may differ in one: of a shorter one, a single word is too much."""
_LONGEST_CHANGED: Final = 2
"""Most further words on each side at which a quote with other words may begin or end."""
_MOST_PLACES: Final = 20

# A sign of a script without spaces is a word of its own. Points, hyphens and signs before digits belong to a number.
_WORD: Final = regex.compile(
    r"(?:(?<![\p{L}\p{N}])[-−])?\p{N}+(?:[.,:]\p{N}+)*"
    r"|[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
    r"|[\p{L}\p{M}]+"
)
_OMISSION: Final = re.compile(r"\s*[\[(]?(?:\.{3,}|…)[\])]?\s*")
_DIGIT: Final = re.compile(r"\d")


@dataclass(frozen=True)
class Place:
    """Where a quote stands.

    Attributes:
        start: First character in the text.
        end: Character after the last one.
    """

    start: int
    end: int


@dataclass(frozen=True)
class _Words:
    """The words of a text, folded, and where each stands."""

    words: list[str]
    places: list[tuple[int, int]]

    def place(self, first: int, last: int) -> Place:
        return Place(self.places[first][0], self.places[last][1])


def find_quote(quote: str, text: str) -> list[Place]:
    """Find where a text says a quote.

    White space, case, punctuation, markup and typographic forms of letters do not count. An omission, ``…``, may stand
    for any words between the parts of a quote. A quote of five words or more may differ in a few of them, but in no
    number: at least :data:`LEAST_SHARE` of the words of the quote and of its place must be the same, in their order.

    Returns:
        Every place where it stands word by word; else the place that is most like it, or nothing.
    """
    said = _list_words(text)
    parts = [words for part in _OMISSION.split(quote) if (words := _list_words(part).words)]
    if not parts:
        return []
    if len(parts) == 1:
        exact = _find_all(parts[0], said.words)
        if exact:
            return [said.place(first, first + len(parts[0]) - 1) for first in exact]
    spans: list[tuple[int, int]] = []
    for part in parts:
        span = _find_one(part, said.words)
        if span is None:
            return []
        spans.append(span)
    if any(before[1] >= after[0] for before, after in pairwise(spans)):
        return []
    return [said.place(spans[0][0], spans[-1][1])]


def _list_words(text: str) -> _Words:
    found = list(_WORD.finditer(text))
    return _Words([_fold(word[0]) for word in found], [word.span() for word in found])


def _fold(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold().replace("−", "-")


def _find_all(wanted: list[str], words: list[str]) -> list[int]:
    """Find the positions at which words stand one after the other, at most :data:`_MOST_PLACES`."""
    count = len(wanted)
    starts = (start for start, word in enumerate(words) if word == wanted[0])
    return [start for start in starts if words[start : start + count] == wanted][:_MOST_PLACES]


def _find_one(wanted: list[str], words: list[str]) -> tuple[int, int] | None:
    """Find the first and the last position of words that are the same, or nearly."""
    exact = _find_all(wanted, words)
    if exact:
        return exact[0], exact[0] + len(wanted) - 1
    if len(wanted) < _LEAST_WORDS:
        return None
    near = fuzz.partial_ratio_alignment(wanted, words)
    if near is None:
        return None
    beginning = near.dest_start - near.src_start
    begin = max(beginning - _LONGEST_CHANGED, 0)
    end = min(beginning + len(wanted) + _LONGEST_CHANGED, len(words))
    common = LCSseq.editops(wanted, words[begin:end]).as_matching_blocks()
    blocks = [block for block in common if block.size]
    if not blocks:
        return None
    first, last = begin + blocks[0].b, begin + blocks[-1].b + blocks[-1].size - 1
    same = sum(block.size for block in blocks)
    if 2 * same < LEAST_SHARE * (len(wanted) + last - first + 1):
        return None
    numbers = {word for word in wanted if _DIGIT.search(word)}
    return (first, last) if numbers <= set(words[first : last + 1]) else None
