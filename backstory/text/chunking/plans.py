"""Planning which pieces form a chunk, for many texts at once, and correcting plans with chunks over the ceiling."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np

from backstory.text.chunking.outline import MarkdownOutline
from backstory.text.chunking.pieces import Integers, Pieces, join_pieces
from backstory.text.chunking.tokens import CountTokens
from backstory.text.chunking.units import split_sentences, split_words

_CHARACTERS_PER_OVERLAP_TOKEN = 8


@dataclass(frozen=True)
class Draft:
    """A text to be cut, with its planning limits, which are reduced after a plan exceeds the ceiling."""

    outline: MarkdownOutline
    pieces: Pieces
    limit: int
    overlap_tokens: int
    stubborn: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """The chunks of all texts, in the order of the texts.

    Attributes:
        pieces: The pieces of all texts.
        piece_bounds: Index of the first piece of each text, then the number of pieces.
        chunk_bounds: Index of the first chunk of each text, then the number of chunks.
        owners: Index of each chunk's text.
        firsts: Index of each chunk's first piece.
        lasts: Index of each chunk's last piece.
        starts: Offset of each chunk, its overlap included.
        token_counts: Tokens of each chunk.
        overlap_counts: Tokens of each chunk's overlap.
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
        """Return the indices of texts with a chunk over the ceiling, or with too much overlap."""
        limits = np.array(ceilings, np.int64)[self.owners]
        over = (self.token_counts > limits) | (self.overlap_counts > overlap_tokens)
        return set(self.owners[over].tolist())


def plan_chunks(drafts: Sequence[Draft], count_tokens: CountTokens, specials: int) -> Plan:
    """Pack the pieces of texts into chunks, and count the chunks' tokens.

    It returns the chunks; some may exceed their ceiling, since token counts are only roughly additive.
    """
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
    if len(starts):
        places = zip(owners.tolist(), starts.tolist(), stops.tolist(), strict=True)
        counts = count_tokens([texts[owner][start:stop] for owner, start, stop in places])
        plan.token_counts[recounted] = counts[: len(recounted)]
        plan.overlap_counts[overlaps] = counts[len(recounted) :]
    return plan


def _pack(drafts: Sequence[Draft], specials: int) -> Plan:
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
    return Plan(pieces, piece_bounds, chunk_bounds, owners, rows, ends, starts, counts, nothing)


def _add_word_overlaps(drafts: Sequence[Draft], plan: Plan, count_tokens: CountTokens, specials: int) -> None:
    """Extend chunks without overlap to begin with the last sentences or words of the previous chunk."""
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


def correct_draft(draft: Draft, plan: Plan, place: int, ceiling: int, overlap_tokens: int) -> Draft:
    """Reduce the planning limits of a text by the excess of its chunks.

    It returns the text to plan again; its ``stubborn`` pieces exceed the ceiling even as a chunk of one piece.
    """
    chunks = slice(plan.chunk_bounds[place], plan.chunk_bounds[place + 1])
    firsts, token_counts = plan.firsts[chunks], plan.token_counts[chunks]
    overlap_excess = int(plan.overlap_counts[chunks].max(initial=0)) - overlap_tokens
    excess = token_counts - ceiling
    over = excess > 0
    alone = (firsts == plan.lasts[chunks]) & (plan.starts[chunks] == plan.pieces.starts[firsts])
    shared_excess = int(np.max(excess[over & ~alone], initial=0))
    return replace(
        draft,
        # If counts are far from additive, the excess of one long chunk must not reduce every chunk to one piece.
        limit=max(draft.limit - shared_excess, draft.limit // 2),
        overlap_tokens=draft.overlap_tokens - max(overlap_excess, 0),
        stubborn=(firsts[over & alone] - plan.piece_bounds[place]).tolist(),
    )
