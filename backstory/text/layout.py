"""The layout of a plain text: paragraphs, items of lists, wrapped lines, and lines that look like messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, groupby, pairwise
from typing import Final

from backstory.text.chunking.units import split_sentences

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


def join_wrapped(paragraphs: Sequence[Sequence[str]]) -> list[list[str]]:
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
