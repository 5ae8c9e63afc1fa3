"""Pairs of exports that share enough for a merge, found without comparing every export with every other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

LEAST_CHARACTERS: Final = 8
"""Shorter texts are no evidence that two exports belong together."""

LEAST_SHARED: Final = 10
"""Minimum number of shared texts of two exports."""

LEAST_SHARED_BY_NAME: Final = 3
"""Minimum number for a copy by its name, and for files of one subfolder; also of messages in an exact copy."""

Pair = tuple[str, str]
"""The sources of two exports, in the order of their names."""


def find_candidates(texts: pl.DataFrame, names: Mapping[str, tuple[bool, str]]) -> set[Pair]:
    """Return the pairs of exports that may belong to one conversation.

    Time and memory grow with the number of messages and of pairs found, not with the square of the number of exports:
    a text counts only if it is among the rarest of its export, as two exports with enough shared texts have such a
    text in common.

    ``texts``: ``source``, ``kind``, normalized text ``norm``, ``timestamp`` and ``author`` of all messages. It returns
    all pairs that share enough texts that occur once in each, and all exact copies.
    """
    once = find_unique_texts(texts)
    shared = once.filter(pl.len().over("norm") > 1)
    keys = pl.Series([" ".join(map(str, names[source])) for source in shared["source"]], dtype=pl.String)
    long = shared.with_columns(keys.alias("name")).filter(pl.col("norm").str.len_chars() >= LEAST_CHARACTERS)
    named_alike = _share(long, ["name", "norm"], LEAST_SHARED_BY_NAME)
    copies = _find_copies(texts)
    norms_of: dict[str, set[str]] = {
        source: set(norms) for source, norms in shared.group_by("source").agg("norm").iter_rows()
    }
    return (
        named_alike
        | _share(long, ["norm"], LEAST_SHARED)
        | {
            (first, second)
            for first, second in copies
            if not norms_of.get(first, set()).isdisjoint(norms_of.get(second, set()))
        }
    )


def find_unique_texts(texts: pl.DataFrame) -> pl.DataFrame:
    """Return ``source`` and ``norm`` of the texts that people wrote once in an export."""
    return (
        texts.filter(pl.col("kind") == "message", pl.col("norm") != "")
        .group_by("source", "norm")
        .len()
        .filter(pl.col("len") == 1)
        .select("source", "norm")
    )


def _share(texts: pl.DataFrame, on: list[str], least: int) -> set[Pair]:
    """Return the pairs with at least so many common texts, each of which occurs once per export.

    Sorted by rarity, two sets with ``least`` common elements share one of all but the last ``least - 1`` of each set.
    """
    counted = texts.with_columns(pl.len().over(on).alias("exports")).filter(pl.col("exports") > 1)
    rarest = (
        counted.sort("exports", "norm")
        .with_columns(
            pl.int_range(pl.len()).over("source").alias("place"),
            pl.len().over("source").cast(pl.Int64).alias("size"),
        )
        .filter(pl.col("place") <= pl.col("size") - least)
        .select("source", *on)
    )
    near = (
        rarest.join(rarest, on=on, suffix="_other")
        .filter(pl.col("source") < pl.col("source_other"))
        .select("source", "source_other")
        .unique()
    )
    norms_of = {source: set(norms) for source, norms in texts.group_by("source").agg("norm").iter_rows()}
    return {
        (first, second)
        for first, second in near.iter_rows()
        if len(norms_of[first] & norms_of[second]) >= least
    }


def _find_copies(texts: pl.DataFrame) -> set[Pair]:
    """Return the pairs of which one export may hold all messages of the other: they share its rarest message."""
    message = ["timestamp", "author", "kind", "norm"]
    messages = texts.select("source", *message).unique(maintain_order=True)
    counted = messages.with_columns(pl.len().over(message).alias("exports"))
    rarest = (
        counted.sort("exports", maintain_order=True)
        .unique("source", keep="first")
        .filter(pl.col("exports") > 1)
    )
    pairs = rarest.join(messages, on=message, suffix="_other", nulls_equal=True).filter(
        pl.col("source") != pl.col("source_other")
    )
    return {
        (min(first, second), max(first, second))
        for first, second in pairs.select("source", "source_other").iter_rows()
    }


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
