"""Marks a part of a Markdown text in what the parser has made of the text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, Literal

from markdown_it import MarkdownIt
from markdown_it.common.utils import MD_TRIM_CHARS
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline.state_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType
from markupsafe import escape

_OPEN: Final = Token("mark_open", "mark", 1)
_CLOSE: Final = Token("mark_close", "mark", -1)
_PREFIX: Final = re.compile(r"(?:[>\s]|[-*+]\s|\d+[.)]\s)*")
"""What may stand before a row of a table: the marks of quotations and of lists."""


class PlacedWords(ParserInline):
    """Parses the words of a block, and notes where in them each token stands."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        """Parse the words of a block.

        Args:
            src: The words.
            md: The parser of the whole text.
            env: What the parser knows of the whole text.
            tokens: Takes the tokens. ``meta["span"]`` of one that shows words is the range of characters that spell it.
        """
        state = _PlacedState(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        for before, token in zip((None, *state.tokens), state.tokens, strict=False):
            if token.type in ("text", "text_special", "code_inline"):
                is_address = before is not None and before.type == "link_open" and before.info == "auto"
                token.meta["span"] = _find_span(token, src, is_address=is_address)
        for token in state.tokens:
            if token.type == "text_special":
                token.type = "text"
        return state.tokens


class _PlacedState(StateInline):
    """Notes at which character each token begins."""

    _first = 0

    def append_pending(self, text: str) -> None:
        if not self.pending:
            self._first = self.pos
        super().append_pending(text)

    def pushPending(self) -> Token:  # noqa: N802 -- the parser's name
        token = super().pushPending()
        token.meta["place"] = self._first
        return token

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        place = self.pos
        if ttype == "text" and len(self.tokens) > 1 and self.tokens[-2].type == "text":
            # The marks of emphasis become tokens one by one, before the parser goes on.
            place = max(place, self.tokens[-2].meta["place"] + len(self.tokens[-2].content))
        token.meta["place"] = place
        return token


def _find_span(token: Token, src: str, *, is_address: bool) -> tuple[int, int] | None:
    """Find the characters that spell a token; None if they are not where they should be."""
    place: int = token.meta["place"]
    if token.type == "text_special":
        end = place + len(token.markup)
        return (place, end) if src[place:end] == token.markup else None
    if is_address:
        end = src.find(">", place)
        return (place + 1, end) if src.startswith("<", place) and end > 0 else None
    if token.type == "code_inline":
        place += len(token.markup)
        # The parser strips a space from each side.
        place += src[place : place + len(token.content)].replace("\n", " ") != token.content
    end = place + len(token.content)
    return (place, end) if src[place:end].replace("\n", " ") == token.content else None


def mark_tokens(tokens: Sequence[Token], text: str, start: int, end: int) -> None:
    """Put what is shown of a part of a text into elements ``mark``.

    Args:
        tokens: The tokens of the text, whose words :class:`PlacedWords` has parsed. They are changed, unless some block
            of the part is not spelt in the text as its tokens tell: no mark is better than one that is elsewhere.
        text: Markdown, as the parser read it.
        start: First character of the part.
        end: Character after the last one.
    """
    marked: list[tuple[Token, int, int]] = []
    for token, places in _place_blocks(tokens, text, start, end):
        if places is None or any(
            child.meta["span"] is None for child in token.children or () if "span" in child.meta
        ):
            return
        marked.append((token, bisect_left(places, start), bisect_left(places, end)))
    for token, first, last in marked:
        if token.type == "inline":
            token.children = _mark_words(token.children or [], first, last)
        else:
            _mark_code(token, first, last)


def _place_blocks(
    tokens: Sequence[Token], text: str, start: int, end: int
) -> Iterator[tuple[Token, list[int] | None]]:
    """Find the blocks that a part touches, and for each of their characters the one of the text that spells it.

    Yields:
        A block; and the places, or None if some line of the text is not what it should be.
    """
    lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    cells: list[list[int]] | None = None
    for token in tokens:
        if token.type == "tr_close":
            cells = None
        if token.map is None:
            continue
        first, last = (min(line, len(lines) - 1) for line in token.map)
        if token.type == "tr_open":
            cells = _split_row(text, lines[first], lines[first + 1] - 1)
        if token.type not in ("inline", "fence", "code_block"):
            continue
        cell = cells.pop(0) if cells else []
        if max(start, lines[first]) >= min(end, lines[last]) or not token.content:
            continue
        if cells is not None:
            # Marks of quotations may stand before a first cell without a bar.
            places = cell[-len(token.content) :]
            is_spelt = "".join(text[place] for place in places) == token.content
            yield token, places if is_spelt else None
        else:
            first += token.type == "fence"
            yield (
                token,
                _place_lines(token.content, text, lines[first : last + 1], is_heading=token.type == "inline"),
            )


def _place_lines(content: str, text: str, starts: Sequence[int], *, is_heading: bool) -> list[int] | None:
    """Find the place of each character of a block, each of whose lines ends a line of the text.

    Args:
        content: Characters of the block.
        text: The text.
        starts: First character of each line of the block, and of the line after it.
        is_heading: Whether a line of the text may end with the marks of a heading.
    """
    places: list[int] = []
    for line, start, following in zip(content.split("\n"), starts, starts[1:], strict=False):
        words = line.strip(MD_TRIM_CHARS)
        whole = text[start : following - 1].rstrip(MD_TRIM_CHARS)
        shorter = whole.rstrip("#")
        if is_heading and shorter[-1:] in MD_TRIM_CHARS and shorter.rstrip(MD_TRIM_CHARS).endswith(words):
            whole = shorter.rstrip(MD_TRIM_CHARS)
        if not whole.endswith(words):
            return None
        before = len(line) - len(line.lstrip(MD_TRIM_CHARS))
        begin = start + len(whole) - len(words) - (before if words else len(line))
        places += (max(start, place) for place in range(begin, begin + len(line) + 1))
    return places[: len(content)]


def _split_row(text: str, start: int, end: int) -> list[list[int]]:
    """List the cells of a row of a table as the places of their characters."""
    cells: list[list[int]] = [[]]
    for place in range(start, end):
        if text[place] != "|":
            cells[-1].append(place)
        elif place > start and text[place - 1] == "\\":
            cells[-1][-1] = place
        else:
            cells.append([])
    bar = text.find("|", start, end)
    if bar >= 0 and _PREFIX.fullmatch(text, start, bar):
        del cells[0]
    for cell in cells:
        while cell and text[cell[-1]] in MD_TRIM_CHARS:
            cell.pop()
    return cells


def _mark_code(token: Token, first: int, last: int) -> None:
    """Turn a block of code into HTML of its own, because the renderer escapes all of its content."""
    if first < last:
        before, marked, after = (
            escape(part) for part in (token.content[:first], token.content[first:last], token.content[last:])
        )
        token.type = "html_block"
        token.content = f"<pre><code>{before}<mark>{marked}</mark>{after}</code></pre>\n"


def _mark_words(children: Sequence[Token], first: int, last: int) -> list[Token]:
    """Mark words in one element; in one for each run of them where only a part of a link or of emphasis is marked."""
    parted: list[Token] = []
    inside: list[int] = []
    for child in children:
        if "span" not in child.meta:
            parted.append(child)
            continue
        begin, end = child.meta["span"]
        size = len(child.content)
        if end - begin == size:
            bounds = [0, min(max(0, first - begin), size), min(max(0, last - begin), size), size]
        else:  # what the text spells by an entity or an escape is marked as a whole
            bounds = [0, 0, size, size] if begin < last and first < end else [0, 0, 0, size]
        is_parted = child.type == "code_inline" and 0 < bounds[2] - bounds[1] < size
        if is_parted:
            parted.append(Token("code_open", "code", 1))
        for number, (left, right) in enumerate(pairwise(bounds)):
            if left < right:
                if number == 1:
                    inside.append(len(parted))
                parted.append(
                    child.copy(content=child.content[left:right], **({"type": "text"} if is_parted else {}))
                )
        if is_parted:
            parted.append(Token("code_close", "code", -1))
    for begin, end in reversed(_find_runs(parted, inside)):
        parted[begin : end + 1] = [_OPEN, *parted[begin : end + 1], _CLOSE]
    return parted


def _find_runs(tokens: Sequence[Token], inside: Sequence[int]) -> list[tuple[int, int]]:
    """Find the first and last token of each element, none of which may lie across the border of another."""
    if not inside:
        return []
    first, last = inside[0], inside[-1]
    depth: int = sum(token.nesting for token in tokens[first : last + 1])
    while depth > 0 and tokens[last + 1].nesting < 0:
        last, depth = last + 1, depth - 1
    while depth < 0 and first and tokens[first - 1].nesting > 0:
        first, depth = first - 1, depth + 1
    levels = list(accumulate(token.nesting for token in tokens[first : last + 1]))
    if min(levels) >= 0 and depth == 0:
        return [(first, last)]
    runs = [(inside[0], inside[0])]
    for place in inside[1:]:
        if any(token.nesting for token in tokens[runs[-1][1] : place]):
            runs.append((place, place))
        else:
            runs[-1] = (runs[-1][0], place)
    return runs
