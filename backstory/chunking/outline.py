"""Where the paragraphs and headings of a Markdown text lie, as character offsets.

Blank lines, fenced code and headings follow CommonMark, except that a line of any whitespace is blank and
that an underlined heading is a single line. A fenced block ends with the text if nothing closes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from backstory.chunking.outline_lines import SPACE, Flags, Lines, Offsets, read_lines

_DEEPEST_HEADING = 6
_BATCH_CHARACTERS = 100_000  # a batch and what is computed of it stay in the processor's cache

_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*", re.DOTALL)
_UNDERLINE = re.compile(r"(=+|-+)\s*")


@dataclass(frozen=True)
class MarkdownOutline:
    """The paragraphs and headings of one text.

    Attributes:
        text: The text.
        starts: Offset of the first character of each paragraph; a fenced code block is one paragraph.
        ends: Offset after the last character of each paragraph, its line end left out.
        heading_starts: Offset of the line of each heading.
        heading_ends: Offset after that line.
        heading_levels: 1 to 6.
    """

    text: str
    starts: Offsets
    ends: Offsets
    heading_starts: Offsets
    heading_ends: Offsets
    heading_levels: Offsets
    _paths: dict[int, str] = field(default_factory=lambda: {-1: ""}, repr=False, compare=False)

    def headings_at(self, offsets: Offsets) -> list[str]:
        """Give the headings above each offset, outermost first, as ``"A > B"``.

        Args:
            offsets: Character offsets; a heading that starts at one counts.

        Returns:
            The paths, empty before the first heading.
        """
        if not len(self.heading_starts):
            return [""] * len(offsets)
        positions = self.heading_starts.searchsorted(offsets, side="right") - 1
        return [self._path(position) for position in positions.tolist()]

    def heading_paths(self) -> list[str]:
        """List the path of every heading, in order."""
        return [self._path(position) for position in range(len(self.heading_starts))]

    def _path(self, position: int) -> str:
        path = self._paths.get(position)
        if path is None:
            start, end = self.heading_starts.item(position), self.heading_ends.item(position)
            title = _read_heading(self.text[start:end])
            outer = self._path(self._parent(position))
            path = self._paths[position] = f"{outer} > {title}" if outer and title else outer or title
        return path

    def _parent(self, position: int) -> int:
        level = self.heading_levels.item(position)
        parent = -1
        for above, positions in self._positions_by_level:
            if above >= level:
                break
            place = int(positions.searchsorted(position)) - 1
            parent = max(parent, int(positions[place]) if place >= 0 else -1)
        return parent

    @cached_property
    def _positions_by_level(self) -> list[tuple[int, Offsets]]:
        levels = self.heading_levels
        found = np.bincount(levels).nonzero()[0].tolist()
        return [(level, (levels == level).nonzero()[0]) for level in found]


def outline_markdown(text: str) -> MarkdownOutline:
    """Find the paragraphs and headings of a text.

    Args:
        text: Markdown, or plain text.

    Returns:
        The outline; it covers every character except whitespace between paragraphs.
    """
    (outline,) = _outline_joined([text])
    return outline


def outline_all(texts: Sequence[str]) -> list[MarkdownOutline]:
    """Find the paragraphs and headings of many texts at once, each as :func:`outline_markdown` does.

    Args:
        texts: Markdown, or plain texts.

    Returns:
        One outline per text.
    """
    outlines: dict[int, MarkdownOutline] = {}
    for numbers in _batch(texts):
        found = _outline_joined([texts[number] for number in numbers])
        outlines.update(zip(numbers, found, strict=True))
    return [outlines[number] for number in range(len(texts))]


def _batch(texts: Sequence[str]) -> Iterator[list[int]]:
    """Group the numbers of texts of one width of character."""
    for is_ascii in (True, False):
        batch: list[int] = []
        size = 0
        for number, text in enumerate(texts):
            if text.isascii() is not is_ascii:
                continue
            # A final carriage return would be one line end with the line feed that sets texts apart.
            if batch and (size + len(text) > _BATCH_CHARACTERS or texts[batch[-1]].endswith("\r")):
                yield batch
                batch, size = [], 0
            batch.append(number)
            size += len(text)
        if batch:
            yield batch


def _outline_joined(texts: Sequence[str]) -> list[MarkdownOutline]:
    joined = texts[0] if len(texts) == 1 else "\n".join(texts)
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1, out=offsets[1:])
    lines = read_lines(joined)
    filled, outer = lines.filled, lines.outer
    first_lines = lines.starts.searchsorted(offsets)
    divisions = [first_lines[1:-1]]
    if b"`" in lines.heads or b"~" in lines.heads:
        opening, inside = _find_fences(lines, first_lines)
        filled = filled | inside
        outer = outer & ~inside
        divisions += [opening, (inside[:-1] & ~inside[1:]).nonzero()[0] + 1]
    begins, finishes = _find_runs(filled, np.concatenate(divisions))
    headings, levels = _find_headings(lines, outer, begins)
    starts, ends = lines.starts[begins], lines.ends[finishes]
    heading_starts, heading_ends = lines.starts[headings], lines.ends[headings]
    if len(texts) == 1:
        return [MarkdownOutline(joined, starts, ends, heading_starts, heading_ends, levels)]
    paragraph_bounds = starts.searchsorted(offsets)
    heading_bounds = heading_starts.searchsorted(offsets)
    shift = np.repeat(offsets[:-1], np.diff(paragraph_bounds))
    heading_shift = np.repeat(offsets[:-1], np.diff(heading_bounds))
    starts, ends = starts - shift, ends - shift
    heading_starts, heading_ends = heading_starts - heading_shift, heading_ends - heading_shift
    return [
        MarkdownOutline(
            text,
            starts[first:last],
            ends[first:last],
            heading_starts[first_heading:last_heading],
            heading_ends[first_heading:last_heading],
            levels[first_heading:last_heading],
        )
        for text, (first, last), (first_heading, last_heading) in zip(
            texts, pairwise(paragraph_bounds.tolist()), pairwise(heading_bounds.tolist()), strict=True
        )
    ]


def _find_runs(filled: Flags, divisions: Offsets) -> tuple[Offsets, Offsets]:
    """Give the first and the last line of each run of filled lines, parted before the lines ``divisions``."""
    padded = np.zeros(len(filled) + 2, bool)
    padded[1:-1] = filled
    changes = (padded[1:] != padded[:-1]).nonzero()[0]
    begins, stops = changes[::2], changes[1::2]
    divisions = divisions[padded[divisions] & padded[divisions + 1]]
    if len(divisions):
        begins = np.unique(np.concatenate([begins, divisions]))
        stops = np.unique(np.concatenate([stops, divisions]))
    return begins, stops - 1


def _find_fences(lines: Lines, first_lines: Offsets) -> tuple[Offsets, Flags]:
    opening: list[int] = []
    inside = np.zeros(len(lines.starts), bool)
    fence, opened_at, text_end = "", 0, 0
    candidates = lines.outer & ((lines.first == ord("`")) | (lines.first == ord("~")))
    for row in candidates.nonzero()[0].tolist():
        if fence and row >= text_end:
            inside[opened_at:text_end] = True
            fence = ""
        line = lines.text[lines.content[row] : lines.ends[row]]
        match = _FENCE.fullmatch(line)
        marks = (match[1] or match[2]) if match else ""
        if marks and not fence:
            fence, opened_at = marks, row
            text_end = int(first_lines[first_lines.searchsorted(row, side="right")])
            opening.append(row)
        elif marks and line.rstrip() == marks and marks.startswith(fence):
            inside[opened_at : row + 1] = True
            fence = ""
    if fence:
        inside[opened_at:text_end] = True
    return np.array(opening, np.int64), inside


def _find_headings(lines: Lines, outer: Flags, begins: Offsets) -> tuple[Offsets, Offsets]:
    found: list[Offsets] = []
    levels: list[Offsets] = []
    if b"#" in lines.heads:
        rows = (outer & (lines.first == ord("#"))).nonzero()[0]
        for level in range(1, _DEEPEST_HEADING + 1):
            following = lines.codes[lines.content[rows] + level]
            headings = rows[following <= SPACE]
            if len(headings):
                found.append(headings)
                levels.append(np.full(len(headings), level))
            rows = rows[following == ord("#")]
            if not len(rows):
                break
    if b"=" in lines.heads or b"-" in lines.heads:
        underlined = _find_underlined(lines, outer, begins)
        found.append(np.array([row for row, _ in underlined], np.int64))
        levels.append(np.array([level for _, level in underlined], np.int64))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(found) == 1:
        return found[0], levels[0]
    rows = np.concatenate(found)
    order = np.argsort(rows, kind="stable")
    return rows[order], np.concatenate(levels)[order]


def _find_underlined(lines: Lines, outer: Flags, begins: Offsets) -> list[tuple[int, int]]:
    found = []
    first = np.zeros(len(outer), bool)
    first[begins] = True
    marked = outer[1:] & ((lines.first[1:] == ord("=")) | (lines.first[1:] == ord("-")))
    under_single_line = marked & outer[:-1] & first[:-1] & ~first[1:]
    for above in under_single_line.nonzero()[0].tolist():
        match = _UNDERLINE.fullmatch(lines.text, lines.content[above + 1], lines.ends[above + 1])
        if match:
            found.append((above, 1 if match[1].startswith("=") else 2))
    return found


def _read_heading(line: str) -> str:
    title = line.strip()
    if title.startswith("#"):
        title = title.lstrip("#")
        if title.endswith("#"):
            unclosed = title.rstrip("#")
            title = unclosed if not unclosed or unclosed[-1].isspace() else title
    return " ".join(title.split())
