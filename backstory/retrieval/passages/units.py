"""The text around a chunk as units: sentences, list items, rows of tables, blocks of code, and what introduces them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from backstory.text.chunking.units import Range
from backstory.text.layout import Piece, divide_text

Kind = Literal["text", "heading", "lead"]

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")


@dataclass(frozen=True)
class Unit:
    """A sentence, list item, row, block of code or heading; a part of one that is very long.

    Attributes:
        start: First character in the document's text.
        end: Character after the last one.
        kind: ``heading`` for a heading and the head of a table, ``lead`` for a line before a list, block or paragraph
            that ends with a colon, otherwise ``text``.
        introduced_by: Position of the heading or line that introduces it.
        is_own: Whether it begins in the chosen chunk, not in one beside it.
        goes_on: Whether its sentence goes on in the next unit.
    """

    start: int
    end: int
    kind: Kind
    introduced_by: int | None
    is_own: bool
    goes_on: bool


@dataclass(frozen=True)
class Surroundings:
    """A chosen chunk and its neighbours.

    Attributes:
        text: Their text; whitespace that no chunk holds is a line feed.
        offset: Position of its first character in the document's text.
        units: Its units in order, without the title of the document.
    """

    text: str
    offset: int
    units: tuple[Unit, ...]

    def read(self, start: int, end: int) -> str:
        """Return characters of the document."""
        return self.text[start - self.offset : end - self.offset]


def join_chunks(chunks: Sequence[tuple[int, str]], own: Range, title: str) -> Surroundings:
    """Join a chunk with its neighbours, and divide the text into units.

    Args:
        chunks: Position in the document and text of each chunk, in order; they may overlap.
        own: First character of the chosen chunk, and the one after its last.
        title: Title of the document, which is left out where a line repeats it.
    """
    offset = chunks[0][0]
    text = ""
    for start, piece in chunks:
        end = offset + len(text)
        text += "\n" * max(start - end, 0) + piece[max(end - start, 0) :]
    pieces = divide_text(text, title)
    kinds = [_classify(text, piece, after) for piece, after in pairwise([*pieces, None]) if piece]
    introduced = _find_introductions(text, pieces, kinds)
    units = [
        Unit(
            offset + piece.start,
            offset + piece.end,
            kind,
            lead,
            own[0] <= offset + piece.start < own[1],
            piece.goes_on,
        )
        for piece, kind, lead in zip(pieces, kinds, introduced, strict=True)
    ]
    return Surroundings(text, offset, tuple(units))


def _classify(text: str, piece: Piece, after: Piece | None) -> Kind:
    if piece.form in ("heading", "table_head"):
        return "heading"
    leads = after is not None and after.form != "heading" and "\n" in text[piece.end : after.start]
    return "lead" if leads and text[piece.start : piece.end].endswith((":", "：")) else "text"


def _find_introductions(text: str, pieces: Sequence[Piece], kinds: Sequence[Kind]) -> list[int | None]:
    """Find for each piece the heading, head of a table or line with a colon that introduces it."""
    found: list[int | None] = []
    heading: int | None = None
    lead: int | None = None
    for place, piece in enumerate(pieces):
        before = pieces[place - 1] if place else None
        begins_a_line = before is None or "\n" in text[before.end : piece.start]
        # A list, a table and blocks of code stay with the line above them; of other paragraphs, only the first.
        if lead is not None and lead != place - 1 and begins_a_line and piece.form == "sentence":
            lead = None
        if piece.form == "heading":
            found.append(place - 1 if before is not None and before.form == "heading" else None)
            heading, lead = place, None
        else:
            found.append(lead if lead is not None else heading)
        if kinds[place] == "lead" or piece.form == "table_head":
            lead = place
    return found


def find_runs(surroundings: Surroundings, chosen: Sequence[int]) -> list[Range]:
    """Join chosen units that follow each other.

    Args:
        surroundings: The text.
        chosen: Positions of units, ascending, at least one.

    Returns:
        First character and the one after the last of each run, in the document's text.
    """
    runs: list[Range] = []
    for previous, place in pairwise((-2, *chosen)):
        unit = surroundings.units[place]
        if previous == place - 1 and _follows(surroundings, place):
            runs[-1] = (runs[-1][0], unit.end)
        else:
            runs.append((unit.start, unit.end))
    return runs


def _follows(surroundings: Surroundings, place: int) -> bool:
    """Return whether nothing but whitespace and lines without a word lie between a unit and the one before."""
    if not place:
        return False
    before, unit = surroundings.units[place - 1 : place + 1]
    return not any(character.isalnum() for character in surroundings.read(before.end, unit.start))


def join_runs(surroundings: Surroundings, runs: Sequence[Range]) -> str:
    """Write runs as one text, with an ellipsis where something is left out between them, or a sentence is cut."""
    cut_after = {unit.end for unit in surroundings.units if unit.goes_on}
    cut_before = {unit.start for before, unit in pairwise(surroundings.units) if before.goes_on}
    parts = ["… "] if runs[0][0] in cut_before else []
    parts.append(surroundings.read(*runs[0]))
    for before, run in pairwise(runs):
        gap = surroundings.read(before[1], run[0])
        parts += [" … " if "\n" not in gap else "\n…\n", surroundings.read(*run)]
    if runs[-1][1] in cut_after:
        parts.append(" …")
    return _BLANK_LINES.sub("\n\n", "".join(parts))
