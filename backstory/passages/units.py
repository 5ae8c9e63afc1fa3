"""The sentences, list items and headings of the text around a chunk, as characters of its document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from backstory.chunking.outline import outline_markdown
from backstory.chunking.units import Range, split_sentences

_ENDS_A_SENTENCE = re.compile(r"[.!?…。！？｡:;|][\"'”’»)\]」』】）*_`]*\Z")
_BEGINS_A_LINE = re.compile(r"[-+*•>|]|\d{1,9}[.)]\s|#{1,6}\s|`{3}|~{3}")
_ITEM_NUMBER = re.compile(r"\d{1,9}[.)]")
_MARKUP = re.compile(r"^[#\s]+|[#\s]+$|[*_`]")


@dataclass(frozen=True)
class Unit:
    """A sentence, list item or heading.

    Attributes:
        start: First character in the document's text.
        end: Character after the last one.
        is_heading: Whether it is a heading.
        is_own: Whether it begins in the chosen chunk, not in one beside it.
    """

    start: int
    end: int
    is_heading: bool
    is_own: bool


@dataclass(frozen=True)
class Surroundings:
    """A chosen chunk and the chunks beside it.

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
    """Join a chunk with those beside it, and divide the text into units.

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
    headings = set(outline_markdown(text).heading_starts)
    units = [
        Unit(offset + start, offset + end, start in headings, own[0] <= offset + start < own[1])
        for start, end in _join_wrapped(text, split_sentences(text, 0, len(text)))
    ]
    bare = _bare(title)
    kept = [
        unit
        for unit in units
        if not (bare and _bare(text[unit.start - offset : unit.end - offset]) == bare)
        and any(character.isalnum() for character in text[unit.start - offset : unit.end - offset])
    ]
    return Surroundings(text, offset, tuple(kept))


def _join_wrapped(text: str, sentences: Iterable[Range]) -> list[Range]:
    """Join the lines of a sentence that goes on after a line end."""
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
    if _ITEM_NUMBER.fullmatch(sentence):
        return "\n" not in gap
    return (
        gap.count("\n") == 1
        and not _ENDS_A_SENTENCE.search(sentence)
        and not sentence.startswith(("#", "|"))
        and not _BEGINS_A_LINE.match(text, start)
    )


def _bare(line: str) -> str:
    """Return the words of a heading line, without the marks of a heading or of emphasis."""
    return " ".join(_MARKUP.sub("", line.strip()).casefold().split())


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
        if previous == place - 1 and follows(surroundings, place):
            runs[-1] = (runs[-1][0], unit.end)
        else:
            runs.append((unit.start, unit.end))
    return runs


def follows(surroundings: Surroundings, place: int) -> bool:
    """Return whether nothing but whitespace lies between a unit and the one before."""
    if not place:
        return False
    before, unit = surroundings.units[place - 1 : place + 1]
    return not surroundings.read(before.end, unit.start).strip()


def join_runs(surroundings: Surroundings, runs: Sequence[Range]) -> str:
    """Write runs as one text, with an ellipsis where something is left out between them."""
    parts = [surroundings.read(*runs[0])]
    for before, run in pairwise(runs):
        gap = surroundings.read(before[1], run[0])
        parts += [" … " if "\n" not in gap else "\n…\n", surroundings.read(*run)]
    return "".join(parts)
