"""Cutting texts into chunks of a number of characters, and never of more tokens than the ceiling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backstory.text.chunking.cut import Span, cut_chunks
from backstory.text.chunking.tokens import CountTokens


def cut_characters(
    texts: Sequence[str],
    *,
    max_characters: int,
    overlap_characters: int,
    max_tokens: Sequence[int],
    overlap_tokens: int,
    count_tokens: CountTokens,
) -> list[list[Span]]:
    """Cut many texts into chunks of at most a number of characters, at the same places as Markdown is cut.

    It returns the chunks of each text in order, as :func:`backstory.text.chunking.cut.cut_chunks` gives them. It
    raises ``InputError`` if the limits contradict each other, or a single character is over the ceiling.
    """
    found = cut_chunks(
        texts,
        max_tokens=max_characters,
        overlap_tokens=overlap_characters,
        count_tokens=_count_characters,
    )
    owners = [number for number, spans in enumerate(found) for _ in spans]
    spans = [span for each in found for span in each]
    slices = [texts[number][span.start : span.end] for number, span in zip(owners, spans, strict=True)]
    counts = count_tokens(slices).tolist() if slices else []
    over = [place for place, count in enumerate(counts) if count > max_tokens[owners[place]]]
    again = cut_chunks(
        [slices[place] for place in over],
        max_tokens=[max_tokens[owners[place]] for place in over],
        overlap_tokens=overlap_tokens,
        count_tokens=count_tokens,
    )
    parts = dict(zip(over, again, strict=True))
    cut: list[list[Span]] = [[] for _ in texts]
    for place, (owner, span) in enumerate(zip(owners, spans, strict=True)):
        if place in parts:
            cut[owner] += [
                Span(span.start + part.start, span.start + part.end, part.token_count, span.heading)
                for part in parts[place]
            ]
        else:
            cut[owner].append(span._replace(token_count=counts[place]))
    return cut


def _count_characters(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(len, texts), np.int64, len(texts))
