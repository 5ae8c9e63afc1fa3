"""Messages -> windows: runs of consecutive messages of one conversation, each the subject of one text."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.base.telemetry import log_event
from backstory.settings.models import WindowSettings
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.partitions import Grain, partition_keys, previous_partition
from backstory.text.chunking.units import CountTokens

logger = logging.getLogger(__name__)

WINDOW_KINDS = ("message", "media")
"""Kinds of messages that windows hold. System lines are excluded, since nobody wrote them."""

Rows: TypeAlias = NDArray[np.int64]
Bounds: TypeAlias = list[tuple[int, int]]

_ORDER = ("conversation_id", "partition", "timestamp", "source", "seq", "message_id")
_MICROSECONDS = {"minutes": 60_000_000, "hours": 3_600_000_000}


def cut_windows(
    messages: pl.DataFrame,
    settings: WindowSettings,
    *,
    partitions: Sequence[str],
    grain: Grain,
    count_tokens: CountTokens,
) -> pl.DataFrame:
    """Cut the messages of partitions into windows.

    A window is a run of consecutive messages of one conversation, as long as ``size`` allows. The size limits the
    number of messages, the sum of the texts' tokens or bytes, or the time from the first message to the last, which
    stays below so many minutes or hours. A message that alone exceeds the size is a separate window. With the unit
    ``day``, a window is a calendar day of its conversation. System lines are in no window.

    A window begins with an overlap: the longest run of messages at the end of the previous window that is within
    ``overlap``. The overlap is shorter if the first further message would not fit otherwise. A window never
    crosses the end of its partition. The first window of a partition takes its overlap from the previous
    partition, but never all of that partition's messages. Every window begins and ends after the previous window,
    so none contains another. For this, a partition's last window begins earlier, if that fits, when all of it is
    within ``overlap``.

    The windows of a partition depend only on its own messages and those of the previous partition.

    Args:
        messages: Table ``messages`` with a further column ``partition``, in any order. It holds the wanted
            partitions and, for an overlap, the partitions before them.
        settings: Unit, size and overlap.
        partitions: Keys of the partitions to cut.
        grain: Calendar unit of the partitions.
        count_tokens: The embedder's counter; each message is counted once, all in one batch.

    Returns:
        Table ``windows``, by partition, conversation and time.

    Raises:
        InputError: A key names no partition of this grain, or a message's partition differs from its timestamp's.
    """
    started = time.perf_counter()
    before = {key: previous_partition(key, grain) for key in partitions}
    needed = {*before, *before.values()} if settings.overlap else set(before)
    is_needed = pl.col("partition").is_in(sorted(needed))
    rows = messages.filter(is_needed, pl.col("kind").is_in(WINDOW_KINDS)).sort(_ORDER)
    _check_partitions(rows, grain)
    tokens = _count_messages(rows["text"], count_tokens)
    if settings.unit == "day":
        bounds = _find_days(rows)
    else:
        bounds = _find_bounds(rows, _find_limits(rows, tokens, settings), before)
    windows = _describe_windows(rows, tokens, bounds, settings)
    log_event(
        logger,
        "cut windows",
        partitions=len(before),
        messages=len(rows),
        windows=len(windows),
        unit=settings.unit,
        size=settings.size,
        overlap=settings.overlap,
        seconds=time.perf_counter() - started,
    )
    return windows


@dataclass(frozen=True)
class _Limits:
    """The reach of size and overlap from every boundary between rows, across partitions and conversations.

    Attributes:
        ends: For each row, the end of the longest run within the size that begins with it; the row itself if
            it exceeds the size.
        starts: For each boundary, the start of the longest run within the size that ends there.
        overlap_starts: For each boundary, the start of the longest run within the overlap that ends there.
    """

    ends: list[int]
    starts: list[int]
    overlap_starts: list[int]

    @classmethod
    def of_sums(cls, weights: Rows, size: int, overlap: int) -> _Limits:
        """Limit the sum of the messages' weights."""
        sums = np.concatenate([[0], np.cumsum(weights)]).astype(np.int64)
        boundaries = np.arange(len(sums))
        return cls(
            ends=(sums.searchsorted(sums[:-1] + size, side="right") - 1).tolist(),
            starts=sums.searchsorted(sums - size).tolist(),
            # Without an overlap, no message is repeated, not even one of weight zero.
            overlap_starts=(sums.searchsorted(sums - overlap) if overlap else boundaries).tolist(),
        )

    @classmethod
    def of_spans(cls, gaps: Rows, size: int, overlap: int) -> _Limits:
        """Keep the time from the first message to the last below a limit; ``gaps`` holds the time before each row."""
        moments = np.cumsum(gaps)
        return cls(
            ends=moments.searchsorted(moments + size).tolist(),
            starts=_span_starts(moments, size).tolist(),
            overlap_starts=_span_starts(moments, overlap).tolist(),
        )

    def foreign_start(self, start: int, end: int) -> int:
        """Find the first row that the next partition's overlap may repeat of the rows ``start`` to ``end``.

        The last window of those rows begins before that row, whatever the overlap of that window.
        """
        return min(end, max(self.overlap_starts[end], self.starts[end] + 1, start + 1))

    def cut(self, foreign: int, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut a partition's rows.

        Args:
            foreign: First row that the overlap of the first window may repeat.
            first: First row of the partition.
            stop: Row after the last row of the partition.

        Yields:
            The first row of each window, and the row after its last row.
        """
        fresh, earliest = first, foreign
        while True:
            start = min(fresh, max(earliest, self.starts[fresh + 1]))
            end = min(max(self.ends[start], fresh + 1), stop)
            if end == stop:
                break
            yield start, end
            fresh, earliest = end, self.overlap_starts[end]
        if fresh > first:
            # The next partition may repeat every row within the overlap, so this window must hold more.
            start = min(start, max(self.overlap_starts[stop] - 1, self.starts[stop]))
        yield start, stop


def _span_starts(moments: Rows, limit: int) -> Rows:
    starts = np.zeros(len(moments) + 1, np.int64)
    starts[1:] = moments.searchsorted(moments - limit, side="right")
    return np.minimum(
        starts, np.arange(len(starts))
    )  # messages with equal timestamps may be on both sides of a boundary


def _check_partitions(messages: pl.DataFrame, grain: Grain) -> None:
    misplaced = messages.filter(messages["partition"] != partition_keys(messages, grain))
    if len(misplaced):
        message_id, moment, key = misplaced.select("message_id", "timestamp", "partition").row(0)
        raise InputError(
            f"messages: {message_id} of {moment.isoformat()} is not in partition {key!r} of one {grain} "
            f"({len(misplaced)} such messages); pass the grain of the partitions",
            code="other_partition",
        )


def _count_messages(texts: pl.Series, count_tokens: CountTokens) -> Rows:
    counts = np.zeros(len(texts), np.int64)
    counts[texts.is_not_null().to_numpy()] = count_tokens(texts.drop_nulls().to_list())
    return counts


def _find_limits(rows: pl.DataFrame, tokens: Rows, settings: WindowSettings) -> _Limits:
    size, overlap = settings.size, settings.overlap
    if settings.unit in _MICROSECONDS:
        unit = _MICROSECONDS[settings.unit]
        return _Limits.of_spans(_find_gaps(rows, size * unit), size * unit, overlap * unit)
    if settings.unit == "tokens":
        return _Limits.of_sums(tokens, size, overlap)
    if settings.unit == "bytes":
        lengths = rows["text"].str.len_bytes().fill_null(0)
        return _Limits.of_sums(lengths.cast(pl.Int64).to_numpy(), size, overlap)
    return _Limits.of_sums(np.ones(len(rows), np.int64), size, overlap)


def _find_gaps(rows: pl.DataFrame, longest: int) -> Rows:
    """Return the microseconds before each row, at most ``longest``, the value between two conversations.

    None is negative: a clock that is set back at midnight returns to a day after the first moments of the next one.
    """
    gaps = rows["timestamp"].diff().dt.total_microseconds().fill_null(0).to_numpy()
    other = (rows["conversation_id"] != rows["conversation_id"].shift()).fill_null(value=False)
    return np.where(other.to_numpy(), longest, np.clip(gaps, 0, longest)).astype(np.int64)


def _find_bounds(rows: pl.DataFrame, limits: _Limits, before: Mapping[str, str]) -> Bounds:
    bounds: Bounds = []
    first = 0
    neighbour, neighbour_first = ("", ""), 0
    groups = rows.group_by("conversation_id", "partition", maintain_order=True).len()
    for conversation, partition, count in groups.iter_rows():
        stop = first + count
        if partition in before:
            adjacent = neighbour == (conversation, before[partition])
            foreign = limits.foreign_start(neighbour_first, first) if adjacent else first
            bounds.extend(limits.cut(foreign, first, stop))
        neighbour, neighbour_first, first = (conversation, partition), first, stop
    return bounds


def _find_days(rows: pl.DataFrame) -> Bounds:
    day = pl.col("local_time").dt.date().alias("day")
    counts = rows.group_by("conversation_id", "partition", day, maintain_order=True).len()["len"]
    ends = counts.cum_sum().to_list()
    return list(pairwise([0, *ends]))


def _describe_windows(
    rows: pl.DataFrame, tokens: Rows, bounds: Bounds, settings: WindowSettings
) -> pl.DataFrame:
    starts, ends = np.asarray(bounds, np.int64).reshape(-1, 2).T
    counts = ends - starts
    sums = np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)
    windows = pl.DataFrame(
        {
            "conversation_id": rows["conversation_id"].gather(ends - 1),
            "partition": rows["partition"].gather(ends - 1),
            "started_at": rows["timestamp"].gather(starts),
            "ended_at": rows["timestamp"].gather(ends - 1),
            "timezone": rows["timezone"].gather(ends - 1),
            "message_count": counts,
            "token_count": sums[ends] - sums[starts],
            "message_ids": _list_messages(rows["message_id"], starts, counts),
        }
    ).sort("partition", maintain_order=True)
    cut = ["day"] if settings.unit == "day" else [settings.unit, str(settings.size), str(settings.overlap)]
    keys = windows.select("conversation_id", "partition", "message_ids").iter_rows()
    window_ids = [digest([conversation, key, *cut, *ids]) for conversation, key, ids in keys]
    return conform(windows.with_columns(window_id=pl.Series(window_ids, dtype=pl.String)), schemas.Windows)


def _list_messages(message_ids: pl.Series, starts: Rows, counts: Rows) -> pl.Series:
    window = np.repeat(np.arange(len(starts)), counts)
    places = np.arange(len(window)) - np.repeat(np.cumsum(counts) - counts, counts)
    listed = pl.DataFrame({"window": window, "message_id": message_ids.gather(starts[window] + places)})
    return listed.set_sorted("window").group_by("window", maintain_order=True).agg("message_id")["message_id"]
