"""Marks a part of a Markdown text in what the parser has made of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from markdown_it.token import Token
from markupsafe import escape

_OPEN: Final = Token("mark_open", "mark", 1)
_CLOSE: Final = Token("mark_close", "mark", -1)


def mark_tokens(tokens: Sequence[Token], text: str, start: int, end: int) -> None:
    """Put what is shown of a part of a text into elements ``mark``.

    Args:
        tokens: The tokens of the text, which are changed.
        text: Markdown, as the parser read it.
        start: First character of the part.
        end: Character after the last one.
    """
    lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    search = _Search(text, start, end)
    for token in tokens:
        if token.map is None:
            continue
        search.enter(*(lines[min(line, len(lines) - 1)] for line in token.map))
        if token.type in ("fence", "code_block"):
            _mark_code(token, *search.find(token.content))
        elif token.children:
            token.children = _mark_words(token.children, search)


@dataclass
class _Search:
    """Finds where in a text the contents of its tokens stand, each after the one before.

    The parser tells the lines of a block, and no more.
    """

    text: str
    start: int
    end: int
    place: int = 0
    last: int = 0

    def enter(self, first: int, last: int) -> None:
        """Go on with the characters of a block."""
        self.place, self.last = max(self.place, first), last

    def find(self, content: str) -> tuple[int, int]:
        """Find which characters of the content of the next token belong to the part: the first, and the one after."""
        found = self.text.find(content, self.place, self.last)
        if found >= 0:
            self.place = found + len(content)
            return _clip(self.start - found, content), _clip(self.end - found, content)
        inside = [
            place
            for place, letter in enumerate(content)
            if self.start <= self._find_letter(letter) < self.end
        ]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def _find_letter(self, letter: str) -> int:
        """Find a letter of a content that the text spells by escapes or entities, or interrupts by its marks."""
        found = self.text.find(letter, self.place, self.last)
        self.place = self.place if found < 0 else found + 1
        return found


def _clip(place: int, content: str) -> int:
    return min(max(0, place), len(content))


def _mark_code(token: Token, first: int, last: int) -> None:
    """Turn a block of code into HTML of its own, because the renderer escapes all of its content."""
    if first < last:
        before, marked, after = (
            escape(part) for part in (token.content[:first], token.content[first:last], token.content[last:])
        )
        token.type = "html_block"
        token.content = f"<pre><code>{before}<mark>{marked}</mark>{after}</code></pre>\n"


def _mark_words(children: Sequence[Token], search: _Search) -> list[Token]:
    """Mark words in one element; in one for each of them where only a part of a link or of emphasis is marked."""
    parted: list[Token] = []
    inside: list[int] = []
    for child in children:
        if child.type not in ("text", "code_inline"):
            parted.append(child)
            continue
        first, last = search.find(child.content)
        if child.type == "code_inline" and first < last:  # an element of its own, which is marked as a whole
            first, last = 0, len(child.content)
        for begin, end in ((0, first), (first, last), (last, len(child.content))):
            if begin < end:
                if (begin, end) == (first, last):
                    inside.append(len(parted))
                parted.append(child.copy(content=child.content[begin:end]))
    if not inside:
        return list(children)
    for first, last in reversed(_find_runs(parted, inside)):
        parted[first : last + 1] = [_OPEN, *parted[first : last + 1], _CLOSE]
    return parted


def _find_runs(tokens: Sequence[Token], inside: Sequence[int]) -> list[tuple[int, int]]:
    """Find the first and last token of each element, none of which may lie across the border of another."""
    first, last = inside[0], inside[-1]
    depth: int = sum(token.nesting for token in tokens[first : last + 1])
    while depth > 0 and tokens[last + 1].nesting < 0:
        last, depth = last + 1, depth - 1
    while depth < 0 and first and tokens[first - 1].nesting > 0:
        first, depth = first - 1, depth + 1
    levels = list(accumulate(token.nesting for token in tokens[first : last + 1]))
    return [(first, last)] if min(levels) >= 0 and depth == 0 else [(place, place) for place in inside]
