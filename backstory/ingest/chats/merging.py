"""Exports of one conversation that overlap, from several phones or from one phone at several times."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from backstory.ingest.chats.formats.whatsapp_header import BIDI_MARKS

_MENTION: Final = "@\u2068[^\u2069\n]{1,100}\u2069|@\\+?[0-9]{7,15}"
_COPY: Final = re.compile(r"(?P<name>.+?) ?\((?P<number>\d{1,3})\)")
_LEAST_CHARACTERS: Final = 8
"""Shorter texts are no evidence that two exports belong together."""
_LEAST_SHARED: Final = 3
"""Minimum number of texts that both exports hold once, at one difference of their clocks."""
_LEAST_SHARES: Final = (0.2, 0.5)
"""Minimum shares of messages in both exports, within the period that both cover: the lower and the higher."""
_LEAST_SHARE_AT_OFFSET: Final = 0.6
_LEAST_SHARE_OF_OFFSET: Final = 0.1
_SAME_PERSON: Final = 0.8
_LEAST_ALIKE: Final = (10, 0.5)
"""Minimum number and share of texts of an export by which it may belong to the conversation of another."""
_MINUTE: Final = 60_000_000
_QUARTER_HOUR: Final = 15 * _MINUTE
_MOST_APART: Final = 3 * _MINUTE
"""Tolerance: exports of one message may differ in time by this much."""
_MOST_OFFSET: Final = 26 * 4 * _QUARTER_HOUR
"""Largest difference between two time zones."""
_TERMS: Final = ("time", "author", "text", "kind")
_MESSAGE: Final = ("time", "author", "kind", "norm")


@dataclass(frozen=True)
class MergedExports:
    """Messages of all exports, with the names and clock of one leading export per conversation.

    Attributes:
        messages: The input rows in their order. A message in several exports has equal values in all of them.
        merges: Exports that were merged into a leading one, each with that one, and with what both share.
        renamed: Names that were replaced, each with its replacements.
        alike: Exports that may belong to the conversation of another one, which is named: they share many texts.
    """

    messages: pl.DataFrame
    merges: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    renamed: Mapping[str, set[str]] = field(default_factory=dict)
    alike: Mapping[str, str] = field(default_factory=dict)


def merge_exports(messages: pl.DataFrame) -> MergedExports:
    """Unify names and clocks of the exports of a conversation: files of one subfolder, and copies by name.

    Two of them are merged if they share texts at a constant difference of time, a multiple of a quarter hour (another
    time zone), and most messages of the period that both cover. A file in a subfolder leads, else the first by name.
    A message in both gets the leading export's time, author and text, so that both get one id. What only the other
    holds keeps its text; its time and author are converted. Exports that identify their messages are left as they are.
    """
    is_identified = messages.select(pl.col("key").is_not_null().any().over("source")).to_series()
    placed = messages.with_row_index("place")
    rows = placed.filter(~is_identified)
    if rows["source"].n_unique() < 2:
        return MergedExports(messages)
    rows = _normalize(rows)
    groups: dict[str, list[str]] = defaultdict(list)
    for source, name in sorted(rows.select("source", "conversation_id").unique().iter_rows(), key=_rank):
        groups[_split_copy(name)[0]].append(source)
    several = [source for sources in groups.values() if len(sources) > 1 for source in sources]
    parts = rows.filter(pl.col("source").is_in(several)).partition_by("source", as_dict=True)
    leaders = []
    for sources in groups.values():
        waiting = [_Export(parts[source,]) for source in sources if (source,) in parts]
        while waiting:
            leader, *others = waiting
            waiting = leader.take_all(others)
            leaders.append(leader)
    merged = [frame.select(placed.columns) for leader in leaders for frame in leader.merged]
    changed = pl.concat([placed.clear(), *merged])
    whole = pl.concat([placed.join(changed, on="place", how="anti"), changed]).sort("place").drop("place")
    renamed: dict[str, set[str]] = defaultdict(set)
    for name, now in (pair for leader in leaders for pair in leader.renamed):
        renamed[name].add(now)
    merges = {source: merge for leader in leaders for source, merge in leader.merges.items()}
    return MergedExports(whole, merges, renamed, _find_alike(rows, whole))


class _Export:
    """An export that may lead: its rows and, in its terms, what others that were merged into it hold beside them."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.source, self.conversation = rows["source"][0], rows["conversation_id"][0]
        self.rows = rows
        self.first, self.last = _span(rows)
        self.merged: list[pl.DataFrame] = []
        self.merges: dict[str, tuple[str, str]] = {}
        self.renamed: list[tuple[str, str]] = []

    def take_all(self, others: list[_Export]) -> list[_Export]:
        """Merge the others that can be, some of them only after another, and return the rest."""
        while len(rest := [other for other in others if not self._take(other)]) < len(others):
            others = rest
        return rest

    def _take(self, other: _Export) -> bool:
        """Bring another export into the terms of this one, unless the evidence is too weak."""
        if max(self.first, other.first) - min(self.last, other.last) > _MOST_OFFSET:
            return False
        clocks = _compare_clocks(self.rows, other.rows)
        if clocks.is_empty():
            return False
        there = other.rows.sort("time").join_asof(clocks, on="time", strategy="nearest")
        there = there.with_columns(pl.col("time") - pl.col("offset"))
        names = _find_names(self.rows, there)
        there = there.with_columns(pl.col("author").replace(names))
        pairs = _pair([self.rows, there], ["kind", "author", "norm"])
        # Each phone writes media and lines of the app in its own language.
        free_here = self.rows.join(pairs, left_on="place", right_on="model", how="anti")
        free_there = there.join(pairs, on="place", how="anti")
        wordless = [rows.filter(pl.col("kind") != "message") for rows in (free_here, free_there)]
        pairs = pl.concat([pairs, _pair(wordless, ["kind", "author"])])
        if not _share_enough(self.rows, there, pairs):
            return False
        models = self.rows.select(pl.col("place").alias("model"), pl.col(_TERMS).name.suffix("_here"))
        told = there.join(pairs, on="place", how="left").join(models, on="model", how="left")
        is_shared = pl.col("model").is_not_null()
        told = told.with_columns(
            pl.lit(self.conversation).alias("conversation_id"),
            *(pl.when(is_shared).then(f"{name}_here").otherwise(name).alias(name) for name in _TERMS),
        ).with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")).alias("timestamp"))
        self.merged.append(told)
        self.renamed += ((name, now) for name, now in names.items() if name != now)
        self.merges[other.source] = self.source, _describe(told, is_shared)
        self.rows = pl.concat([self.rows, told.filter(~is_shared).select(self.rows.columns)])
        self.first, self.last = _span(self.rows)
        return True


def _span(rows: pl.DataFrame) -> tuple[int, int]:
    first, last = rows.select(pl.col("time").min().alias("first"), pl.col("time").max().alias("last")).row(0)
    return first, last


def _describe(told: pl.DataFrame, is_shared: pl.Expr) -> str:
    """Say how many messages both exports hold, and how far the clock of the other one is ahead."""
    said = told.filter(pl.col("kind") != "system")
    facts = (
        f"{said.filter(is_shared).height:,} of its {said.height:,} messages are there, too, and are kept once"
    )
    offset: int = said.select(pl.col("offset").median().fill_null(0).cast(pl.Int64)).item() // _MINUTE
    if not offset:
        return facts
    hours, minutes = divmod(abs(offset), 60)
    return f"{facts}; its clock is {hours}:{minutes:02} h {'ahead of' if offset > 0 else 'behind'} that one"


def _split_copy(conversation: str) -> tuple[str, int]:
    """Split the name of a copy, ``name (1)``, into that of its original and its number; 0 of an original."""
    copy = _COPY.fullmatch(conversation)
    return (copy["name"], int(copy["number"])) if copy else (conversation, 0)


def _rank(export: tuple[str, str]) -> tuple[bool, str, int, str]:
    """Return the sort key of leading exports: those in subfolders first, then by name, copies last."""
    source, conversation = export
    return "/" not in source, *_split_copy(conversation), source


def _select_once(rows: pl.DataFrame) -> pl.DataFrame:
    """Select the longer texts of people that stand once in an export."""
    long = rows.filter(pl.col("kind") == "message", pl.col("norm").str.len_chars() >= _LEAST_CHARACTERS)
    return long.filter(pl.len().over("source", "norm") == 1)


def _compare_clocks(here: pl.DataFrame, there: pl.DataFrame) -> pl.DataFrame:
    """Return by how much the clock of ``there`` is ahead at some of its times, by texts that stand once in both.

    There is no row if too few of the texts agree on a difference, and one if an export holds all of the other as it is.
    """
    once = _select_once(here.with_columns(source=pl.lit("")))
    pairs = once.join(_select_once(there), on="norm", suffix="_there")
    ahead = pl.col("time_there") - pl.col("time")
    # Differences of clocks are those of time zones.
    offset = (ahead + _QUARTER_HOUR // 2) // _QUARTER_HOUR * _QUARTER_HOUR
    pairs = pairs.select(time="time_there", ahead=ahead, offset=offset)
    near = pairs.filter(
        (pl.col("ahead") - pl.col("offset")).abs() <= _MOST_APART, pl.col("offset").abs() <= _MOST_OFFSET
    )
    usual = near.filter(pl.len().over("offset") >= max(_LEAST_SHARED, _LEAST_SHARE_OF_OFFSET * len(near)))
    if len(usual) >= max(_LEAST_SHARED, _LEAST_SHARE_AT_OFFSET * len(pairs)):
        return usual.select("time", "offset").sort("time")
    shared = {
        len(one.join(other, on=_MESSAGE, how="anti", nulls_equal=True))
        for one, other in ((here, there), (there, here))
    }
    return pl.DataFrame({"time": [0], "offset": [0]}).head(0 in shared)


def _find_names(here: pl.DataFrame, there: pl.DataFrame) -> dict[str, str]:
    """Find what people are called here, by their name there, by the authors of shared texts."""
    spoken = [rows.filter(pl.col("kind") == "message") for rows in (here, there)]
    authors = here.select(pl.col("place").alias("model"), pl.col("author").alias("now"))
    pairs = (
        _pair(spoken, ["norm"])
        .join(there.select("place", "author"), on="place")
        .join(authors, on="model")
        .drop_nulls()
    )
    counts = pairs.group_by("author", "now").len()
    found = counts.filter(pl.col("len") >= _SAME_PERSON * pl.col("len").sum().over("author"))
    return dict(found.select("author", "now").iter_rows())


def _pair(sides: Sequence[pl.DataFrame], on: list[str]) -> pl.DataFrame:
    """Pair rows of two exports with equal values in order of time, each once, if they are at most three minutes apart.

    It returns their places: ``model`` of the one in the first export, and ``place`` of the one in the second.
    """
    listed = (rows.sort("time", "place").group_by(on).agg("time", "place") for rows in sides)
    both = next(listed).join(next(listed), on=on, suffix="_there", nulls_equal=True)
    pairs = []
    for times, places, times_there, places_there in both.drop(on).iter_rows():
        first = 0
        for time, place in zip(times_there, places_there, strict=True):
            while first < len(times) and times[first] < time - _MOST_APART:
                first += 1
            if first < len(times) and times[first] <= time + _MOST_APART:
                pairs.append((place, places[first]))
                first += 1
    return pl.DataFrame(pairs, schema={"place": pl.UInt32, "model": pl.UInt32}, orient="row")


def _share_enough(here: pl.DataFrame, there: pl.DataFrame, pairs: pl.DataFrame) -> bool:
    """Return whether enough messages in the period that both exports cover are in both."""
    said = [rows.filter(pl.col("kind") == "message") for rows in (here, there)]
    if any(rows.is_empty() for rows in said):
        return False
    firsts, lasts = zip(*map(_span, said), strict=True)
    in_both_periods = pl.col("time").is_between(max(firsts) - _MOST_APART, min(lasts) + _MOST_APART)
    covered = sorted((rows.filter(in_both_periods).height for rows in said), reverse=True)
    shared = said[1].join(pairs, on="place", how="semi").height
    return all(shared >= share * count for share, count in zip(_LEAST_SHARES, covered, strict=True))


def _find_alike(rows: pl.DataFrame, whole: pl.DataFrame) -> dict[str, str]:
    """Find exports many texts of which are in one of another conversation, too, which is named."""
    conversations = dict(whole.select("source", "conversation_id").unique().iter_rows())
    once = _select_once(rows).with_columns(first=pl.col("source").first().over("norm"))
    share = pl.col("len") / pl.col("len").sum().over("source")
    counts = once.group_by("source", "first").len().with_columns(share.alias("share"))
    least, least_share = _LEAST_ALIKE
    found = counts.filter(
        pl.col("source") != pl.col("first"), pl.col("len") >= least, pl.col("share") >= least_share
    )
    return {
        source: first
        for source, first in found.select("source", "first").iter_rows()
        if conversations[source] != conversations[first]
    }


def _normalize(messages: pl.DataFrame) -> pl.DataFrame:
    """Add ``time``, in microseconds, and ``norm``, the text without what differs by phone: mentions and marks."""
    mentions = sorted(
        (f"@{name}" for name in messages["author"].drop_nulls().unique()), key=len, reverse=True
    )
    text = (
        pl.col("text")
        .str.replace_all(_MENTION, "@")
        .str.replace_many(mentions, ["@"] * len(mentions), leftmost=True)
        .str.replace_all(f"[{BIDI_MARKS}]", "")
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
        .fill_null("")
    )
    return messages.with_columns(text.alias("norm"), pl.col("timestamp").dt.timestamp("us").alias("time"))
