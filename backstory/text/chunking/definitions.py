"""Cutting source code into chunks along the definitions that a parser found in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from backstory.text.chunking.cut import Span, cut_chunks
from backstory.text.chunking.tokens import CountTokens

_CLOSING: Final = re.compile(r"(?:\W|_|\bend(?:if)?\b)+")
"""What closes a definition in languages with brackets, in Ruby, and in the preprocessor of C."""

CutLong: TypeAlias = Callable[[Sequence[str], Sequence[int], CountTokens], list[list[Span]]]
"""Cuts texts without definitions, each at its own ceiling of tokens; the spans do not overlap."""


@dataclass(frozen=True)
class Definition:
    """A named part of source code: a function, a class, a method and the like.

    Attributes:
        start: Offset of its first character, with the comment and the decorators above it.
        end: Offset after its last character.
        name: Its name.
        parts: Definitions directly in it, in order, without overlap.
    """

    start: int
    end: int
    name: str
    parts: tuple[Definition, ...] = ()


class _Segment(NamedTuple):
    text: int
    start: int
    end: int
    heading: str
    parts: tuple[Definition, ...]


def cut_definitions(
    texts: Sequence[str],
    outlines: Sequence[tuple[Definition, ...]],
    *,
    max_tokens: Sequence[int],
    count_tokens: CountTokens,
    cut_long: CutLong,
) -> list[list[Span]]:
    """Cut many texts into one chunk per outermost definition, and one per stretch of code between them.

    A definition over the ceiling is cut into the definitions in it and the code between those. What has no definitions
    in it and is over the ceiling is left to ``cut_long``.

    It returns the chunks of each text in order, without overlap. Together they contain everything but whitespace.
    ``heading`` names the definition with those around it, such as ``"Class > method"``; it is empty between
    definitions. It raises ``InputError`` if a single character is over the ceiling.
    """
    spans: list[list[Span]] = [[] for _ in texts]
    pending = [
        segment
        for number, (text, parts) in enumerate(zip(texts, outlines, strict=True))
        for segment in _divide(text, _Segment(number, 0, len(text), "", parts))
    ]
    while pending:
        counts = count_tokens([texts[part.text][part.start : part.end] for part in pending])
        divided: list[_Segment] = []
        too_long: list[_Segment] = []
        for segment, count in zip(pending, counts.tolist(), strict=True):
            if count <= max_tokens[segment.text]:
                spans[segment.text].append(Span(segment.start, segment.end, count, segment.heading))
            elif segment.parts:
                divided += _divide(texts[segment.text], segment)
            else:
                too_long.append(segment)
        cut = cut_long(
            [texts[part.text][part.start : part.end] for part in too_long],
            [max_tokens[part.text] for part in too_long],
            count_tokens,
        )
        for segment, pieces in zip(too_long, cut, strict=True):
            spans[segment.text] += [
                Span(
                    segment.start + piece.start, segment.start + piece.end, piece.token_count, segment.heading
                )
                for piece in pieces
            ]
        pending = divided
    return [sorted(found) for found in spans]


def cut_long_text(
    texts: Sequence[str], max_tokens: Sequence[int], count_tokens: CountTokens
) -> list[list[Span]]:
    """Cut texts at blank lines, else at line ends, else at words, without overlap; see :data:`CutLong`."""
    return cut_chunks(texts, max_tokens=max_tokens, overlap_tokens=0, count_tokens=count_tokens)


def _divide(text: str, whole: _Segment) -> list[_Segment]:
    """Divide code into its definitions and what is between them.

    What only closes a definition, such as a bracket, belongs to the part before it.
    """
    segments: list[_Segment] = []
    for segment in _alternate(text, whole):
        if segments and _CLOSING.fullmatch(text, segment.start, segment.end):
            segments[-1] = segments[-1]._replace(end=segment.end)
        else:
            segments.append(segment)
    return segments


def _alternate(text: str, whole: _Segment) -> Iterator[_Segment]:
    position = whole.start
    for part in whole.parts:
        yield from _trim(text, whole._replace(start=position, end=part.start, parts=()))
        heading = f"{whole.heading} > {part.name}" if whole.heading else part.name
        yield _Segment(whole.text, part.start, part.end, heading, part.parts)
        position = part.end
    yield from _trim(text, whole._replace(start=position, parts=()))


def _trim(text: str, gap: _Segment) -> Iterator[_Segment]:
    """Leave out blank lines around code, but not the indentation of its first line; nothing if it is blank."""
    code = text[gap.start : gap.end].rstrip()
    if code:
        blank = len(code) - len(code.lstrip())
        indentation = code.rfind("\n", 0, blank) + 1
        is_indented = indentation or not gap.start or text[gap.start - 1] == "\n"
        start = indentation if is_indented else blank
        yield gap._replace(start=gap.start + start, end=gap.start + len(code))
