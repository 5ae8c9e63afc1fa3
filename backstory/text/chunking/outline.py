"""Finding the paragraphs and headings of a Markdown text, as character offsets.

markdown-it-py finds headings, code and HTML by the rules of CommonMark, with two exceptions. A line of any whitespace
is blank. An underlined heading must be a single line after a blank line, since longer text above a dashed line is often
a log or misplaced front matter. A paragraph is the text between two blank lines: a heading and the text directly below
it are one paragraph, and so is a list without blank lines. Only fenced code keeps its blank lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
from markdown_it import MarkdownIt
from markdown_it.token import Token

from backstory.text.chunking.tokens import Offsets
from backstory.text.chunking.units import Range

# Every heading, fence and HTML block contains one of these. The parser is much slower than this search, and most chat
# messages contain none of them.
_STRUCTURE = re.compile(r"[#<]|`{3}|~{3}|^ {0,3}(?:=+|-+)[ \t]*$", re.MULTILINE)
_SHORT: Final = 65_536
"""Characters of a text whose outline is kept for a while."""
_BLANK_LINES = re.compile(r"\s*[\n\r]")
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@dataclass(frozen=True)
class Part:
    """A range of a text that shares no chunk with its surroundings; one over the ceiling is divided into its parts."""

    start: int
    end: int
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Outline:
    """The units and headings of one text.

    Attributes:
        starts: Offset of each unit, such as a paragraph; fenced code is one paragraph, even with blank lines.
        ends: Offset after the last character of each unit, without its line end.
        heading_starts: Offset of the first line of each heading outside of lists and quotes.
        headings: Each heading with those above it, outermost first, as ``"A > B"``; whitespace is folded.
        heading_levels: Levels of the headings, 1 to 6.
        parts: What shares no chunk, in order.
    """

    starts: Offsets
    ends: Offsets
    heading_starts: Sequence[int]
    headings: Sequence[str]
    heading_levels: Sequence[int]
    parts: Sequence[Part]

    def heading_at(self, offset: int) -> str:
        """Return the last heading before an offset, with those above it; empty before the first."""
        place = bisect_right(self.heading_starts, offset)
        return self.headings[place - 1] if place else ""

    def without_headings(self) -> Outline:
        """Return the outline without its headings."""
        return replace(self, heading_starts=(), headings=(), heading_levels=())

    def list_units(self, text: str, part: Part) -> list[Range]:
        """List the units in a part; one that a bound of the part cuts is shortened."""
        inside = slice(self.ends.searchsorted(part.start, "right"), self.starts.searchsorted(part.end))
        starts, ends = self.starts[inside].tolist(), self.ends[inside].tolist()
        if starts and starts[0] < part.start:
            blank = _BLANK_LINES.match(text, part.start, ends[0])
            starts[0] = blank.end() if blank else part.start
        if ends and ends[-1] > part.end:
            ends[-1] = starts[-1] + len(text[starts[-1] : part.end].rstrip())
        return [(start, end) for start, end in zip(starts, ends, strict=True) if text[start:end].strip()]


@dataclass(frozen=True)
class _Blocks:
    """The blocks found by the parser.

    Attributes:
        fences: First line of each fenced code block, and the line after its last.
        headings: First line, level and title of each heading.
    """

    fences: Sequence[tuple[int, int]] = ()
    headings: Sequence[tuple[int, int, str]] = ()


def outline_markdown(text: str) -> Outline:
    """Find the paragraphs and headings of a text; they cover every character but whitespace between paragraphs."""
    return _outline_short(text) if len(text) <= _SHORT else _outline(text)


@lru_cache(maxsize=128)
def _outline_short(text: str) -> Outline:
    # A text is read for its title and to be cut, one time soon after the other.
    return _outline(text)


def _outline(text: str) -> Outline:
    lines = text.splitlines(keepends=True)
    blocks = _find_blocks(lines)
    levels = [level for _, level, _ in blocks.headings]
    starts, ends, offsets = _find_paragraphs(lines, blocks.fences)
    return Outline(
        starts,
        ends,
        heading_starts=[offsets[line] for line, _, _ in blocks.headings],
        headings=_join_paths(levels, [title for _, _, title in blocks.headings]),
        heading_levels=levels,
        parts=[Part(0, len(text))],
    )


def outline_paragraphs(text: str) -> Outline:
    """Find the paragraphs of a text that is no Markdown: what stands between blank lines."""
    starts, ends, _ = _find_paragraphs(text.splitlines(keepends=True), ())
    return Outline(starts, ends, (), (), (), [Part(0, len(text))])


def _join_paths(levels: Sequence[int], titles: Sequence[str]) -> list[str]:
    paths = []
    above: list[tuple[int, str]] = []
    for level, title in zip(levels, titles, strict=True):
        while above and above[-1][0] >= level:
            above.pop()
        outer = above[-1][1] if above else ""
        path = f"{outer} > {title}" if outer and title else outer or title
        above.append((level, path))
        paths.append(path)
    return paths


def _find_blocks(lines: Sequence[str]) -> _Blocks:
    # One line feed per line, so that the parser's line numbers match `lines`.
    source = "\n".join(line.rstrip(_LINE_ENDS) if line.strip() else "" for line in lines)
    if not _STRUCTURE.search(source):
        return _Blocks()
    tokens = _parser().parse(source)
    return _Blocks(
        fences=[
            (first, stop)
            for first, stop in (_lines_of(token, lines) for token in tokens if token.type == "fence")
            # Code in a quote needs no entry: no line of a quote is blank, so the code is never split.
            if not lines[first].lstrip().startswith(">")
        ],
        headings=[
            (_lines_of(opening, lines)[0], int(opening.tag[1]), " ".join(inline.content.split()))
            for opening, inline in pairwise(tokens)
            if opening.type == "heading_open" and _is_title(opening, lines)
        ],
    )


def _is_title(heading: Token, lines: Sequence[str]) -> bool:
    if heading.level:
        return False
    first, stop = _lines_of(heading, lines)
    is_underlined = not heading.markup.startswith("#")
    return not is_underlined or (stop - first == 2 and not (first and lines[first - 1].strip()))


@cache
def _parser() -> MarkdownIt:
    """Build a parser of blocks without inline rules, which are not needed here."""
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _lines_of(token: Token, lines: Sequence[str]) -> tuple[int, int]:
    """Return the line range of a block, without the trailing blank lines of an unclosed block."""
    first, stop = token.map or (0, 0)
    while stop > first and not lines[stop - 1].strip():
        stop -= 1
    return first, stop


def _find_paragraphs(
    lines: Sequence[str], fences: Sequence[tuple[int, int]]
) -> tuple[Offsets, Offsets, Sequence[int]]:
    """Return the start and the end of each paragraph, and the offset of every line."""
    offsets = [0, *accumulate(map(len, lines))]
    filled = [bool(line.strip()) for line in lines]
    for first, stop in fences:
        filled[first:stop] = [True] * (stop - first)
    # A paragraph must not cross the boundary of a code block.
    divisions = {line for fence in fences for line in fence}
    firsts: list[int] = []
    lasts: list[int] = []
    for line in range(len(lines)):
        if not filled[line]:
            continue
        if firsts and lasts[-1] == line - 1 and line not in divisions:
            lasts[-1] = line
        else:
            firsts.append(line)
            lasts.append(line)
    ends = [offsets[line] + len(lines[line].rstrip(_LINE_ENDS)) for line in lasts]
    return np.array([offsets[line] for line in firsts], np.int64), np.array(ends, np.int64), offsets
