"""Exports of one conversation that overlap, from several phones or from one phone at several times."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from backstory.ingest.chats.formats.whatsapp_phrases import BIDI_MARKS

_MENTION: Final = "@\u2068[^\u2069\n]{1,100}\u2069|@\\+?[0-9]{7,15}"
_COPY: Final = re.compile(r"(?P<name>.+?) ?\((?P<number>\d{1,3})\)")
_LEAST_CHARACTERS: Final = 8
"""Shorter texts are no evidence that two exports belong together."""
_LEAST_SHARED: Final = 3
"""Minimum number of texts that both exports hold once, at one difference of their clocks."""
_LEAST_SHARES: Final = (0.5, 0.2)
"""Minimum shares of such texts in both exports, within the period that both cover: the higher and the lower."""
_LEAST_SHARE_AT_OFFSET: Final = 0.6
_LEAST_SHARE_OF_OFFSET: Final = 0.1
_SAME_PERSON: Final = 0.8
_MINUTE: Final = 60_000_000
_QUARTER_HOUR: Final = 15 * _MINUTE
_MOST_APART: Final = 3 * _MINUTE
"""Tolerance: exports of one message may differ in time by this much."""
_MOST_OFFSET: Final = 26 * 4 * _QUARTER_HOUR
"""Largest difference between two time zones."""
_TERMS: Final = ("time", "author", "text", "kind")
_MESSAGE: Final = ("time", "author", "kind", "norm")


@dataclass
class MergedExports:
    """Messages of all exports, with the names and clock of one leading export per conversation.

    Attributes:
        messages: The input rows in their order. A message in several exports has equal values in all of them.
        merges: Exports that were merged into a leading one, each with that one, and with what both share.
        renamed: Names that were replaced, each with its replacements.
    """

    messages: pl.DataFrame
    merges: dict[str, tuple[str, str]] = field(default_factory=dict)
    renamed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def merge_exports(messages: pl.DataFrame) -> MergedExports:
    """Unify names and clocks of the exports of a conversation: files of one subfolder, and copies by name.

    Two of them are merged if they share texts at a constant difference of time, a multiple of a quarter hour (another
    time zone), and most texts of the period that both cover. A file in a subfolder leads, else the first by name.
    A message in both gets the leading export's time, author and text, so that both get one id. What only the other
    holds keeps its text; its time and author are converted. Exports that identify their messages are left as they are.
    """
    result = MergedExports(messages)
    placed = messages.with_row_index("place")
    rows = placed.filter(pl.col("key").is_null().all().over("source"))
    if rows["source"].n_unique() < 2:
        return result
    parts = _normalize(rows).partition_by("source", as_dict=True)
    groups: dict[str, list[pl.DataFrame]] = defaultdict(list)
    for source, name in sorted(rows.select("source", "conversation_id").unique().iter_rows(), key=_rank):
        groups[_split_copy(name)[0]].append(parts[source,])
    changed = [placed.clear()]
    for waiting in groups.values():
        while waiting:
            leader, *waiting = waiting
            # Some exports belong to the leading one only by what another one adds to it.
            tried: list[pl.DataFrame] = []
            while len(waiting) != len(tried):
                tried, waiting = waiting, []
                for other in tried:
                    if (told := _merge(leader, other, result)) is None:
                        waiting.append(other)
                    else:
                        changed.append(told.select(placed.columns))
                        added = told.filter(pl.col("model").is_null())
                        leader = pl.concat([leader, added.select(leader.columns)])
    told = pl.concat(changed)
    result.messages = pl.concat([placed.join(told, on="place", how="anti"), told]).sort("place").drop("place")
    return result


def _merge(leader: pl.DataFrame, other: pl.DataFrame, result: MergedExports) -> pl.DataFrame | None:
    """Put an export into the terms of another one; return None if they do not belong together."""
    spans = [rows.select(pl.min("time"), pl.max("time").alias("last")).row(0) for rows in (leader, other)]
    gap = max(first for first, _ in spans) - min(last for _, last in spans)
    if gap > _MOST_OFFSET or (found := _compare(leader, other)) is None:
        return None
    there, names = found
    models = leader.select(pl.col("place").alias("model"), pl.col(_TERMS).name.suffix("_here"))
    pairs = _pair(leader, there, ["kind", "author", "norm"])
    told = there.join(pairs, on="place", how="left").join(models, on="model", how="left")
    is_shared = pl.col("model").is_not_null()
    told = told.with_columns(
        pl.lit(leader["conversation_id"][0]).alias("conversation_id"),
        *(pl.when(is_shared).then(f"{name}_here").otherwise(name).alias(name) for name in _TERMS),
    ).with_columns(timestamp=pl.col("time").cast(pl.Datetime("us", "UTC")))
    result.merges[other["source"][0]] = leader["source"][0], _describe(told, is_shared)
    for alias, now in names.items():
        result.renamed[alias].add(now)
    return told


def _compare(here: pl.DataFrame, there: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, str]] | None:
    """Put an export on the clock of another, with the names of people there; also return what each is called here.

    It returns None if too few of the texts that stand once in both agree on a difference of the clocks, unless one
    export holds all of the other as it is, or if too few texts of the period that both cover are in both.
    """
    once = _select_once(here.with_columns(source=pl.lit("")))
    pairs = once.join(_select_once(there), on="norm", suffix="_there")
    ahead = pl.col("time_there") - pl.col("time")
    # Differences of clocks are those of time zones.
    offset = (ahead + _QUARTER_HOUR // 2) // _QUARTER_HOUR * _QUARTER_HOUR
    near = pairs.with_columns(offset=offset).filter(
        (ahead - offset).abs() <= _MOST_APART, pl.col("offset").abs() <= _MOST_OFFSET
    )
    usual = near.filter(pl.len().over("offset") >= max(_LEAST_SHARED, _LEAST_SHARE_OF_OFFSET * len(near)))
    if len(usual) < max(_LEAST_SHARED, _LEAST_SHARE_AT_OFFSET * len(pairs)):
        sides = ((here, there), (there, here))
        only = [one.join(other, on=_MESSAGE, how="anti", nulls_equal=True) for one, other in sides]
        return (there.with_columns(offset=0), {}) if any(rows.is_empty() for rows in only) else None
    clocks = usual.select("offset", time="time_there").sort("time")
    there = there.sort("time").join_asof(clocks, on="time", strategy="nearest")
    there = there.with_columns(pl.col("time") - pl.col("offset"))
    said = [once, _select_once(there)]
    first = max(rows.select(pl.col("time").min()).item() for rows in said) - _MOST_APART
    last = min(rows.select(pl.col("time").max()).item() for rows in said) + _MOST_APART
    covered = sorted(rows.filter(pl.col("time").is_between(first, last)).height for rows in said)
    if any(len(usual) < share * texts for share, texts in zip(_LEAST_SHARES, covered, strict=True)):
        return None
    # Short texts tell names, too: some people write no others.
    texts = _pair(here.filter(kind="message"), there.filter(kind="message"), ["norm"])
    authors, others = here.select("author", model="place"), there.select("place", author_there="author")
    names = texts.join(authors, on="model").join(others, on="place").group_by("author_there", "author").len()
    names = names.filter(pl.col("len") >= _SAME_PERSON * pl.col("len").sum().over("author_there"))
    known = dict(names.filter(pl.col("author_there") != pl.col("author")).drop("len").iter_rows())
    return there.with_columns(pl.col("author").replace(known)), known


def _pair(here: pl.DataFrame, there: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    """Pair rows of two exports with equal values in order of time, each once, if they are at most three minutes apart.

    It returns their places: ``model`` of the one in the first export, and ``place`` of the one in the second.
    """
    listed = [rows.sort("time", "place").group_by(on).agg("time", "place") for rows in (here, there)]
    both = listed[0].join(listed[1], on=on, suffix="_there", nulls_equal=True)
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


def _describe(told: pl.DataFrame, is_shared: pl.Expr) -> str:
    """Say how many messages both exports hold, and how far the clock of the other one is ahead."""
    said = told.filter(pl.col("kind") != "system")
    facts = (
        f"{said.filter(is_shared).height:,} of its {said.height:,} messages are there, too, and are kept once"
    )
    offset = said.select(pl.col("offset").median().fill_null(0)).item() / _MINUTE / 60
    return f"{facts}; its clock differs by {offset:+g} h" if offset else facts


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


def _normalize(messages: pl.DataFrame) -> pl.DataFrame:
    """Add ``time``, in microseconds, and ``norm``, the text without what differs by phone.

    These are mentions and marks, and all words of the app, which speaks the language of the phone.
    """
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
    )
    norm = pl.when(pl.col("kind") == "message").then(text).fill_null("")
    return messages.with_columns(norm.alias("norm"), pl.col("timestamp").dt.timestamp("us").alias("time"))
