"""Dividing Markdown or plain text into sentences, list items, rows of tables, blocks of code and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from backstory.text.chunking.outline import Outline, outline_markdown
from backstory.text.chunking.units import Range, join_wrapped, split_sentences

Form = Literal["sentence", "item", "row", "table_head", "code", "heading"]
_LONGEST_CODE: Final = 1500
"""Characters; a longer block of code, or one that a chunk cuts, is divided at its lines."""
_LONGEST_SENTENCE: Final = 800
"""Characters; a longer sentence is divided at its clauses."""
_ITEM = re.compile(r"(?:[-+*•]|\d{1,9}[.)])\s")
_TABLE_RULE = re.compile(r"[ \t]*\n[ \t]*\|[ \t:|-]*-[ \t:|-]*(?=\n|\Z)")
_CODE = re.compile(r"(`{3,}|~{3,})[^\n]*\n.*\n[ \t]*\1[`~]*", re.DOTALL)
_PART = re.compile(
    r"\S(?:.{0,399}\Z|.{199,398}(?:[;,:—–](?=\s)|[、，；：])|.{0,398}\S(?=\s)|.{399})", re.DOTALL
)
"""A part of a very long sentence: up to the end of a clause, else to a space, else as many characters."""
_MARKUP = re.compile(r"^[#\s]+|[#\s]+$|[*_`]")


@dataclass(frozen=True)
class Piece:
    """A part of a text; the line below the head of a table belongs to the head.

    A part of a very long sentence ``goes_on`` in the next piece.
    """

    start: int
    end: int
    form: Form
    goes_on: bool = False


def divide_text(text: str, title: str) -> list[Piece]:
    """Divide a text into pieces, in order."""
    outline = outline_markdown(text)
    headings = set(outline.heading_starts)
    blocks = _find_code(text, outline)
    ranges: list[Range] = []
    last = 0
    for start, end in [*blocks, (len(text), len(text))]:
        ranges += join_wrapped(text, split_sentences(text, last, start))
        ranges += [(start, end)] if start < end else []
        last = end
    bare = _bare(title)
    pieces: list[Piece] = []
    for start, end in ranges:
        line = text[start:end]
        if (bare and _bare(line) == bare) or not any(character.isalnum() for character in line):
            continue
        if (start, end) in blocks:
            pieces.append(Piece(start, end, "code"))
        elif start in headings:
            pieces.append(Piece(start, end, "heading"))
        else:
            pieces += _shape(text, start, end, pieces)
    return pieces


def _find_code(text: str, outline: Outline) -> list[Range]:
    """Find the whole blocks of fenced code that are not too long to be shown."""
    bodies = [
        (first + len(text[first:end]) - len(text[first:end].lstrip()), end) for first, end in outline.units
    ]
    return [body for body in bodies if body[1] - body[0] <= _LONGEST_CODE and _CODE.fullmatch(text, *body)]


def _shape(text: str, start: int, end: int, before: Sequence[Piece]) -> Iterator[Piece]:
    if text[start] == "|":
        rule = _TABLE_RULE.match(text, end)
        yield Piece(start, rule.end() if rule else end, "table_head" if rule else "row")
        return
    goes_with_item = before and before[-1].form == "item" and "\n" not in text[before[-1].end : start]
    form: Form = "item" if goes_with_item or _ITEM.match(text, start) else "sentence"
    is_long = end - start > _LONGEST_SENTENCE
    parts = [match.span() for match in _PART.finditer(text, start, end)] if is_long else [(start, end)]
    yield from (Piece(*part, form, goes_on=part[1] < end) for part in parts)


def _bare(line: str) -> str:
    """Return the words of a heading line, without the marks of a heading or of emphasis."""
    return " ".join(_MARKUP.sub("", line.strip()).casefold().split())
