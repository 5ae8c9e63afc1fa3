"""Messages so far in time from all other messages that a clock was probably wrong; they stop the run."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import polars as pl

from backstory.base.errors import InputError

LONGEST_GAP: Final = timedelta(days=366)
"""Gap beyond which a few messages are assumed to come from a wrong clock."""

MOST_LONE: Final = 3
"""Maximum number of messages that are assumed to come from a wrong clock; also at most a tenth of all."""


def require_no_timestamp_outliers(messages: pl.DataFrame) -> None:
    """Raise if the first or last few messages are more than a year away from all other messages.

    Args:
        messages: ``timestamp`` and ``source`` of all messages, in any order.

    Raises:
        InputError: There are such messages. The error names the file and date of each, and what to do.
    """
    lone = find_lone_messages(messages)
    if lone.is_empty():
        return
    named = "; ".join(
        f"{source}, {moment:%Y-%m-%d %H:%M} UTC"
        for source, moment in lone.select("source", "timestamp").rows()
    )
    raise InputError(
        f"{len(lone)} of {len(messages)} messages are more than {LONGEST_GAP.days} days from all others, as if a "
        f"phone's clock had been wrong: {named}. Correct or remove them in the export, choose days with --from "
        "and --to, or set `partitions: {allow_timestamp_outliers: true}` if the dates are right",
        code="timestamp_outliers",
    )


def find_lone_messages(messages: pl.DataFrame) -> pl.DataFrame:
    """Find the first or last few messages that are more than :data:`LONGEST_GAP` from all others.

    Args:
        messages: ``timestamp`` and further columns of all messages.

    Returns:
        The rows of these messages in the order of time.
    """
    ordered = messages.sort("timestamp", maintain_order=True)
    most = min(MOST_LONE, len(ordered) // 10)
    after_silence = (ordered["timestamp"].diff() > LONGEST_GAP).arg_true().to_list()
    starts = [place for place in after_silence if place <= most]
    ends = [place for place in after_silence if len(ordered) - place <= most]
    head = max(starts, default=0)
    tail = min(ends, default=len(ordered))
    return pl.concat([ordered.head(head), ordered.slice(tail)])
