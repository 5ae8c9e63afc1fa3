"""The pieces that chunks consist of: paragraphs, and smaller units where a paragraph is too long.

Each paragraph is counted exactly once. The paragraphs of all texts are counted in one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import InputError
from backstory.text.chunking.outline import MarkdownOutline
from backstory.text.chunking.tokens import CountTokens
from backstory.text.chunking.units import Range, split_graphemes, split_sentences, split_words

Integers = NDArray[np.int64]

_PARTS_OF_LONG_WORD = 8
_PARAGRAPH_GAP = "\n\n"


@dataclass(frozen=True)
class Pieces:
    """The pieces of one text, in order, with only whitespace between them.

    Attributes:
        starts: Offset of each piece.
        ends: Offset after each piece.
        tokens: Tokens of each piece, without special tokens.
        gap_tokens: Tokens of the whitespace before each piece, 0 if ``tokens`` already includes them.
        whole: Whether the piece is a whole paragraph, so that ``tokens`` is exact.
    """

    starts: Integers
    ends: Integers
    tokens: Integers
    gap_tokens: Integers
    whole: NDArray[np.bool_]


@dataclass(frozen=True)
class _Unit:
    """A range of a text to cut: ``level`` 0 into sentences, 1 into words, 2 into grapheme clusters."""

    text: int
    start: int
    end: int
    tokens: int
    gap_tokens: int
    level: int


def measure_paragraphs(
    outlines: Sequence[MarkdownOutline], count_tokens: CountTokens
) -> tuple[Pieces, list[int], int]:
    """Count the paragraphs of all texts in one call, each once.

    It returns the paragraphs of all texts as pieces; the index of each text's first piece, then the number of pieces;
    and the number of special tokens that the counter adds.
    """
    bounds = [0, *accumulate(len(outline.starts) for outline in outlines)]
    starts = np.concatenate([outline.starts for outline in outlines])
    ends = np.concatenate([outline.ends for outline in outlines])
    owners = np.repeat(np.arange(len(outlines)), np.diff(bounds))
    unusual = ((starts[1:] - ends[:-1] != len(_PARAGRAPH_GAP)) & (owners[1:] == owners[:-1])).nonzero()[0]
    gaps = [
        outlines[owner].text[end:start]
        for owner, end, start in zip(
            owners[unusual].tolist(), ends[unusual].tolist(), starts[unusual + 1].tolist(), strict=True
        )
    ]
    distinct = sorted({_PARAGRAPH_GAP, *gaps})
    probes = [*_probe_gaps(distinct), "a", "a a", ""]
    paragraphs = [
        outline.text[start:end]
        for outline in outlines
        for start, end in zip(outline.starts.tolist(), outline.ends.tolist(), strict=True)
    ]
    counts = count_tokens([*paragraphs, *probes])
    single, double, empty = counts[-3:].tolist()
    specials = max(0, min(empty, 2 * single - double))  # a counter may return 1 for no text and for one word
    tokens = np.maximum(counts[:-3] - specials, 0)
    gap_counts = dict(zip(distinct, _read_gaps(tokens[len(starts) :]), strict=True))
    gap_tokens = np.full(len(starts), gap_counts[_PARAGRAPH_GAP], np.int64)
    gap_tokens[unusual + 1] = [gap_counts[gap] for gap in gaps]
    tokens = tokens[: len(starts)]
    return Pieces(starts, ends, tokens, gap_tokens, np.ones(len(tokens), bool)), bounds, specials


def split_pieces(pieces: Pieces, bounds: Sequence[int]) -> list[Pieces]:
    """Split the pieces of many texts at the bounds of the texts."""
    return [
        Pieces(
            pieces.starts[first:stop],
            pieces.ends[first:stop],
            pieces.tokens[first:stop],
            pieces.gap_tokens[first:stop],
            pieces.whole[first:stop],
        )
        for first, stop in pairwise(bounds)
    ]


def join_pieces(pieces: Sequence[Pieces]) -> Pieces:
    """Concatenate the pieces of texts; offsets remain relative to each text."""
    if len(pieces) == 1:
        return pieces[0]
    return Pieces(
        *(
            np.concatenate([getattr(part, name) for part in pieces])
            for name in ("starts", "ends", "tokens", "gap_tokens", "whole")
        )
    )


def cut_pieces(
    texts: Sequence[str],
    pieces: Sequence[Pieces],
    rows: Mapping[int, Iterable[int]],
    limits: Sequence[int],
    count_tokens: CountTokens,
    specials: int,
) -> list[Pieces]:
    """Cut pieces into sentences, sentences over the limit into words, and words over it into grapheme clusters.

    It raises ``InputError`` if a single character has more tokens than the limit.
    """
    cut = list(pieces)
    pending = [
        _Unit(text, int(p.starts[row]), int(p.ends[row]), int(p.tokens[row]), int(p.gap_tokens[row]), 0)
        for text, chosen in rows.items()
        for p in (pieces[text],)
        for row in chosen
    ]
    finished: dict[int, list[_Unit]] = {text: [] for text in rows}
    while pending:
        units = _measure_units(
            texts, [_cut_unit(texts, unit, limits) for unit in pending], count_tokens, specials
        )
        oversized = [unit for unit in units if unit.tokens > limits[unit.text]]
        alone = _measure_alone(texts, oversized, count_tokens, specials)
        pending = [unit for unit in alone if unit.tokens > limits[unit.text]]
        for unit in [*units, *alone]:
            if unit.tokens <= limits[unit.text]:
                finished[unit.text].append(unit)
    for text, units in finished.items():
        cut[text] = _replace_rows(pieces[text], list(rows[text]), units)
    return cut


def _cut_unit(texts: Sequence[str], unit: _Unit, limits: Sequence[int]) -> tuple[_Unit, int, list[Range]]:
    text, start, end = texts[unit.text], unit.start, unit.end
    if unit.level == 0:
        ranges = split_sentences(text, start, end)
        if ranges != [(start, end)]:
            return unit, 1, ranges
    if unit.level <= 1:
        ranges = split_words(text, start, end)
        if ranges != [(start, end)]:
            return unit, 2, ranges
    limit = max(limits[unit.text], 1)
    ranges = split_graphemes(text, start, end, max(2, -(-_PARTS_OF_LONG_WORD * unit.tokens // limit)))
    if len(ranges) == 1:
        if end - start == 1:
            raise InputError(
                f"the character {text[start:end]!r} alone has {unit.tokens} tokens, "
                f"over the {limits[unit.text]} that a chunk has room for; raise max_tokens",
                code="no_room",
            )
        middle = (start + end) // 2
        ranges = [(start, middle), (middle, end)]
    return unit, 2, ranges


def _measure_units(
    texts: Sequence[str],
    cuts: Sequence[tuple[_Unit, int, list[Range]]],
    count_tokens: CountTokens,
    specials: int,
) -> list[_Unit]:
    """Count new units together with the space before them, since tokenizers join it to the next word."""
    slices: list[str] = []
    wide_gaps: set[str] = set()
    plans: list[tuple[_Unit, int, int, int, str | None]] = []
    for parent, level, ranges in cuts:
        text = texts[parent.text]
        previous = None
        for start, end in ranges:
            gap = "" if previous is None else text[previous:start]
            slices.append(text[start - (len(gap) == 1) : end])
            if len(gap) > 1:
                wide_gaps.add(gap)
            plans.append((parent, level, start, end, gap if previous is not None else None))
            previous = end
    distinct = sorted(wide_gaps)
    counts = np.maximum(count_tokens([*slices, *_probe_gaps(distinct)]) - specials, 0)
    gap_counts = dict(zip(distinct, _read_gaps(counts[len(slices) :]), strict=True))
    return [
        _Unit(
            parent.text,
            start,
            end,
            tokens,
            parent.gap_tokens if gap is None else gap_counts.get(gap, 0),
            level,
        )
        for (parent, level, start, end, gap), tokens in zip(
            plans, counts[: len(slices)].tolist(), strict=True
        )
    ]


def _measure_alone(
    texts: Sequence[str], units: Sequence[_Unit], count_tokens: CountTokens, specials: int
) -> list[_Unit]:
    """Recount units without the space before them, which alone may cause the excess."""
    if not units:
        return []
    counts = np.maximum(
        count_tokens([texts[unit.text][unit.start : unit.end] for unit in units]) - specials, 0
    )
    return [
        replace(unit, tokens=tokens, gap_tokens=unit.gap_tokens + max(unit.tokens - tokens, 0))
        for unit, tokens in zip(units, counts.tolist(), strict=True)
    ]


def _replace_rows(pieces: Pieces, rows: list[int], units: list[_Unit]) -> Pieces:
    def merge(values: NDArray[np.generic], added: list[int]) -> Integers:
        return np.concatenate([np.delete(values, rows), np.array(added, np.int64)])

    starts = merge(pieces.starts, [unit.start for unit in units])
    order = np.argsort(starts, kind="stable")
    return Pieces(
        starts=starts[order],
        ends=merge(pieces.ends, [unit.end for unit in units])[order],
        tokens=merge(pieces.tokens, [unit.tokens for unit in units])[order],
        gap_tokens=merge(pieces.gap_tokens, [unit.gap_tokens for unit in units])[order],
        whole=merge(pieces.whole, [0] * len(units))[order].astype(bool),
    )


def _probe_gaps(gaps: Sequence[str]) -> list[str]:
    """Build probes of whitespace, alone and between letters, where tokenizers split it differently."""
    return [probe for gap in gaps for probe in (gap, f"a{gap}a", "a")]


def _read_gaps(counts: Integers) -> list[int]:
    alone, between, letter = counts[0::3], counts[1::3], counts[2::3]
    tokens: list[int] = np.maximum(alone, between - 2 * letter).tolist()
    return tokens
