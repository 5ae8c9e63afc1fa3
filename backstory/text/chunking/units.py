"""Pages, sentences, words and grapheme clusters of a text, as character offsets.

What splits takes a range of a text and returns the ranges of its units in order. Only whitespace between the units is
omitted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final, TypeAlias

import numpy as np
import regex

from backstory.text.chunking.abbreviations import goes_on

Range: TypeAlias = tuple[int, int]

_WORD = re.compile(r"\S+")
_WORD_START = re.compile(r"(?<!\S)\S")
_BODY = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_GRAPHEME = regex.compile(r"\X")
_LINE_ENDS = "\n\r\v\f\x85\u2028\u2029"
_SENTENCE_BREAK = re.compile(
    r"""
      [\n\r\v\f\x85\u2028\u2029]\s*                         # a line end
    | (?<=[.!?…。！？｡])\s+
    | (?<=[.!?…。！？｡]["'”’»)\]」』】）])\s+
    # no space follows in Chinese and Japanese
    | (?<=[。！？｡])(?![。！？｡"'”’»)\]」』】）\s\u0300-\u036f\ufe00-\ufe0f])
    | (?<=[。！？｡][”’」』】）])(?!\s)
    """,
    re.VERBOSE,
)
_ENDS_A_SENTENCE = re.compile(r"[.!?…。！？｡:：;|][\"'”’»)\]」』】）*_`]*\Z")
_BEGINS_A_LINE = re.compile(r"[-+*•>|]|\d{1,9}[.)]\s|#{1,6}\s|`{3}|~{3}")
_ROW: Final = re.compile(r"[^\n:;|]{1,80}: [^\n;]*; [^\n:;]{1,80}: |[^\n|]*[^\s|] \| [^\s|]")
"""Beginning of a row of a table, as CSV and JSON (``name: Ann; city: Riga``) or a sheet (``Ann | Riga``) are read."""


@dataclass(frozen=True)
class Pages:
    """The pages of one text.

    Attributes:
        starts: Offset at which each page begins, the first at 0; a page without text begins where the next one does.
            Empty for a text without pages.
        confidences: Confidence of each page whose text was recognised in an image, else None; empty if none was.
    """

    starts: Sequence[int] = ()
    confidences: Sequence[float | None] = ()

    def split(self, length: int) -> list[Range]:
        """Return start and end of every page of a text of some length; of the whole text if it has no pages."""
        return list(pairwise([0, *self.starts[1:], length]))

    def find(self, start: int, end: int) -> tuple[int, int] | None:
        """Find the pages of the characters from ``start`` to ``end``.

        It returns the first and the last page, from 1; None without pages.
        """
        if not self.starts:
            return None
        return bisect_right(self.starts, start), bisect_right(self.starts, max(start, end - 1))

    def find_confidence(self, first: int, last: int) -> float | None:
        """Return the least confidence of the pages ``first`` to ``last``, from 1; None if none was recognised."""
        known = [value for value in self.confidences[first - 1 : last] if value is not None]
        return min(known, default=None)


def split_sentences(text: str, start: int, end: int) -> list[Range]:
    """Split a range at the ends of sentences and lines."""
    return _strip(text, start, end, find_sentence_starts(text, start, end))


def find_sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Find where each sentence or line of a range begins that is not its first."""
    for match in _SENTENCE_BREAK.finditer(text, start, end):
        stop, after = match.span()
        is_inside_line = start < stop < after < end and text[stop] not in _LINE_ENDS
        if not (is_inside_line and goes_on(text, stop, after)):
            yield after


def join_wrapped(text: str, sentences: Iterable[Range]) -> list[Range]:
    """Join the lines of a sentence that goes on after a line end, and the sentences of a row of a table."""
    joined: list[Range] = []
    for start, end in sentences:
        if joined and _goes_on(text, joined[-1], start):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _goes_on(text: str, before: Range, start: int) -> bool:
    gap = text[before[1] : start]
    sentence = text[before[0] : before[1]]
    if sentence.startswith("|"):
        return "\n" not in gap
    return (
        gap.count("\n") == 1
        and not _ENDS_A_SENTENCE.search(sentence)
        and not sentence.startswith("#")
        and not _BEGINS_A_LINE.match(text, start)
        and not _ROW.match(text, start)
    )


def split_words(text: str, start: int, end: int) -> list[Range]:
    """Split a range at its whitespace."""
    return [match.span() for match in _WORD.finditer(text, start, end)]


def find_word_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Find where each word begins in a range."""
    return (match.start() for match in _WORD_START.finditer(text, start, end))


def split_graphemes(text: str, start: int, end: int, parts: int) -> list[Range]:
    """Split a range into parts of about the same length, never inside a user-perceived character.

    Grapheme clusters are those of Unicode Standard Annex 29.
    """
    boundaries = np.fromiter((match.start() for match in _GRAPHEME.finditer(text, start, end)), np.int64)
    wanted = start + (end - start) * np.arange(1, parts) // parts
    places = np.minimum(boundaries.searchsorted(wanted), len(boundaries) - 1)
    return _strip(text, start, end, boundaries[places].tolist())


def _strip(text: str, start: int, end: int, cuts: Iterable[int]) -> list[Range]:
    edges = pairwise(chain([start], cuts, [end]))
    return [body.span() for left, right in edges if (body := _BODY.search(text, left, right))]
