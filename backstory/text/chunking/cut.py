"""Cutting Markdown into chunks: whole paragraphs, packed up to a hard ceiling of tokens.

Chunks are exact slices of their text. Token counts are not additive, so the counts of pieces are only used for
planning. Every finished slice is counted, and a text with a slice over the ceiling is planned again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from backstory.base.errors import InputError
from backstory.text.chunking.outline import MarkdownOutline, outline_markdown
from backstory.text.chunking.pieces import cut_pieces, measure_paragraphs, split_pieces
from backstory.text.chunking.plans import Draft, correct_draft, plan_chunks
from backstory.text.chunking.tokens import CountTokens

_GROUP_CHARACTERS = 500_000  # bounds memory; smaller groups make no tokenizer slower


class Span(NamedTuple):
    """One chunk: characters ``start`` to ``end`` of its text.

    Attributes:
        start: Offset of the first character, the overlap with the previous chunk included.
        end: Offset after the last character.
        token_count: Tokens of the slice, special tokens included.
        heading: Headings above ``start``, outermost first, as ``"A > B"``.
    """

    start: int
    end: int
    token_count: int
    heading: str


class Cut(Protocol):
    """Cuts many texts into chunks at once."""

    def __call__(
        self,
        texts: Sequence[str],
        *,
        max_tokens: Sequence[int],
        overlap_tokens: int,
        count_tokens: CountTokens,
    ) -> list[list[Span]]:
        """Cut texts as :func:`cut_chunks` does, with one ceiling for each text."""
        ...


def cut_chunks(
    texts: Sequence[str],
    *,
    max_tokens: Sequence[int] | int,
    overlap_tokens: int,
    count_tokens: CountTokens,
    outline: Callable[[str], MarkdownOutline] = outline_markdown,
) -> list[list[Span]]:
    """Cut many texts into chunks at once.

    Paragraphs stay whole if they fit. A paragraph over the ceiling is cut at sentences and lines, then at words,
    then between grapheme clusters. A chunk repeats the last whole paragraphs of the previous chunk, else its last
    sentences, else its last words: as many as fit ``overlap_tokens`` and the ceiling, but never the whole chunk.
    The overlap is limited to half of the ceiling.

    It returns the chunks of each text in order. Together they contain everything but whitespace between paragraphs. It
    raises ``InputError`` if the limits contradict each other, or a single character is over the ceiling.
    """
    ceilings = list(max_tokens) if isinstance(max_tokens, Sequence) else [max_tokens] * len(texts)
    _check_limits(texts, ceilings, overlap_tokens)
    spans: list[list[Span]] = []
    for start, end in _group(texts):
        spans += _cut_group(texts[start:end], ceilings[start:end], overlap_tokens, count_tokens, outline)
    return spans


def _group(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for number, text in enumerate(texts):
        size += len(text)
        if size >= _GROUP_CHARACTERS:
            yield start, number + 1
            start, size = number + 1, 0
    if start < len(texts):
        yield start, len(texts)


def _cut_group(
    texts: Sequence[str],
    ceilings: Sequence[int],
    overlap_tokens: int,
    count_tokens: CountTokens,
    outline: Callable[[str], MarkdownOutline],
) -> list[list[Span]]:
    outlines = [outline(text) for text in texts]
    measured, bounds, specials = measure_paragraphs(outlines, count_tokens)
    limits = [ceiling - specials for ceiling in ceilings]
    over_limit = measured.tokens > np.repeat(np.array(limits, np.int64), np.diff(bounds))
    oversized: dict[int, list[int]] = {}
    for row in over_limit.nonzero()[0].tolist():
        number = bisect_right(bounds, row) - 1
        oversized.setdefault(number, []).append(row - bounds[number])
    pieces = cut_pieces(texts, split_pieces(measured, bounds), oversized, limits, count_tokens, specials)
    drafts = {
        number: Draft(found, measured, limit, overlap_tokens)
        for number, (found, measured, limit) in enumerate(zip(outlines, pieces, limits, strict=True))
    }
    spans: list[list[Span]] = [[] for _ in texts]
    while drafts:
        plan = plan_chunks(list(drafts.values()), count_tokens, specials)
        over = plan.find_over([ceilings[number] for number in drafts], overlap_tokens)
        ends = plan.pieces.ends[plan.lasts]
        redone = {}
        for place, (number, draft) in enumerate(drafts.items()):
            if place in over:
                redone[number] = correct_draft(draft, plan, place, ceilings[number], overlap_tokens)
            else:
                chunks = slice(plan.chunk_bounds[place], plan.chunk_bounds[place + 1])
                starts = plan.starts[chunks]
                headings = draft.outline.headings_at(starts)
                values = starts.tolist(), ends[chunks].tolist(), plan.token_counts[chunks].tolist(), headings
                spans[number] = list(map(Span, *values))
        drafts = _cut_stubborn_pieces(redone, limits, count_tokens, specials)
    return spans


def _check_limits(texts: Sequence[str], ceilings: Sequence[int], overlap_tokens: int) -> None:
    if len(ceilings) != len(texts):
        raise InputError(
            f"max_tokens has {len(ceilings)} values for {len(texts)} texts; give one for each",
            code="wrong_count",
        )
    if overlap_tokens < 0:
        raise InputError(f"overlap_tokens is {overlap_tokens}; give 0 or more", code="out_of_range")
    if ceilings and min(ceilings) < 1:
        raise InputError(f"max_tokens is {min(ceilings)}; give 1 or more", code="out_of_range")


def _cut_stubborn_pieces(
    drafts: dict[int, Draft], limits: Sequence[int], count_tokens: CountTokens, specials: int
) -> dict[int, Draft]:
    """Cut the pieces that exceed the ceiling even as a chunk of one piece (a lost space can add a token)."""
    stubborn = {place: draft.stubborn for place, draft in enumerate(drafts.values()) if draft.stubborn}
    if not stubborn:
        return drafts
    pieces = cut_pieces(
        [draft.outline.text for draft in drafts.values()],
        [draft.pieces for draft in drafts.values()],
        stubborn,
        [limits[number] for number in drafts],
        count_tokens,
        specials,
    )
    return {
        number: replace(draft, pieces=cut, stubborn=[])
        for (number, draft), cut in zip(drafts.items(), pieces, strict=True)
    }
