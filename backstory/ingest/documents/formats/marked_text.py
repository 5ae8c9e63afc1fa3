"""A text in a markup other than Markdown, with its headings written as Markdown writes them.

Everything that cuts, names or shows a part of a document reads Markdown. A converter changes lines only where Markdown
would find another structure than the markup: headings, code, and lines that Markdown would take for a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from backstory.ingest.documents.metadata.front_matter import Field

MOST_LEVELS: Final = 6
"""Levels of headings in Markdown; deeper ones are written on the last level."""

_HEADING: Final = re.compile(r"^( {0,3})(#{1,6})(?=\s|$)")
_TICKS: Final = re.compile(r"`{3,}")


@dataclass(frozen=True)
class MarkedText:
    """What a converter made of a text.

    Attributes:
        text: The body as Markdown.
        fields: The fields at the beginning of the file.
    """

    text: str
    fields: Sequence[Field] = ()


def write_heading(level: int, title: str) -> str:
    """Write a heading as a line of Markdown."""
    return f"{'#' * min(level, MOST_LEVELS)} {title}"


def keep_line(line: str) -> str:
    """Escape a line that Markdown would take for a heading; every other line stays as it is."""
    return _HEADING.sub(r"\1\\\2", line)


def fence_code(lines: Iterable[str], language: str = "") -> str:
    """Write lines as one block of fenced code, with a fence that none of them can end."""
    code = list(lines)
    longest = max((len(ticks) for line in code for ticks in _TICKS.findall(line)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([f"{fence}{language}", *code, fence])


def join_blocks(blocks: Iterable[str]) -> str:
    """Join lines and blocks of code, with at most one blank line between two."""
    retained: list[str] = []
    for block in blocks:
        if block or (retained and retained[-1]):
            retained.append(block)
    return "\n".join(retained)
