"""Rows of two exports that are one message: equal keys at nearly equal times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Times: TypeAlias = NDArray[np.int64]
"""Microseconds since 1970."""

SECOND: Final = 1_000_000
QUARTER_HOUR: Final = 900 * SECOND
MOST_APART: Final = 180 * SECOND
"""Tolerance: exports of one message may differ in time by this much."""

Keyed: TypeAlias = tuple[Hashable, int, int]
"""Key that must be equal (None to match nothing), time, and row."""


def pair_nearest(here: Sequence[Keyed], there: Sequence[Keyed]) -> dict[int, int]:
    """Pair rows with equal keys in time order, each row once, if they are at most three minutes apart."""
    by_key: dict[Hashable, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = defaultdict(
        lambda: ([], [])
    )
    for side, rows in enumerate((here, there)):
        for key, time, row in rows:
            if key is not None:
                by_key[key][side].append((time, row))
    pairs: dict[int, int] = {}
    for first, second in by_key.values():
        first.sort()
        second.sort()
        place = 0
        for time, row in second:
            while place < len(first) and first[place][0] < time - MOST_APART:
                place += 1
            if place < len(first) and first[place][0] <= time + MOST_APART:
                pairs[row] = first[place][1]
                place += 1
    return pairs


def round_to_quarter_hours(difference: Times) -> Times:
    """Round differences of clocks to those of time zones."""
    return (difference + QUARTER_HOUR // 2) // QUARTER_HOUR * QUARTER_HOUR


def shift(times: Times, anchors: Times) -> Times:
    """Convert times to the leading clock, by the difference at the nearest anchor."""
    offsets = round_to_quarter_hours(anchors[:, 1] - anchors[:, 0])
    middles = (anchors[1:, 1] + anchors[:-1, 1]) // 2
    shifted: Times = times - offsets[np.searchsorted(middles, times)]
    return shifted
