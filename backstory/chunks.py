"""Markdown cut into chunks: whole paragraphs, packed up to a hard ceiling of tokens.

Chunks are exact slices of their text. Tokenizers are not additive, so the counts of the parts only plan the
chunks: every finished slice is counted, and a text with one over the ceiling is planned again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from backstory.chunk_pieces import Integers, Pieces, cut_pieces, join_pieces, measure_paragraphs
from backstory.errors import InputError
from backstory.markdown_outline import MarkdownOutline, outline_all
from backstory.text_units import split_sentences, split_words
from backstory.tokens import CountTokens, estimate_tokens

_CHARACTERS_PER_OVERLAP_TOKEN = 8
_GROUP_CHARACTERS = 500_000  # bounds memory; smaller groups make no tokenizer slower


class Span(NamedTuple):
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
    outlines = outline_all(texts)
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
        plan = _plan_chunks(list(drafts.values()), count_tokens, specials)
        over = plan.find_over([ceilings[number] for number in drafts], overlap_tokens)
        made = _make_spans(list(drafts.values()), plan)
        redone = {}
        for place, (number, draft) in enumerate(drafts.items()):
            if place in over:
                redone[number] = _correct(draft, plan, place, ceilings[number], overlap_tokens)
            else:
                spans[number] = made[place]
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
    """The chunks of texts, one text after another.

    Attributes:
        pieces: The pieces of all texts.
        piece_bounds: Number of the first piece of each text, and after the last.
        chunk_bounds: Number of the first chunk of each text, and after the last.
        owners: Number of the text of each chunk.
        firsts: First piece of each chunk.
        lasts: Last piece of each chunk.
        starts: Offset of each chunk, its overlap included.
        token_counts: Tokens of each chunk.
        overlap_counts: Tokens of what each chunk repeats.
    """

    pieces: Pieces
    piece_bounds: list[int]
    chunk_bounds: list[int]
    owners: Integers
    firsts: Integers
    lasts: Integers
    starts: Integers
    token_counts: Integers
    overlap_counts: Integers

    def find_over(self, ceilings: Sequence[int], overlap_tokens: int) -> set[int]:
        """Give the numbers of the texts that have a chunk over its ceiling, or with too much overlap."""
        limits = np.array(ceilings, np.int64)[self.owners]
        over = (self.token_counts > limits) | (self.overlap_counts > overlap_tokens)
        return set(self.owners[over].tolist())


def _plan_chunks(drafts: Sequence[_Draft], count_tokens: CountTokens, specials: int) -> _Plan:
    plan = _pack(drafts, specials)
    _add_word_overlaps(drafts, plan, count_tokens, specials)
    pieces = plan.pieces
    texts = [draft.outline.text for draft in drafts]
    ends = pieces.ends[plan.lasts]
    overlapped = plan.starts < pieces.starts[plan.firsts]
    recounted = (overlapped | (plan.firsts != plan.lasts) | ~pieces.whole[plan.firsts]).nonzero()[0]
    overlaps = overlapped.nonzero()[0]
    owners = np.concatenate([plan.owners[recounted], plan.owners[overlaps]])
    starts = np.concatenate([plan.starts[recounted], plan.starts[overlaps]])
    stops = np.concatenate([ends[recounted], ends[overlaps - 1]])
    slices = [
        texts[owner][start:stop]
        for owner, start, stop in zip(owners.tolist(), starts.tolist(), stops.tolist(), strict=True)
    ]
    if slices:
        counts = count_tokens(slices)
        plan.token_counts[recounted] = counts[: len(recounted)]
        plan.overlap_counts[overlaps] = counts[len(recounted) :]
    return plan


def _pack(drafts: Sequence[_Draft], specials: int) -> _Plan:
    pieces = join_pieces([draft.pieces for draft in drafts])
    piece_bounds = [0, *accumulate(len(draft.pieces.starts) for draft in drafts)]
    through = np.cumsum(pieces.gap_tokens + pieces.tokens)
    before = through - pieces.tokens
    overlaps = [max(0, min(draft.overlap_tokens - specials, draft.limit // 2)) for draft in drafts]
    totals, befores = through.data, before.data
    firsts, lasts, chunk_bounds = [], [], [0]
    for draft, overlap, (first, stop) in zip(drafts, overlaps, pairwise(piece_bounds), strict=True):
        budget = draft.limit
        while first < stop:
            last = max(first, bisect_right(totals, befores[first] + budget, first, stop) - 1)
            firsts.append(first)
            lasts.append(last)
            first, budget = last + 1, draft.limit - overlap
        chunk_bounds.append(len(firsts))
    owners = np.repeat(np.arange(len(drafts)), np.diff(chunk_bounds))
    rows, ends = np.array(firsts, np.int64), np.array(lasts, np.int64)
    starts = pieces.starts[rows]
    overlap_of = np.array(overlaps, np.int64)[owners]
    limit_of = np.array([draft.limit for draft in drafts], np.int64)[owners]
    later = ((owners[1:] == owners[:-1]) & (overlap_of[1:] > 0)).nonzero()[0] + 1
    least = np.maximum(through[ends[later - 1]] - overlap_of[later], through[ends[later]] - limit_of[later])
    chosen = np.maximum(before.searchsorted(least), rows[later - 1] + 1)
    starts[later] = pieces.starts[np.minimum(chosen, rows[later])]
    counts = pieces.tokens[rows] + specials
    nothing = np.zeros(len(rows), np.int64)
    return _Plan(pieces, piece_bounds, chunk_bounds, owners, rows, ends, starts, counts, nothing)


def _add_word_overlaps(
    drafts: Sequence[_Draft], plan: _Plan, count_tokens: CountTokens, specials: int
) -> None:
    """Move the starts of chunks without overlap into the last sentences or words of the chunk before."""
    pieces, owners = plan.pieces, plan.owners
    sums = np.concatenate([[0], np.cumsum(pieces.gap_tokens + pieces.tokens)])
    bodies = sums[plan.lasts + 1] - sums[plan.firsts]
    limits = np.array([draft.limit for draft in drafts], np.int64)[owners]
    overlaps = np.array([draft.overlap_tokens for draft in drafts], np.int64)[owners] - specials
    rooms = np.minimum(overlaps, limits - bodies)
    bare = (owners[1:] == owners[:-1]) & (plan.starts[1:] == pieces.starts[plan.firsts[1:]])
    slices: list[str] = []
    requests = []
    for row in ((bare & (rooms[1:] > 0)).nonzero()[0] + 1).tolist():
        text, room = drafts[owners[row]].outline.text, int(rooms[row])
        before = plan.firsts[row] - 1
        start, end = int(pieces.starts[before]), int(pieces.ends[before])
        tail = max(start, end - room * _CHARACTERS_PER_OVERLAP_TOKEN)
        sentences = {left for left, _ in split_sentences(text, tail, end)[1:]}
        cuts = sorted(sentences | {left for left, _ in split_words(text, tail, end)[1:]})
        edges = [*cuts, end]
        slices += [
            text[left - text[left - 1].isspace() : right].rstrip()
            for left, right in zip(cuts, edges[1:], strict=True)
        ]
        requests.append((row, room, cuts, sentences))
    if not slices:
        return
    counts = np.maximum(count_tokens(slices) - specials, 0)
    position = 0
    for row, room, cuts, sentences in requests:
        backwards = np.cumsum(counts[position : position + len(cuts)][::-1])
        position += len(cuts)
        taken = int(backwards.searchsorted(room, side="right"))
        within = cuts[len(cuts) - taken :]
        if within:
            plan.starts[row] = next((cut for cut in within if cut in sentences), within[0])


def _correct(draft: _Draft, plan: _Plan, place: int, ceiling: int, overlap_tokens: int) -> _Draft:
    """Shrink what a text is planned with by what its counts were too high."""
    chunks = slice(plan.chunk_bounds[place], plan.chunk_bounds[place + 1])
    firsts, token_counts = plan.firsts[chunks], plan.token_counts[chunks]
    overlap_excess = int(plan.overlap_counts[chunks].max(initial=0)) - overlap_tokens
    excess = token_counts - ceiling
    over = excess > 0
    alone = (firsts == plan.lasts[chunks]) & (plan.starts[chunks] == plan.pieces.starts[firsts])
    shared_excess = int(np.max(excess[over & ~alone], initial=0))
    return replace(
        draft,
        limit=draft.limit - shared_excess,
        overlap_tokens=draft.overlap_tokens - max(overlap_excess, 0),
        stubborn=(firsts[over & alone] - plan.piece_bounds[place]).tolist(),
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


def _make_spans(drafts: Sequence[_Draft], plan: _Plan) -> list[list[Span]]:
    headings: list[str] = []
    for draft, (first, last) in zip(drafts, pairwise(plan.chunk_bounds), strict=True):
        headings += draft.outline.headings_at(plan.starts[first:last])
    ends = plan.pieces.ends[plan.lasts].tolist()
    spans = list(map(Span, plan.starts.tolist(), ends, plan.token_counts.tolist(), headings))
    return [spans[first:last] for first, last in pairwise(plan.chunk_bounds)]
