"""The layout of a text: its sentences, items, rows and blocks of code, wrapped lines, and lines that are messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Final, Literal

from backstory.text.chunking.outline import outline_markdown
from backstory.text.chunking.units import ROW, Range, join_wrapped, split_sentences

MESSAGE_SEPARATOR: Final = "\n\n"
"""Stands between the texts of messages that are one text."""
_MARK: Final = re.compile(r"(?:[-*+•‣◦▪–—]|\(?\d{1,3}[.)])(?: \[[ xX]\])? (?=\S)")
"""What begins an item of a list."""
_FIXED: Final = "-+*•>|#"
"""Beginnings of lines that go on from no other: items, quoted lines, rows of a table, and headings."""
_END: Final = re.compile(r"[.!?…。！？｡:：;][\"'”’»)\]」』】）*_`]*$")
_NARROWEST: Final = 32
"""Characters of the longest line of a text that was wrapped, at least."""
_LEAST_BREAKS: Final = 3
"""Full lines of a text that was wrapped, at least."""
_LEAST_SHARE: Final = 0.9
"""Share of the characters before line ends that stand in full lines, in a text that was wrapped, at least."""
_LONGEST_MESSAGE: Final = 160
"""Bytes of the longest line or paragraph that looks like a message."""
_MOST_SENTENCES: Final = 2


def list_lines(text: str) -> list[list[str]]:
    """List the lines of each paragraph, with single spaces.

    Of a text that is mostly a list, a paragraph is an item without its mark, with what is indented below it.
    """
    grouped = groupby(text.removeprefix("\ufeff").splitlines(), key=lambda line: bool(line.strip()))
    blocks = [list(block) for is_written, block in grouped if is_written]
    folded = [[" ".join(line.split()) for line in block] for block in blocks]
    marked = [bool(_MARK.match(line)) for line in chain.from_iterable(folded)]
    indented = [line[0].isspace() for line in chain.from_iterable(blocks)]
    others = sum(not (mark or indent) for mark, indent in zip(marked, indented, strict=True))
    return (
        [[item] for block in blocks for item in _list_items(block)]
        if sum(marked) > max(1, others)
        else folded
    )


def unwrap(paragraphs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Join the lines of a wrapped text: they go on in the next line, whose first word would not have fitted."""
    breaks = [pair for lines in paragraphs for pair in pairwise(lines)]
    width = max(map(len, chain.from_iterable(paragraphs)))
    full = [pair for pair in breaks if not _fits(*pair, width)]
    goes_on = any(_goes_on(*pair) for pair in full)
    share = sum(len(line) for line, _ in full) / max(1, sum(len(line) for line, _ in breaks))
    is_wrapped = width >= _NARROWEST and goes_on and len(full) >= _LEAST_BREAKS and share >= _LEAST_SHARE
    first, last = paragraphs[0][0], paragraphs[-1][-1]
    is_sentence = len(paragraphs) == 1 and all(_goes_on(*pair) for pair in breaks)
    if not is_wrapped and not (is_sentence and first[0].isupper() and _END.search(last)):
        return [list(lines) for lines in paragraphs]
    return [_join_lines(lines, width) for lines in paragraphs]


def are_messages(units: Sequence[str]) -> bool:
    """Return whether lines or paragraphs look like messages: several, most of the text in short ones."""
    short = [
        unit
        for unit in units
        if len(unit.encode()) <= _LONGEST_MESSAGE and len(list_sentences(unit)) <= _MOST_SENTENCES
    ]
    return len(units) > 1 and 2 * sum(map(len, short)) >= sum(map(len, units))


def list_sentences(line: str) -> list[str]:
    """List the sentences of a line."""
    return [line[start:end] for start, end in split_sentences(line, 0, len(line))]


def _list_items(block: Sequence[str]) -> list[str]:
    items: list[str] = []
    for line in block:
        text = " ".join(line.split())
        mark = _MARK.match(text)
        if mark or not items or not line[0].isspace():
            items.append(text[mark.end() :] if mark else text)
        else:
            items[-1] += f" {text}"
    return items


def _fits(line: str, after: str, width: int) -> bool:
    """Return whether the first word of a line would have fitted into the line before."""
    word = after.partition(" ")[0]
    # Scripts without spaces are wrapped at any character.
    return len(line) + 1 + (len(word) if word.isascii() or word != after else 1) <= width


def _goes_on(line: str, after: str) -> bool:
    return not _END.search(line) and not after[0].isupper() and after[0] not in _FIXED


def _join_lines(lines: Sequence[str], width: int) -> list[str]:
    joined = [lines[0]]
    for line, after in pairwise(lines):
        if _goes_on(line, after) or (after[0] not in _FIXED and not _fits(line, after, width)):
            joined[-1] += f" {after}"
        else:
            joined.append(after)
    return joined


Form = Literal["sentence", "item", "row", "table_head", "code", "heading"]
_LONGEST_CODE: Final = 1500
"""Characters; a longer block of code, or one that a chunk cuts, is divided at its lines."""
_LONGEST_SENTENCE: Final = 800
"""Characters; a longer sentence is divided at its clauses."""
_ITEM = re.compile(r"(?:[-+*•]|\d{1,9}[.)])\s")
_TABLE_RULE = re.compile(r"[ \t]*\n[ \t]*\|[ \t:|-]*-[ \t:|-]*(?=\n|\Z)")
_CODE = re.compile(r"\s*((`{3,}|~{3,})[^\n]*\n.*\n[ \t]*\2[`~]*)", re.DOTALL)
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
    short = ((start, end) for start, end in outline.units if end - start <= _LONGEST_CODE)
    blocks = [(code.start(1), code.end()) for unit in short if (code := _CODE.fullmatch(text, *unit))]
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


def _shape(text: str, start: int, end: int, before: Sequence[Piece]) -> Iterator[Piece]:
    if text[start] == "|":
        rule = _TABLE_RULE.match(text, end)
        yield Piece(start, rule.end() if rule else end, "table_head" if rule else "row")
        return
    goes_with_item = before and before[-1].form == "item" and "\n" not in text[before[-1].end : start]
    form: Form = "item" if goes_with_item or _ITEM.match(text, start) else "sentence"
    if ROW.match(text, start):
        form = "row"
    is_long = end - start > _LONGEST_SENTENCE
    parts = [match.span() for match in _PART.finditer(text, start, end)] if is_long else [(start, end)]
    yield from (Piece(*part, form, goes_on=part[1] < end) for part in parts)


def _bare(line: str) -> str:
    """Return the words of a heading line, without the marks of a heading or of emphasis."""
    return " ".join(_MARKUP.sub("", line.strip()).casefold().split())
