"""Cutting a page that lists short, unrelated answers: each of its sections is cut by itself.

Several answers in one chunk average away in its vector, and the words of the others dilute its keywords.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np

from backstory.text.chunking.cut import Span, cut_chunks
from backstory.text.chunking.outline import MarkdownOutline, outline_markdown
from backstory.text.chunking.tokens import CountTokens

_LEAST_SECTIONS: Final = 4
_LONGEST_MEDIAN: Final = 200
"""Characters of a section with its heading. The sections of an article are longer, and build on each other. At 400, the
releases of rustblog are cut, too, which costs .037 of its ncov@5."""

_HEADING = re.compile(r"^ {0,3}(?:#{1,6}[ \t]|=+[ \t]*$|-+[ \t]*$)", re.MULTILINE)


def cut_sections(
    texts: Sequence[str], *, max_tokens: Sequence[int], overlap_tokens: int, count_tokens: CountTokens
) -> list[list[Span]]:
    """Cut Markdown as :func:`backstory.text.chunking.cut.cut_chunks` does, and lists of short answers at each heading.

    It raises ``InputError`` as :func:`backstory.text.chunking.cut.cut_chunks` does.
    """
    divided = [_divide(text) for text in texts]
    spans = cut_chunks(
        [
            text[start:end]
            for text, (_, bounds) in zip(texts, divided, strict=True)
            for start, end in pairwise(bounds)
        ],
        max_tokens=[
            ceiling for ceiling, (_, bounds) in zip(max_tokens, divided, strict=True) for _ in bounds[1:]
        ],
        overlap_tokens=overlap_tokens,
        count_tokens=count_tokens,
    )
    sections = iter(spans)
    return [_join([(start, next(sections)) for start in bounds[:-1]], outline) for outline, bounds in divided]


def _divide(text: str) -> tuple[MarkdownOutline | None, list[int]]:
    """Find where each section of a list of short answers begins, and its end; another text is one section."""
    whole = [0, len(text)]
    if len(_HEADING.findall(text)) < _LEAST_SECTIONS:
        return None, whole
    outline = outline_markdown(text)
    bounds = [0]
    has_body = False
    for start, end in pairwise([0, *outline.heading_starts, len(text)]):
        # A heading without a text of its own stands above the next section.
        if has_body:
            bounds.append(start)
        below = text[start:end].strip()
        has_body = "\n" in below or (bool(below) and start not in outline.heading_starts)
    bounds.append(len(text))
    sizes = [end - start for start, end in pairwise(bounds)]
    is_list = len(sizes) >= _LEAST_SECTIONS and median(sizes) <= _LONGEST_MEDIAN
    return (outline, bounds) if is_list else (None, whole)


def _join(sections: Sequence[tuple[int, list[Span]]], outline: MarkdownOutline | None) -> list[Span]:
    """Give the chunks of sections their places in the whole text, and the headings above them."""
    if outline is None:
        [(_, spans)] = sections
        return spans
    spans = [
        span._replace(start=begin + span.start, end=begin + span.end)
        for begin, found in sections
        for span in found
    ]
    headings = outline.headings_at(np.array([span.start for span in spans], np.int64))
    return [span._replace(heading=heading) for span, heading in zip(spans, headings, strict=True)]
