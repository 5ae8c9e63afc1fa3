"""Finding the paragraphs and headings of a Markdown text, as character offsets.

markdown-it-py finds headings, code and HTML by the rules of CommonMark, with two exceptions. A line of any whitespace
is blank. An underlined heading must be a single line after a blank line, since longer text above a dashed line is often
a log or misplaced front matter. A paragraph is the text between two blank lines: a heading and the text directly below
it are one paragraph, and so is a list without blank lines. Only fenced code keeps its blank lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from operator import itemgetter
from statistics import median
from typing import Final, TypeAlias

import numpy as np
from markdown_it import MarkdownIt

from backstory.text.chunking.units import Range, join_wrapped, split_sentences

# Every heading, fence and HTML block contains one of these. The parser is much slower than this search, and most chat
# messages contain none of them.
_STRUCTURE: Final = re.compile(r"[#<]|`{3}|~{3}|^ {0,3}(?:=+|-+)[ \t]*$", re.MULTILINE)
_HEADING: Final = re.compile(r"(#{1,6})(?:[ \t][^>]*)?\Z")
"""A heading that stands alone, unless it lies in code or HTML, neither of which it ends."""
_BLANK_LINES: Final = re.compile(r"\s*[\n\r]")
_LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_LEAST_SECTIONS: Final = 4
_LONGEST_MEDIAN: Final = 200
"""Characters of a section with its heading. The sections of an article are longer, and build on each other. At 400, the
releases of rustblog are cut, too, which costs .037 of its ncov@5."""

_Lines: TypeAlias = tuple[int, int]
"""The first line of a block, and the line after its last."""
_Heading: TypeAlias = tuple[int, int, str]
"""The first line, the level and the title of a heading."""


@dataclass(frozen=True)
class Part:
    """A range of a text that shares no chunk with its surroundings; one over the ceiling is divided into its parts."""

    start: int
    end: int
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Outline:
    """The units and headings of one text.

    ``units``: start of each unit, such as a paragraph, and the offset after its last character; fenced code is one
    paragraph, even with blank lines. ``parts``: what shares no chunk, in order. ``heading_starts``: offset of the first
    line of each heading outside of lists and quotes. ``headings``: each heading with those above it, outermost first,
    as ``"A > B"``; whitespace is folded. ``heading_levels``: levels of the headings, 1 to 6.
    """

    units: Sequence[Range]
    parts: Sequence[Part]
    heading_starts: Sequence[int] = ()
    headings: Sequence[str] = ()
    heading_levels: Sequence[int] = ()

    def heading_at(self, offset: int) -> str:
        """Return the last heading before an offset, with those above it; empty before the first."""
        place = bisect_right(self.heading_starts, offset)
        return self.headings[place - 1] if place else ""

    def list_units(self, text: str, part: Part) -> list[Range]:
        """List the units in a part; one that a bound of the part cuts is shortened."""
        first = bisect_right(self.units, part.start, key=itemgetter(1))
        units = list(self.units[first : bisect_left(self.units, part.end, key=itemgetter(0))])
        if units and units[0][0] < part.start:
            blank = _BLANK_LINES.match(text, part.start, units[0][1])
            units[0] = (blank.end() if blank else part.start, units[0][1])
        if units and units[-1][1] > part.end:
            start = units[-1][0]
            units[-1] = (start, start + len(text[start : part.end].rstrip()))
        return [(start, end) for start, end in units if text[start:end].strip()]


def outline_markdown(text: str) -> Outline:
    """Find the paragraphs and headings of a text; they cover every character but whitespace between paragraphs."""
    lines, offsets = _split_lines(text)
    fences, headings = _find_blocks(lines)
    return Outline(
        _find_paragraphs(lines, offsets, fences),
        [Part(0, len(text))],
        heading_starts=[offsets[line] for line, _, _ in headings],
        headings=_join_paths(headings),
        heading_levels=[level for _, level, _ in headings],
    )


def outline_paragraphs(text: str) -> Outline:
    """Find the paragraphs of a text that is no Markdown: what stands between blank lines."""
    return Outline(_find_paragraphs(*_split_lines(text), ()), [Part(0, len(text))])


def outline_sentences(text: str) -> Outline:
    """Find the sentences, list items and headings of a text; a sentence that goes on in the next line is one."""
    outline = outline_markdown(text)
    ranges: list[Range] = []
    for unit in outline.units:
        ranges += join_wrapped(text, split_sentences(text, *unit))
    return replace(outline, units=ranges)


def outline_sections(text: str) -> Outline:
    """Find the paragraphs of a text, and keep the sections of a list of short answers apart.

    Several answers in one chunk average away in its vector, and the words of the others dilute its keywords.
    """
    outline = outline_markdown(text)
    if len(outline.heading_starts) < _LEAST_SECTIONS:
        return outline
    bounds = [0]
    has_body = bool(text[: outline.heading_starts[0]].strip())
    for start, end in pairwise([*outline.heading_starts, len(text)]):
        # A heading without a text of its own stands above the next section.
        if has_body:
            bounds.append(start)
        has_body = "\n" in text[start:end].strip()
    sections = [Part(start, end) for start, end in pairwise([*bounds, len(text)])]
    sizes = [section.end - section.start for section in sections]
    is_list = len(sizes) >= _LEAST_SECTIONS and median(sizes) <= _LONGEST_MEDIAN
    return replace(outline, parts=sections) if is_list else outline


def outline_pages(text: str, pages: Sequence[Range], outline_page: Callable[[str], Outline]) -> Outline:
    """Outline each page by itself, so that no chunk holds text of two."""
    units: list[Range] = []
    parts: list[Part] = []
    places: list[int] = []
    headings: list[str] = []
    for start, end in pages:
        page = outline_page(text[start:end])
        units += [(start + first, start + last) for first, last in page.units]
        parts += [Part(start + part.start, start + part.end) for part in page.parts]
        places += [start, *(start + place for place in page.heading_starts)]
        headings += ["", *page.headings]
    return Outline(units, parts, places, headings)


def outline_rows(text: str) -> Outline:
    """Find the rows of a table, which are its lines that are not blank; the first line stands above them all."""
    rows = [match.span() for match in re.finditer(r"(?m)^.*\S.*$", text)]
    return Outline(rows, [Part(0, len(text))], [0], [text.partition("\n")[0].strip()])


def _split_lines(text: str) -> tuple[list[str], list[int]]:
    """Return the lines of a text without their ends, the blank ones empty, and the offset of each."""
    lines = text.splitlines(keepends=True)
    offsets = [0, *accumulate(map(len, lines))]
    return [line.rstrip(_LINE_ENDS) if line.strip() else "" for line in lines], offsets


def _join_paths(headings: Iterable[_Heading]) -> list[str]:
    paths = []
    above: list[tuple[int, str]] = []
    for _, level, title in headings:
        while above and above[-1][0] >= level:
            above.pop()
        outer = above[-1][1] if above else ""
        path = f"{outer} > {title}" if outer and title else outer or title
        above.append((level, path))
        paths.append(path)
    return paths


def _find_blocks(lines: Sequence[str]) -> tuple[list[_Lines], list[_Heading]]:
    """Find the blocks of fenced code, and the headings outside of lists and quotes."""
    marked = [line[:1] == "#" and _HEADING.match(line) is not None for line in lines]
    # Of neighbouring headings the parser, which is slow, reads the first: all of them lie in the same block.
    read = [line for line in range(len(lines)) if not (line and marked[line] and marked[line - 1])]
    markdown = "\n".join(lines[line] for line in read)
    tokens = _parser().parse(markdown) if _STRUCTURE.search(markdown) else []
    read.append(len(lines))
    fences: list[_Lines] = []
    headings: list[_Heading] = []
    for place, token in enumerate(tokens):
        if token.map is None or token.type not in ("fence", "heading_open"):
            continue
        first, stop = (read[line] for line in token.map)
        while stop > first and not lines[stop - 1]:  # an unclosed block ends with blank lines
            stop -= 1
        if token.type == "fence":
            # Code in a quote needs no entry: no line of a quote is blank, so the code is never split.
            if not lines[first].lstrip().startswith(">"):
                fences.append((first, stop))
        elif not token.level and marked[first]:
            headings += [(line, *_read_heading(lines[line])) for line in range(first, stop)]
        elif not token.level and (
            token.markup.startswith("#") or (stop - first == 2 and not (first and lines[first - 1]))
        ):
            headings.append((first, int(token.tag[1]), " ".join(tokens[place + 1].content.split())))
    return fences, headings


@lru_cache(maxsize=1024)
def _read_heading(line: str) -> tuple[int, str]:
    """Return the level and the title of a heading."""
    mark, *words = line.split()
    is_closed = bool(words) and not words[-1].strip("#")
    return len(mark), " ".join(words[:-1] if is_closed else words)


@cache
def _parser() -> MarkdownIt:
    """Build a parser of blocks without inline rules, which are not needed here."""
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _find_paragraphs(lines: Sequence[str], offsets: Sequence[int], fences: Iterable[_Lines]) -> list[Range]:
    filled = np.array([False, *map(bool, lines), False])
    divided = np.zeros(len(lines) + 1, bool)
    for first, stop in fences:
        filled[first + 1 : stop + 1] = True
        divided[[first, stop]] = True  # a paragraph must not cross the boundary of a code block
    edges = divided | (filled[1:] != filled[:-1])
    starts = np.flatnonzero(filled[1:] & edges).tolist()
    lasts = (np.flatnonzero(filled[:-1] & edges) - 1).tolist()
    return [
        (offsets[first], offsets[last] + len(lines[last])) for first, last in zip(starts, lasts, strict=True)
    ]
