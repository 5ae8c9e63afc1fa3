"""Texts grouped into batches for one call of a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def group_by_length(
    token_counts: NDArray[np.int64], *, max_padded_tokens: int, least_filled: float = 0.0
) -> list[NDArray[np.int64]]:
    """Group texts of similar length, so that little padding is computed.

    The longest texts come first: memory peaks at the start of a run and not hours into it.

    Args:
        token_counts: Tokens of each text.
        max_padded_tokens: Most tokens of a batch, padding included. A single text above it is a separate batch.
        least_filled: Least tokens of a text as a share of the longest one of its batch; 0 pads any text.

    Returns:
        Positions of the texts, each exactly once, batch by batch.
    """
    order = np.argsort(-token_counts, kind="stable")
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        longest = int(token_counts[order[start]])
        batch = order[start : start + max(1, max_padded_tokens // max(1, longest))]
        filled = int(np.count_nonzero(token_counts[batch] >= least_filled * longest))
        batches.append(batch[:filled])
        start += filled
    return batches


def group_equal_lengths(token_counts: NDArray[np.int64], *, max_tokens: int) -> list[NDArray[np.int64]]:
    """Group texts of the same length within a number of tokens, the longest first; nothing is padded."""
    order = np.argsort(-token_counts, kind="stable")
    changes = np.flatnonzero(np.diff(token_counts[order])) + 1
    batches: list[NDArray[np.int64]] = []
    for same in np.split(order, changes) if len(order) else []:
        size = max(1, max_tokens // max(1, int(token_counts[same[0]])))
        batches += [same[start : start + size] for start in range(0, len(same), size)]
    return batches


def group_in_order(
    token_counts: NDArray[np.int64], *, max_texts: int, max_tokens: int
) -> list[NDArray[np.int64]]:
    """Group neighbouring texts until a batch is full; a text over the limit of tokens is a batch alone."""
    starts: list[int] = []
    texts = tokens = 0
    for position, count in enumerate(token_counts.tolist()):
        if not starts or texts == max_texts or tokens + count > max_tokens:
            starts.append(position)
            texts = tokens = 0
        texts += 1
        tokens += count
    return np.split(np.arange(len(token_counts)), starts[1:]) if starts else []
