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
from typing import Final, TypeAlias

import numpy as np
from markdown_it import MarkdownIt
from markdown_it.token import Token
from numpy.typing import NDArray

from backstory.text.chunking.units import Range, join_wrapped, split_sentences

Offsets: TypeAlias = NDArray[np.int64]

# Every heading, fence and HTML block contains one of these. The parser is much slower than this search, and most chat
# messages contain none of them.
_STRUCTURE = re.compile(r"[#<]|`{3}|~{3}|^ {0,3}(?:=+|-+)[ \t]*$", re.MULTILINE)
_SHORT: Final = 65_536
"""Characters of a text whose outline is kept for a while."""
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@dataclass(frozen=True)
class MarkdownOutline:
    """The paragraphs and headings of one text.

    Attributes:
        text: The whole text.
        starts: Offset of the first line of each paragraph; fenced code is one paragraph, even with blank lines.
        ends: Offset after the last character of each paragraph, without its line end.
        heading_starts: Offset of the first line of each heading outside of lists and quotes.
        heading_levels: Levels of the headings, 1 to 6.
        heading_titles: Texts of the headings, whitespace folded.
    """

    text: str
    starts: Offsets
    ends: Offsets
    heading_starts: list[int]
    heading_levels: list[int]
    heading_titles: list[str]

    def headings_at(self, offsets: Offsets) -> list[str]:
        """Return the headings above each offset, outermost first, as ``"A > B"``."""
        paths = ["", *self.heading_paths()]
        return [paths[bisect_right(self.heading_starts, offset)] for offset in offsets.tolist()]

    def heading_paths(self) -> list[str]:
        """List the path of every heading, in order."""
        paths = []
        above: list[tuple[int, str]] = []
        for level, title in zip(self.heading_levels, self.heading_titles, strict=True):
            while above and above[-1][0] >= level:
                above.pop()
            outer = above[-1][1] if above else ""
            path = f"{outer} > {title}" if outer and title else outer or title
            above.append((level, path))
            paths.append(path)
        return paths


@dataclass(frozen=True)
class _Blocks:
    """The blocks found by the parser.

    Attributes:
        fences: First line of each fenced code block, and the line after its last.
        headings: First line, level and title of each heading.
    """

    fences: Sequence[tuple[int, int]] = ()
    headings: Sequence[tuple[int, int, str]] = ()


def outline_markdown(text: str) -> MarkdownOutline:
    """Find the paragraphs and headings of a text.

    It returns the outline; it covers every character except whitespace between paragraphs.
    """
    return _outline_short(text) if len(text) <= _SHORT else _outline(text)


@lru_cache(maxsize=128)
def _outline_short(text: str) -> MarkdownOutline:
    # A text is read for its title, for the longest heading and to be cut, one time soon after the other.
    return _outline(text)


def _outline(text: str) -> MarkdownOutline:
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    blocks = _find_blocks(lines)
    firsts, lasts = _find_paragraphs(lines, blocks)
    return MarkdownOutline(
        text,
        np.array([starts[line] for line in firsts], np.int64),
        np.array([starts[line] + len(lines[line].rstrip(_LINE_ENDS)) for line in lasts], np.int64),
        [starts[line] for line, _, _ in blocks.headings],
        [level for _, level, _ in blocks.headings],
        [title for _, _, title in blocks.headings],
    )


def outline_sentences(text: str) -> MarkdownOutline:
    """Find the sentences and headings of a text; a sentence that goes on in the next line is one.

    It returns the outline, with a sentence, list item or heading in place of each paragraph.
    """
    outline = outline_markdown(text)
    ranges: list[Range] = []
    for start, end in zip(outline.starts.tolist(), outline.ends.tolist(), strict=True):
        ranges += join_wrapped(text, split_sentences(text, start, end))
    bounds = np.array(ranges, np.int64).reshape(-1, 2)
    return replace(outline, starts=bounds[:, 0], ends=bounds[:, 1])


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


def _find_paragraphs(lines: Sequence[str], blocks: _Blocks) -> tuple[list[int], list[int]]:
    """Return the first and the last line of each paragraph."""
    filled = [bool(line.strip()) for line in lines]
    for first, stop in blocks.fences:
        filled[first:stop] = [True] * (stop - first)
    # A paragraph must not cross the boundary of a code block.
    divisions = {line for fence in blocks.fences for line in fence}
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
    return firsts, lasts
