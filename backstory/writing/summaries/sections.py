"""The sections of a document: by its pages, else by its headings, else by size, and never above a limit of words."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import Final

import regex

from backstory.text.chunking.outline import Outline, outline_markdown
from backstory.text.chunking.units import Pages, Range, join_wrapped, split_sentences

# A character of a script without spaces is a word of its own, or else a whole page of Chinese would be a few words.
_UNSPACED: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD: Final = regex.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")

_PAGE, _PARAGRAPH, _INSIDE = 0, 8, 9
"""How good it is to cut before a part of a text, best first; the levels of headings, 1 to 6, lie between."""

_OVERLAP_SHARE: Final = 4
"""Sections share at most this part of the limit: a fourth."""


@dataclass(frozen=True)
class Section:
    """A section of a document.

    Attributes:
        number: From 1.
        start: First character.
        end: Character after the last one.
        fresh: First character that is not in the section before.
        words: Number of words, those of the overlap included.
        heading: Headings above the first fresh character, outermost first; empty if there are none.
        pages: First and last page; None without pages.
    """

    number: int
    start: int
    end: int
    fresh: int
    words: int
    heading: str
    pages: tuple[int, int] | None


@dataclass(frozen=True)
class _Part:
    """A stretch of text that no section cuts; ``level`` says how good it is to cut before it."""

    start: int
    end: int
    words: int
    level: int


def count_words(text: str) -> int:
    """Count the words of a text: runs without white space, and each character of a script that puts no spaces."""
    return sum(1 for _ in _WORD.finditer(text))


def divide_sections(text: str, pages: Pages, max_words: int) -> list[Section]:
    """Divide a text into sections.

    A section holds as many words as the limit admits. It ends at the end of a page if one fits, else before a heading
    in its second half, else after a paragraph, and only in a paragraph longer than a fourth of the limit after a
    sentence. It begins again with the last page of the section before it, or with its last paragraph, or the last
    sentence of a long one: whatever has at most a fourth of the limit.

    Args:
        text: The text.
        pages: Its pages.
        max_words: Most words of a section, at least 1.

    Returns:
        The sections in order; every word is in at least one. Empty for a text without words.
    """
    outline = outline_markdown(text)
    parts = list(_list_parts(text, outline, pages, max(max_words // _OVERLAP_SHARE, 1)))
    sums = [0, *accumulate(part.words for part in parts)]
    sections: list[Section] = []
    first = fresh = 0
    while fresh < len(parts):
        fits = fresh + 1
        while fits < len(parts) and sums[fits + 1] - sums[first] <= max_words:
            fits += 1
        cut = fits if fits == len(parts) else _choose_cut(parts, sums, first, fresh, fits)
        start, end = parts[first].start, parts[cut - 1].end
        sections.append(
            Section(
                number=len(sections) + 1,
                start=start,
                end=end,
                fresh=parts[fresh].start,
                words=count_words(text[start:end]),
                heading=outline.heading_at(parts[fresh].start),
                pages=pages.find(start, end),
            )
        )
        first, fresh = _go_back(parts, sums, fresh, cut, max_words), cut
    return sections


def _choose_cut(parts: Sequence[_Part], sums: Sequence[int], first: int, fresh: int, fits: int) -> int:
    """Choose the part before which a section ends: the last one before which it is best to cut."""
    places = range(fresh + 1, fits + 1)
    if ends := [place for place in places if parts[place].level == _PAGE]:
        return ends[-1]
    half = (sums[first] + sums[fits]) / 2
    late = [place for place in places if sums[place] >= half]
    return min(late, key=lambda place: (parts[place].level, -place))


def _go_back(parts: Sequence[_Part], sums: Sequence[int], fresh: int, cut: int, max_words: int) -> int:
    """Find the part with which the next section begins, to overlap with the one that ends before ``cut``."""
    if cut == len(parts):
        return cut
    room = min(max_words // _OVERLAP_SHARE, max_words - parts[cut].words)
    for level in (_PAGE, _PARAGRAPH, _INSIDE):
        begins = next((place for place in range(cut - 1, fresh, -1) if parts[place].level <= level), None)
        if begins is not None and sums[cut] - sums[begins] <= room:
            return begins
    return cut


def _list_parts(text: str, outline: Outline, pages: Pages, most: int) -> Iterator[_Part]:
    """Divide a text into paragraphs, and those of more words than ``most`` into sentences or runs of words."""
    levels = dict(zip(outline.heading_starts, outline.heading_levels, strict=True))
    edges = sorted({*pages.starts, *levels})  # a page may end within a paragraph
    page = 0
    for paragraph in outline.units:
        for start, end in _cut_at(text, paragraph, edges):
            here = pages.find(start, start + 1)
            level = _PAGE if here is not None and here[0] != page else levels.get(start, _PARAGRAPH)
            page = here[0] if here else 0
            words = count_words(text[start:end])
            if words <= most:
                yield _Part(start, end, words, level)
                continue
            for left, right in _cut_small(text, start, end, most):
                yield _Part(left, right, count_words(text[left:right]), level if left == start else _INSIDE)


def _cut_at(text: str, paragraph: Range, edges: Sequence[int]) -> Iterator[Range]:
    start, end = paragraph
    inner = edges[bisect_right(edges, start) : bisect_left(edges, end)]
    for left, right in pairwise([start, *inner, end]):
        body = text[left:right]
        if stripped := body.strip():
            left += len(body) - len(body.lstrip())
            yield left, left + len(stripped)


def _cut_small(text: str, start: int, end: int, most: int) -> Iterator[Range]:
    for left, right in join_wrapped(text, split_sentences(text, start, end)):
        words = (match.span() for match in _WORD.finditer(text, left, right))
        while run := list(islice(words, most)):
            yield run[0][0], run[-1][1]
