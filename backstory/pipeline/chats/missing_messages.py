"""Messages of an earlier reading that have no counterpart in the present one."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Final

import polars as pl

_ANOTHER_CLOCK: Final = timedelta(hours=26)
"""Largest difference between two time zones."""


def find_missing(before: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """Find messages that were removed: not present, moved, edited or read in another time zone.

    Args:
        before: Messages of an earlier reading, in the columns of the table.
        now: All messages of this reading.

    Returns:
        The rows of ``before`` without a counterpart in ``now``.
    """
    missing = before.join(now, on="message_id", how="anti", maintain_order="left")
    added = now.join(before, on="message_id", how="anti", maintain_order="left")
    for place in (("timestamp", "author", "text", "kind"), ("conversation_id", "timestamp", "author")):
        if missing.is_empty() or added.is_empty():
            return missing
        numbered = [
            frame.with_columns(pl.int_range(pl.len()).over(place).alias("nth")) for frame in (missing, added)
        ]
        on = [*place, "nth"]
        missing, added = (
            one.join(other, on=on, how="anti", nulls_equal=True, maintain_order="left").drop("nth")
            for one, other in (numbered, reversed(numbered))
        )
    return missing.filter(~_is_read_by_another_clock(missing, added))


def _is_read_by_another_clock(missing: pl.DataFrame, added: pl.DataFrame) -> pl.Series:
    """Check for each missing message whether an added one has the same text at a near time, one to one."""
    times: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    for kind, text, moment in added.sort("timestamp").select("kind", "text", "timestamp").iter_rows():
        if text:
            times[kind, text].append(moment)
    found = dict.fromkeys(missing["message_id"], False)
    rows = missing.sort("timestamp").select("message_id", "kind", "text", "timestamp").iter_rows()
    for message_id, kind, text, moment in rows:
        free = times.get((kind, text), [])
        place = bisect_left(free, moment - _ANOTHER_CLOCK)
        if place < len(free) and free[place] <= moment + _ANOTHER_CLOCK:
            found[message_id] = True
            del free[place]
    return pl.Series([found[message_id] for message_id in missing["message_id"]], dtype=pl.Boolean)
