"""Messages -> windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.ids import digest
from backstory.partitions import Grain, previous_partition
from backstory.schemas import Windows, conform, empty
from backstory.settings import WindowSettings
from backstory.tokens import CountTokens

WINDOW_KINDS = ("message", "media")
"""Kinds of messages that windows hold; system lines are not part of the conversation."""

_MICROSECONDS = {"minutes": 60_000_000, "hours": 3_600_000_000}

Span = tuple[int, int]


def cut_windows(
    messages: pl.DataFrame,
    settings: WindowSettings,
    *,
    partitions: Sequence[str],
    grain: Grain,
    count_tokens: CountTokens,
) -> pl.DataFrame:
    """Cut the messages of partitions into windows.

    A window never crosses its partition, except that it may begin with overlap: messages that the window before
    holds too, in the partition before where it is the first. It takes messages up to the size, and at least one
    that no window before it holds, however large. Neither of two windows holds all messages of the other.

    Args:
        messages: Table ``messages`` with a column ``partition``: the rows of the wanted partitions, and of those
            right before them for the overlap.
        settings: Unit, size and overlap.
        partitions: The wanted partitions.
        grain: Grain of the partitions.
        count_tokens: Counts tokens of texts; called once.

    Returns:
        Table ``windows``, by partition, conversation and time.
    """
    rows = messages.filter(pl.col("kind").is_in(WINDOW_KINDS)).sort("timestamp", "source", "seq")
    if rows.is_empty():
        return empty(Windows)
    tokens = count_tokens(rows["text"].fill_null("").to_list())
    groups = rows.with_columns(tokens=pl.Series(tokens, dtype=pl.Int64)).partition_by(
        "conversation_id", "partition", as_dict=True, maintain_order=True
    )
    wanted = set(partitions)
    parts = []
    for (conversation, key), own in groups.items():
        if key in wanted:
            before = groups.get((conversation, previous_partition(key, grain)), own.clear())
            parts.append(_cut_partition(before, own, settings))
    if not parts:
        return empty(Windows)
    table = pl.concat(parts).sort("partition", "conversation_id", "started_at", "window_id")
    return conform(table, Windows)


@dataclass(frozen=True)
class _Measure:
    """How far a run of messages reaches, in the unit of the settings.

    Attributes:
        ends: Cumulative amounts before each message, shape ``(messages + 1,)``; for units of time the moments
            of the messages and a last one without limit, in microseconds.
        size: Most of the unit in one window.
        overlap: Most of the unit in an overlap.
        of_time: Whether the unit is one of time.
    """

    ends: NDArray[np.int64]
    size: int
    overlap: int
    of_time: bool

    def stop(self, start: int) -> int:
        """Give the end of the longest run that begins at a message and is within the size."""
        if self.of_time:
            return int(np.searchsorted(self.ends[:-1], self.ends[start] + self.size, side="left"))
        return int(np.searchsorted(self.ends, self.ends[start] + self.size, side="right")) - 1

    def overlap_start(self, stop: int) -> int:
        """Give the start of the longest overlap for a window whose first message of its own is ``stop``."""
        return int(np.searchsorted(self.ends[: stop + 1], self.ends[stop] - self.overlap, side="left"))

    def spans(self, first: int, begin: int, count: int) -> Iterator[Span]:
        """Cut messages into windows.

        Args:
            first: Where the first window may begin, overlap included.
            begin: The first message that has to be in a window.
            count: Number of messages.

        Yields:
            First message and message after the last of each window; both rise from window to window.
        """
        start, fresh = first, begin
        while fresh < count:
            # Overlap gives way to a message that would not fit beside it.
            while start < fresh and self.stop(start) <= fresh:
                start += 1
            stop = max(self.stop(start), fresh + 1)
            yield start, stop
            start, fresh = max(self.overlap_start(stop), start + 1) if stop < count else stop, stop


def _cut_partition(before: pl.DataFrame, own: pl.DataFrame, settings: WindowSettings) -> pl.DataFrame:
    count_before, count = len(before), len(before) + len(own)
    rows = pl.concat([before, own])
    if settings.unit == "day":
        spans = [(count_before, count)]
    else:
        measure = _measure(rows, settings)
        first = count_before
        if settings.overlap and count_before:
            *_, (last_start, _) = measure.spans(0, 0, count_before)
            first = max(measure.overlap_start(count_before), last_start + 1)
        spans = list(measure.spans(first, count_before, count))
    return _tabulate(rows, own, spans, settings)


def _measure(rows: pl.DataFrame, settings: WindowSettings) -> _Measure:
    if settings.unit in _MICROSECONDS:
        scale = _MICROSECONDS[settings.unit]
        moments = rows["timestamp"].dt.timestamp("us").to_numpy()
        ends = np.append(moments, np.iinfo(np.int64).max)
        return _Measure(ends, settings.size * scale, settings.overlap * scale, of_time=True)
    if settings.unit == "messages":
        weights = np.ones(len(rows), dtype=np.int64)
    elif settings.unit == "tokens":
        weights = rows["tokens"].to_numpy()
    else:
        weights = rows["text"].fill_null("").str.len_bytes().to_numpy().astype(np.int64)
    return _Measure(np.r_[0, np.cumsum(weights)], settings.size, settings.overlap, of_time=False)


def _tabulate(
    rows: pl.DataFrame, own: pl.DataFrame, spans: Sequence[Span], settings: WindowSettings
) -> pl.DataFrame:
    conversation, partition = own["conversation_id"][0], own["partition"][0]
    ids = rows["message_id"].to_list()
    totals = np.r_[0, np.cumsum(rows["tokens"].to_numpy())]
    starts, stops = np.array(spans, dtype=np.int64).T
    cut = [settings.unit, str(settings.size), str(settings.overlap)]
    return pl.DataFrame(
        {
            "window_id": [digest([conversation, partition, *cut, *ids[a:b]], length=16) for a, b in spans],
            "conversation_id": [conversation] * len(spans),
            "partition": [partition] * len(spans),
            "started_at": rows["timestamp"][starts],
            "ended_at": rows["timestamp"][stops - 1],
            "message_count": stops - starts,
            "token_count": totals[stops] - totals[starts],
            "message_ids": [ids[a:b] for a, b in spans],
        }
    )
