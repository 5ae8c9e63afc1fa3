"""Markdown cut into chunks: whole paragraphs, packed up to a hard ceiling of tokens.

Chunks are exact slices of their text. Tokenizers are not additive, so the counts of the parts only plan the
chunks: every finished slice is counted, and a text with one over the ceiling is planned again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from backstory.chunk_pieces import Integers, Pieces, cut_pieces, measure_paragraphs
from backstory.errors import InputError
from backstory.markdown_outline import MarkdownOutline, outline_markdown
from backstory.text_units import split_sentences, split_words
from backstory.tokens import CountTokens, estimate_tokens

_CHARACTERS_PER_OVERLAP_TOKEN = 8
_GROUP_CHARACTERS = 2_000_000  # bounds memory; smaller groups make no tokenizer slower


@dataclass(frozen=True)
class Span:
    """One chunk: characters ``start`` to ``end`` of its text.

    Attributes:
        start: Offset of the first character, the overlap with the previous chunk included.
        end: Offset after the last character.
        token_count: What the counter says of the slice.
        heading: Headings above ``start``, outermost first, as ``"A > B"``.
    """

    start: int
    end: int
    token_count: int
    heading: str


def chunk_markdown(
    content: str,
    max_tokens: int = 1800,
    overlap_tokens: int = 150,
    *,
    count_tokens: CountTokens = estimate_tokens,
) -> list[str]:
    """Cut a text into chunks.

    Args:
        content: Markdown, or plain text.
        max_tokens: Most tokens of a chunk, overlap and special tokens included.
        overlap_tokens: Most tokens of a chunk that are repeated from the one before.
        count_tokens: Counts many texts at once.

    Returns:
        The chunks in order, none for a text of whitespace only.

    Raises:
        InputError: The limits contradict each other, or a single character is over the ceiling.
    """
    (spans,) = cut_chunks(
        [content], max_tokens=max_tokens, overlap_tokens=overlap_tokens, count_tokens=count_tokens
    )
    return [content[span.start : span.end] for span in spans]


def cut_chunks(
    texts: Sequence[str],
    *,
    max_tokens: Sequence[int] | int,
    overlap_tokens: int,
    count_tokens: CountTokens,
) -> list[list[Span]]:
    """Cut many texts into chunks at once.

    Paragraphs stay whole where they fit; one over the ceiling is cut at sentences and lines, then at words,
    then between grapheme clusters. A chunk begins with the last whole paragraphs of the one before it, else
    with its last sentences, else with its last words, as many as ``overlap_tokens`` and the ceiling leave
    room for, and never with the whole of it. The overlap is held to half of the ceiling.

    Args:
        texts: Markdown or plain texts.
        max_tokens: Most tokens of a chunk, overlap and special tokens included: one for all, or one per text.
        overlap_tokens: Most tokens of a chunk that are repeated from the one before.
        count_tokens: Counts many texts at once; every paragraph is passed to it once, in large batches.

    Returns:
        The chunks of each text in order. Together they hold all but whitespace between paragraphs.

    Raises:
        InputError: The limits contradict each other, or a single character is over the ceiling.
    """
    ceilings = list(max_tokens) if isinstance(max_tokens, Sequence) else [max_tokens] * len(texts)
    _check_limits(texts, ceilings, overlap_tokens)
    spans: list[list[Span]] = []
    for start, end in _group(texts):
        spans += _cut_group(texts[start:end], ceilings[start:end], overlap_tokens, count_tokens)
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
    texts: Sequence[str], ceilings: Sequence[int], overlap_tokens: int, count_tokens: CountTokens
) -> list[list[Span]]:
    outlines = [outline_markdown(text) for text in texts]
    pieces, specials = measure_paragraphs(outlines, count_tokens)
    limits = [ceiling - specials for ceiling in ceilings]
    oversized = {
        number: (measured.tokens > limit).nonzero()[0].tolist()
        for number, (measured, limit) in enumerate(zip(pieces, limits, strict=True))
        if len(measured.tokens) and measured.tokens.max() > limit
    }
    pieces = cut_pieces(texts, pieces, oversized, limits, count_tokens, specials)
    drafts = {
        number: _Draft(outline, measured, limit, overlap_tokens)
        for number, (outline, measured, limit) in enumerate(zip(outlines, pieces, limits, strict=True))
    }
    spans: list[list[Span]] = [[] for _ in texts]
    while drafts:
        plans = _plan_chunks(list(drafts.values()), count_tokens, specials)
        redone = {}
        for (number, draft), plan in zip(drafts.items(), plans, strict=True):
            improved = _correct(draft, plan, ceilings[number], overlap_tokens)
            if improved is None:
                spans[number] = _make_spans(draft, plan)
            else:
                redone[number] = improved
        drafts = _cut_stubborn_pieces(redone, limits, count_tokens, specials)
    return spans


def _check_limits(texts: Sequence[str], ceilings: Sequence[int], overlap_tokens: int) -> None:
    if len(ceilings) != len(texts):
        raise InputError(f"max_tokens has {len(ceilings)} values for {len(texts)} texts; give one for each")
    if overlap_tokens < 0:
        raise InputError(f"overlap_tokens is {overlap_tokens}; give 0 or more")
    if ceilings and min(ceilings) < 1:
        raise InputError(f"max_tokens is {min(ceilings)}; give 1 or more")


@dataclass(frozen=True)
class _Draft:
    """A text on its way to chunks: the limits that it is planned with shrink where a count was too high."""

    outline: MarkdownOutline
    pieces: Pieces
    limit: int
    overlap_tokens: int
    stubborn: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Plan:
    """The chunks of one text: pieces ``firsts`` to ``lasts``, after an overlap from offset ``starts``."""

    firsts: Integers
    lasts: Integers
    starts: Integers
    token_counts: Integers
    overlap_counts: Integers


def _plan_chunks(drafts: Sequence[_Draft], count_tokens: CountTokens, specials: int) -> list[_Plan]:
    plans = [_pack(draft, specials) for draft in drafts]
    _add_word_overlaps(drafts, plans, count_tokens, specials)
    slices: list[str] = []
    places: list[tuple[Integers, Integers]] = []
    for draft, plan in zip(drafts, plans, strict=True):
        text, pieces = draft.outline.text, draft.pieces
        first_starts, ends = pieces.starts[plan.firsts], pieces.ends[plan.lasts]
        overlapped = plan.starts < first_starts
        chosen = (overlapped | (plan.firsts != plan.lasts) | ~pieces.whole[plan.firsts]).nonzero()[0]
        slices += map(text.__getitem__, map(slice, plan.starts[chosen].tolist(), ends[chosen].tolist()))
        places.append((plan.token_counts, chosen))
        chosen = overlapped.nonzero()[0]
        slices += map(text.__getitem__, map(slice, plan.starts[chosen].tolist(), ends[chosen - 1].tolist()))
        places.append((plan.overlap_counts, chosen))
    counts = count_tokens(slices) if slices else np.zeros(0, np.int64)
    position = 0
    for target, rows in places:
        target[rows] = counts[position : position + len(rows)]
        position += len(rows)
    return plans


def _pack(draft: _Draft, specials: int) -> _Plan:
    pieces = draft.pieces
    through = np.cumsum(pieces.gap_tokens + pieces.tokens)
    before = through - pieces.tokens
    overlap = max(0, min(draft.overlap_tokens - specials, draft.limit // 2))
    totals: list[int] = through.tolist()
    firsts, lasts = [], []
    first, budget = 0, draft.limit
    while first < len(totals):
        last = max(first, bisect_right(totals, int(before[first]) + budget, lo=first) - 1)
        firsts.append(first)
        lasts.append(last)
        first, budget = last + 1, draft.limit - overlap
    rows, ends = np.array(firsts, np.int64), np.array(lasts, np.int64)
    starts = pieces.starts[rows]
    if overlap and len(rows) > 1:
        least = np.maximum(through[ends[:-1]] - overlap, through[ends[1:]] - draft.limit)
        chosen = np.maximum(before.searchsorted(least), rows[:-1] + 1)
        starts[1:] = pieces.starts[np.minimum(chosen, rows[1:])]
    return _Plan(rows, ends, starts, pieces.tokens[rows] + specials, np.zeros(len(rows), np.int64))


def _add_word_overlaps(
    drafts: Sequence[_Draft], plans: Sequence[_Plan], count_tokens: CountTokens, specials: int
) -> None:
    """Move the starts of chunks without overlap into the last sentences or words of the chunk before."""
    slices: list[str] = []
    requests = []
    for draft, plan in zip(drafts, plans, strict=True):
        pieces, text = draft.pieces, draft.outline.text
        for row in np.flatnonzero(plan.starts[1:] == pieces.starts[plan.firsts[1:]]).tolist():
            first, last = int(plan.firsts[row + 1]), int(plan.lasts[row + 1])
            body = int(pieces.tokens[first : last + 1].sum() + pieces.gap_tokens[first : last + 1].sum())
            room = min(draft.overlap_tokens - specials, draft.limit - body)
            if room <= 0:
                continue
            start, end = int(pieces.starts[first - 1]), int(pieces.ends[first - 1])
            tail = max(start, end - room * _CHARACTERS_PER_OVERLAP_TOKEN)
            sentences = {left for left, _ in split_sentences(text, tail, end)[1:]}
            cuts = sorted(sentences | {left for left, _ in split_words(text, tail, end)[1:]})
            edges = [*cuts, end]
            slices += [
                text[left - text[left - 1].isspace() : right].rstrip()
                for left, right in zip(cuts, edges[1:], strict=True)
            ]
            requests.append((plan, row + 1, room, cuts, sentences))
    if not slices:
        return
    counts = np.maximum(count_tokens(slices) - specials, 0)
    position = 0
    for plan, row, room, cuts, sentences in requests:
        backwards = np.cumsum(counts[position : position + len(cuts)][::-1])
        position += len(cuts)
        taken = int(backwards.searchsorted(room, side="right"))
        within = cuts[len(cuts) - taken :]
        if within:
            plan.starts[row] = next((cut for cut in within if cut in sentences), within[0])


def _correct(draft: _Draft, plan: _Plan, ceiling: int, overlap_tokens: int) -> _Draft | None:
    """Shrink what a text is planned with by what its counts were too high; None if nothing was."""
    overlap_excess = int(plan.overlap_counts.max(initial=0)) - overlap_tokens
    if plan.token_counts.max(initial=0) <= ceiling and overlap_excess <= 0:
        return None
    excess = plan.token_counts - ceiling
    over = excess > 0
    alone = (plan.firsts == plan.lasts) & (plan.starts == draft.pieces.starts[plan.firsts])
    shared_excess = int(np.max(excess[over & ~alone], initial=0))
    return replace(
        draft,
        limit=draft.limit - shared_excess,
        overlap_tokens=draft.overlap_tokens - max(overlap_excess, 0),
        stubborn=plan.firsts[over & alone].tolist(),
    )


def _cut_stubborn_pieces(
    drafts: dict[int, _Draft], limits: Sequence[int], count_tokens: CountTokens, specials: int
) -> dict[int, _Draft]:
    """Cut the pieces that are over the ceiling although they stand alone (a lost space can add a token)."""
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


def _make_spans(draft: _Draft, plan: _Plan) -> list[Span]:
    ends = draft.pieces.ends[plan.lasts].tolist()
    headings = draft.outline.headings_at(plan.starts)
    counts = plan.token_counts.tolist()
    return [Span(*values) for values in zip(plan.starts.tolist(), ends, counts, headings, strict=True)]
