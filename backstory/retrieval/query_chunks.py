"""Windows -> query chunks: runs of whole messages, at one or more granularities."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import ContractError
from backstory.base.ids import digest
from backstory.base.telemetry import log_event
from backstory.settings.models import QuerySettings
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import conform
from backstory.text.chunking.cut import cut_chunks
from backstory.text.chunking.units import TokenCounter
from backstory.text.layout import MESSAGE_SEPARATOR

logger = logging.getLogger(__name__)

PACKED = "packed"
SINGLE = "message"
"""Granularity of the windows of short messages, each of whose messages is a part."""

_SHORT_SHARE = 2 / 3
_MOST_RUNS, _FEW_RUNS = 40, 12
"""A window is cut by message if its median message is shorter than this share of a run, and its runs are fewer than the
first number; or if that message is shorter than a run, and the runs fewer than the second, so that each mixes topics.
In longer windows each topic has several runs, which say more than one message."""

_VISIBLE = r"[^\s\p{C}]"
# Token counts are nearly additive: a run whose messages sum to less than this share of the ceiling is below it.
_CERTAIN_SHARE = 0.5

Rows = NDArray[np.int64]


def cut_window_chunks(
    windows: pl.DataFrame,
    messages: pl.DataFrame,
    settings: QuerySettings,
    *,
    max_tokens: int,
    counter: TokenCounter,
    default_min_tokens: int = 0,
) -> pl.DataFrame:
    """Cut windows into query chunks.

    A chunk of granularity ``messages:g`` is a run of ``g`` consecutive messages with text, or of more messages
    until it has ``min_tokens``. A ``packed`` chunk takes as many messages as fit below the ceiling. In a window of
    short messages, which change topic one by one, a run would be about several topics: if the settings give no
    ``min_tokens``, each message of such a window is a chunk, of granularity ``message``. A window is one of short
    messages if its median message has less than two thirds of ``default_min_tokens`` and it has fewer than 40 runs, or
    if that message has fewer than ``default_min_tokens`` and the window fewer than 12 runs.

    Messages are kept whole: a run that would exceed the ceiling is closed early. Only a message that exceeds the
    ceiling by itself is cut, into separate chunks. System lines and messages without text are skipped. The text of a
    chunk is its messages' texts joined by blank lines, without authors or headings. A granularity that cuts a window
    at the same messages as an earlier granularity is skipped for that window.

    Args:
        windows: Table ``windows``; only ``window_id`` and ``message_ids`` are used.
        messages: Table ``messages`` with every message that the windows name; only ``message_id``, ``text``
            and ``kind`` are used.
        settings: The granularities.
        max_tokens: Most tokens of a chunk, as ``counter`` counts them.
        counter: The embedder. Each distinct text is counted once, all in one batch. The joined text
            of several messages is counted as well if it may come near the ceiling.
        default_min_tokens: Value of ``min_tokens`` if the settings give none, such as the embedder's
            ``default_query_tokens``.

    Returns:
        Table ``window_chunks``, in the order of the windows, granularities and messages. ``token_count`` is
        the count of the chunk's text, or the sum of its messages' counts if that is far below the ceiling.

    Raises:
        ContractError: A window names a message that is not among the messages.
    """
    pieces = _Pieces.read(_read_texts(windows, messages), max_tokens, counter)
    min_tokens = default_min_tokens if settings.min_tokens is None else settings.min_tokens
    cuts = []
    for order, granularity in enumerate(settings.granularities):
        cut = pieces.cut(granularity, min_tokens).with_columns(
            granularity=pl.lit(f"messages:{granularity}" if granularity else PACKED)
        )
        if granularity == 1 and settings.min_tokens is None:
            cut = _part_short_messages(cut, pieces, min_tokens)
        cuts.append(cut.with_columns(order=pl.lit(order)))
    chunks = _drop_repeated(pl.concat(cuts)).sort("window", "order", "chunk_index")
    log_event(logger, "cut window chunks", windows=len(windows), texts=len(pieces.frame), chunks=len(chunks))
    named = chunks.with_columns(window_id=windows["window_id"].gather(chunks["window"]))
    return conform(_identify(named), schemas.WindowChunks)


@dataclass(frozen=True)
class _Pieces:
    """The pieces that chunks are made of: whole messages, and parts of messages over the ceiling.

    Attributes:
        frame: ``window`` (its row) and ``position`` of the message, ``text``, ``tokens``, and ``whole``,
            false for a part.
        max_tokens: Ceiling of a chunk.
        special: Special tokens of each text.
        joint: Tokens that the blank line between two messages adds.
        counter: The embedder.
    """

    frame: pl.DataFrame
    max_tokens: int
    special: int
    joint: int
    counter: TokenCounter

    @classmethod
    def read(cls, texts: pl.DataFrame, max_tokens: int, counter: TokenCounter) -> _Pieces:
        distinct = texts["text"].unique(maintain_order=True)
        probes = ["", MESSAGE_SEPARATOR, "a", f"a{MESSAGE_SEPARATOR}a"]
        counts = counter.count_tokens([*probes, *distinct.to_list()])
        empty, blank, single, double = counts[: len(probes)].tolist()
        counted = pl.DataFrame({"text": distinct, "tokens": counts[len(probes) :]})
        over = counted.filter(pl.col("tokens") > max_tokens)["text"].to_list()
        whole = texts.join(counted, on="text", how="left", maintain_order="left")
        frame = whole.with_columns(part=pl.lit(0), whole=pl.lit(value=True))
        if over:
            parts = _cut_texts(over, max_tokens, counter)
            numbered = pl.DataFrame({"text": over}).with_row_index("number")
            cut = (
                texts.join(numbered, on="text")
                .drop("text")
                .join(parts, on="number")
                .with_columns(whole=pl.lit(value=False))
            )
            fitting = frame.filter(pl.col("tokens") <= max_tokens)
            frame = pl.concat([fitting, cut.select(fitting.columns)]).sort("window", "position", "part")
        joint = max(0, blank - empty, double + empty - 2 * single)
        return cls(frame, max_tokens, empty, joint, counter)

    def cut(self, granularity: int, min_tokens: int) -> pl.DataFrame:
        """Make the chunks of one granularity: all columns except the ids and the granularity."""
        bounds, tokens = self._fit(self._pack(granularity, min_tokens))
        starts, stops = bounds[:-1], bounds[1:]
        runs = pl.Series(np.repeat(np.arange(len(starts)), stops - starts))
        listed = self.frame.select("text", run=runs).set_sorted("run").group_by("run", maintain_order=True)
        return pl.DataFrame(
            {
                "window": self.frame["window"].gather(starts),
                "text": listed.agg("text")["text"].list.join(MESSAGE_SEPARATOR),
                "token_count": tokens,
                "first_message": self.frame["position"].gather(starts),
                "last_message": self.frame["position"].gather(stops - 1),
            }
        ).with_columns(chunk_index=pl.int_range(pl.len()).over("window"))

    def _pack(self, granularity: int, min_tokens: int) -> Rows:
        """Return the bounds of runs as long as granularity and ceiling allow, by sums of token counts.

        A run extends beyond its granularity until it has ``min_tokens``. The last run of a window is merged into
        the previous run if it has fewer, and if the ceiling allows.
        """
        sums: list[int] = self._token_sums().tolist()
        room = self.max_tokens + self.joint - self.special
        bounds = [0]
        for end in self._segment_ends():
            first, start = len(bounds) - 1, bounds[-1]
            while start < end:
                enough = bisect_left(sums, sums[start] + min_tokens, start + 1, end + 1)
                limit = min(max(start + granularity, enough), end) if granularity else end
                fitting = bisect_right(sums, sums[start] + room, start, limit + 1) - 1
                start = max(fitting, start + 1)
                bounds.append(start)
            is_short = first < len(bounds) - 2 and sums[end] - sums[bounds[-2]] < min_tokens
            if is_short and sums[end] - sums[bounds[-3]] <= room:
                del bounds[-2]
        return np.asarray(bounds, np.int64)

    def _token_sums(self) -> Rows:
        weights = self.frame["tokens"].to_numpy() - self.special + self.joint
        return np.concatenate([[0], np.cumsum(weights)]).astype(np.int64)

    def _segment_ends(self) -> list[int]:
        """Return the rows where a run must end: after each window, and before and after each part of a message."""
        window, whole = self.frame["window"].to_numpy(), self.frame["whole"].to_numpy()
        breaks = (window[1:] != window[:-1]) | ~whole[1:] | ~whole[:-1]
        ends: list[int] = (np.flatnonzero(breaks) + 1).tolist()
        return [*ends, len(window)]

    def _fit(self, bounds: Rows) -> tuple[Rows, Rows]:
        """Halve each run whose joined text exceeds the ceiling; give the final bounds and token counts."""
        sums = self._token_sums()
        counted: dict[tuple[int, int], int] = {}
        cuts: list[int] = []
        while True:
            starts, stops = bounds[:-1], bounds[1:]
            tokens = sums[stops] - sums[starts] - self.joint + self.special
            doubtful = (
                (tokens > _CERTAIN_SHARE * self.max_tokens) | np.isin(starts, cuts) | np.isin(stops, cuts)
            )
            near = np.flatnonzero((stops - starts > 1) & doubtful)
            runs = list(zip(starts[near].tolist(), stops[near].tolist(), strict=True))
            unknown = [run for run in runs if run not in counted]
            if not unknown:
                tokens[near] = [counted[run] for run in runs]
                return bounds, tokens
            texts = self.frame["text"].to_list()
            counts = self.counter.count_tokens(
                [MESSAGE_SEPARATOR.join(texts[start:stop]) for start, stop in unknown]
            )
            counted.update(zip(unknown, counts.tolist(), strict=True))
            cuts += [(start + stop) // 2 for start, stop in unknown if counted[start, stop] > self.max_tokens]
            bounds = np.union1d(bounds, np.asarray(cuts, np.int64))


def _part_short_messages(runs: pl.DataFrame, pieces: _Pieces, min_tokens: int) -> pl.DataFrame:
    """Make each message of the windows of short messages a chunk, in the place of their runs."""
    counted = runs.group_by("window").agg(runs=pl.len())
    messages = pieces.frame.group_by("window").agg(messages=pl.len(), median=pl.col("tokens").median())
    most_runs = (
        pl.when(pl.col("median") < _SHORT_SHARE * min_tokens)
        .then(_MOST_RUNS)
        .when(pl.col("median") < min_tokens)
        .then(_FEW_RUNS)
        .otherwise(0)
    )
    short = counted.join(messages, on="window").filter(
        pl.col("runs") < pl.min_horizontal("messages", most_runs)
    )
    if short.is_empty():
        return runs
    of_short = replace(pieces, frame=pieces.frame.join(short, on="window", how="semi", maintain_order="left"))
    single = of_short.cut(1, 0).with_columns(granularity=pl.lit(SINGLE))
    return pl.concat([runs.join(short, on="window", how="anti", maintain_order="left"), single])


def _read_texts(windows: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """Return window (its row), position (in the window) and text of every message that can be part of a query."""
    if messages["message_id"].n_unique() != len(messages):
        raise ContractError(
            "messages: message_id is not unique; materialize messages again", code="duplicate"
        )
    named = (
        windows.select(
            "window_id",
            pl.int_range(pl.len()).alias("window"),
            pl.int_ranges(pl.col("message_ids").list.len()).alias("position"),
            pl.col("message_ids").alias("message_id"),
        )
        .filter(pl.col("message_id").list.len() > 0)
        .explode("position", "message_id")
    )
    known = messages.select("message_id", "text", "kind")
    joined = named.join(known, on="message_id", how="left", maintain_order="left")
    unknown = joined.filter(pl.col("kind").is_null())
    if len(unknown):
        window_id, message_id = unknown.select("window_id", "message_id").row(0)
        raise ContractError(
            f"window {window_id} names message {message_id}, which is not among the messages "
            f"({len(unknown)} such messages); materialize windows again",
            code="unknown_message",
        )
    visible = (pl.col("kind") != "system") & pl.col("text").str.contains(_VISIBLE)
    return joined.filter(visible).select("window", "position", "text")


def _cut_texts(texts: list[str], max_tokens: int, counter: TokenCounter) -> pl.DataFrame:
    """Cut texts over the ceiling; give one row per part, with the number of its text and the text of the part."""
    spans = cut_chunks(texts, max_tokens=max_tokens, overlap_tokens=0, counter=counter)
    rows = [
        (number, part, text[span.start : span.end], span.token_count)
        for number, (text, cut) in enumerate(zip(texts, spans, strict=True))
        for part, span in enumerate(cut)
    ]
    schema = {"number": pl.UInt32, "part": pl.Int32, "text": pl.String, "tokens": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _drop_repeated(chunks: pl.DataFrame) -> pl.DataFrame:
    """Drop the chunks of a granularity if an earlier granularity cuts the same window at the same messages."""
    spans = chunks.group_by("window", "order", maintain_order=True).agg(
        pl.format("{}-{}", "first_message", "last_message").alias("spans")
    )
    joined = spans.with_columns(pl.col("spans").list.join(" "))
    distinct = joined.unique(["window", "spans"], keep="first", maintain_order=True)
    return chunks.join(distinct, on=["window", "order"], how="semi", maintain_order="left")


def _identify(chunks: pl.DataFrame) -> pl.DataFrame:
    cuts = chunks.select("window_id", "granularity").unique(maintain_order=True)
    named = cuts.with_columns(cut_id=pl.Series([digest(cut) for cut in cuts.iter_rows()], dtype=pl.String))
    return chunks.join(named, on=["window_id", "granularity"], maintain_order="left").with_columns(
        chunk_id=pl.format("{}-{}", "cut_id", "chunk_index")
    )
