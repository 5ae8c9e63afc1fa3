"""The page and line of a character of a text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from backstory.base.errors import InputError


@dataclass(frozen=True)
class PlacedText:
    """The text of a document with its pages and lines.

    Attributes:
        text: The text.
        page_starts: Character at which each page begins, the first at 0; empty without pages.
    """

    text: str
    page_starts: Sequence[int] = ()

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, place = [0], self.text.find("\n")
        while place >= 0:
            starts.append(place + 1)
            place = self.text.find("\n", place + 1)
        return starts

    @property
    def pages(self) -> int | None:
        """Number of pages; None for a text without pages."""
        return len(self.page_starts) or None

    def page_of(self, character: int) -> int | None:
        """Return the page of a character, from 1; None for a text without pages."""
        return bisect_right(self.page_starts, character) if self.page_starts else None

    def line_of(self, character: int) -> int:
        """Return the line of a character, from 1."""
        return bisect_right(self._line_starts, character)

    def bounds_of_line(self, line: int) -> tuple[int, int]:
        """Return the first character of a line, and the one after its last, without the line feed."""
        starts = self._line_starts
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return starts[line - 1], end

    def bounds_of_pages(self, first: int, last: int) -> tuple[int, int]:
        """Return the first character of a range of pages, and the one after its last.

        Raises:
            InputError: The text has no pages, or fewer.
        """
        if not self.page_starts:
            raise InputError(
                "this document has no pages; leave out the pages to read its whole text", code="no_pages"
            )
        if not 1 <= first <= last <= len(self.page_starts):
            raise InputError(
                f"this document has pages 1 to {len(self.page_starts)}; pages {first}-{last} do not exist",
                code="out_of_range",
            )
        end = self.page_starts[last] if last < len(self.page_starts) else len(self.text)
        return self.page_starts[first - 1], end


def cite(
    uri: str,
    *,
    pages: tuple[int, int] | None = None,
    lines: tuple[int, int] | None = None,
    characters: tuple[int, int],
) -> str:
    """Name a place: the path of the document, and its pages, else its lines, else its characters.

    Args:
        uri: Path of the document.
        pages: First and last page, inclusive.
        lines: First and last line, inclusive, from 1.
        characters: First character, and the one after the last.

    Returns:
        Such as ``report.pdf, pages 3-4``, ``notes/bread.md, lines 12-40`` or ``notes/bread.md, characters 0-812``.
    """
    if pages is not None:
        return f"{uri}, {_span('page', *pages)}"
    if lines is not None:
        return f"{uri}, {_span('line', *lines)}"
    return f"{uri}, characters {characters[0]}-{characters[1]}"


def _span(noun: str, first: int, last: int) -> str:
    return f"{noun} {first}" if first == last else f"{noun}s {first}-{last}"
