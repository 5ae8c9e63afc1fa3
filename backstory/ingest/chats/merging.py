"""Messages that several exports hold: each is kept once, under one id. An archive has those that exports have lost.

Each row of it is a row of the table ``messages`` without local times, so it contains no name that the table does not
contain; its ``seq`` is negative.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest
from backstory.ingest.chats.formats.whatsapp_phrases import BIDI_MARKS
from backstory.storage.tables.schemas import Messages
from backstory.storage.tables.tables import encode_rows

NAMED_SCHEMA: Final = pl.Schema(
    {name: dtype for name, dtype in Messages.schema.items() if name not in ("local_time", "timezone")}
)
"""Columns of ``messages`` that do not depend on the time zone of a conversation."""

_CONTENT = ("conversation_id", "timestamp", "author", "text", "kind")

_MENTION: Final = "@\u2068[^\u2069\n]{1,100}\u2069|@\\+?[0-9]{7,15}"
_COPY: Final = re.compile(r"(?<=.) ?\(\d{1,3}\)\Z")
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
        merges: Exports that were merged into a leading one, each with what both share.
        renamed: Names that were replaced, each with its replacements.
    """

    messages: pl.DataFrame
    merges: dict[str, str] = field(default_factory=dict)
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
    named = rows.select("source", "conversation_id").unique()
    parts = _normalize(rows).partition_by("source", as_dict=True)
    groups: dict[str, list[pl.DataFrame]] = defaultdict(list)
    # Those in subfolders lead, then those first by name; copies come last.
    names = [("/" not in one, _COPY.sub("", name), len(name), name, one) for one, name in named.iter_rows()]
    for _, name, *_, source in sorted(names):
        groups[name].append(parts[source,])
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
    said = told.filter(pl.col("kind") != "system")
    facts = f"merged: {said.filter(is_shared).height:,} of its {said.height:,} messages are in another export, too"
    ahead = said.select(pl.col("offset").median().fill_null(0)).item() / _MINUTE / 60
    result.merges[other["source"][0]] = f"{facts}; its clock differs by {ahead:+g} h" if ahead else facts
    for alias, now in names.items():
        result.renamed[alias].add(now)
    return told


def _compare(here: pl.DataFrame, there: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, str]] | None:
    """Put an export on the clock of another and return the names there, too; None if both share too little."""
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
    """Pair the places of rows, at most three minutes apart, with equal values in order of time, each row once."""
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


def _select_once(rows: pl.DataFrame) -> pl.DataFrame:
    """Select the longer texts of people that stand once in an export."""
    long = rows.filter(pl.col("kind") == "message", pl.col("norm").str.len_chars() >= _LEAST_CHARACTERS)
    return long.filter(pl.len().over("source", "norm") == 1)


def _normalize(messages: pl.DataFrame) -> pl.DataFrame:
    """Add ``time``, in microseconds, and ``norm``, the text without mentions, marks, and the words of the app."""
    text = (
        pl.col("text")
        .str.replace_all(_MENTION, "@")
        .str.replace_all(f"[{BIDI_MARKS}]", "")
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )
    norm = pl.when(pl.col("kind") == "message").then(text).fill_null("")
    return messages.with_columns(norm.alias("norm"), pl.col("timestamp").dt.timestamp("us").alias("time"))


def assign_message_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort messages, assign their ids, and drop duplicates across exports of a conversation.

    Where the platform gives ids to chats and messages, the id of a message is derived from these. Of several exports,
    the one with the latest message of the conversation gives the text: it knows edits. A message that any export shows
    as deleted is deleted, since no platform brings one back.

    Else the id is derived from conversation, time, author, text, kind, and the number of equal messages before it in
    its export. So a message that somebody sent twice is kept twice. A message in two exports is kept once.

    It returns the columns of ``NAMED_SCHEMA``, sorted by timestamp, source and position in the source; ``seq`` counts
    messages of one source with the same timestamp. An answer to a message that is not among them has no ``reply_to``.
    """
    is_known = pl.col("chat").is_not_null() & pl.col("key").is_not_null()
    latest = pl.when(is_known).then(pl.col("timestamp").max().over("chat", "source"))
    # Lines of the app have no author, except those that stand for what somebody wrote and deleted.
    is_deleted = is_known & (pl.col("kind") == "system") & pl.col("author").is_not_null()
    ordered = (
        frame.with_columns(latest.alias("latest"))
        .sort("timestamp", "source", "seq")
        .with_columns(pl.int_range(pl.len()).over(*_CONTENT, "source").alias("occurrence"))
    )
    contents = ordered.select(
        *("chat", "key", "conversation_id", pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")),
        *(pl.concat_str(pl.lit("="), name).fill_null("").alias(name) for name in ("author", "text")),
        *("kind", pl.col("occurrence").cast(pl.String)),
    )
    ids = [name_message(chat, key) or digest(content) for chat, key, *content in contents.iter_rows()]
    named = (
        ordered.with_columns(message_id=pl.Series(ids, dtype=pl.String))
        .sort(is_deleted, "latest", "edited_at", descending=True, nulls_last=True, maintain_order=True)
        .unique("message_id", keep="first", maintain_order=True)
        .sort("timestamp", "source", "seq", maintain_order=True)
        # Not the position in the whole source, so that one late message changes no row of another time.
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).over("timestamp", "source").alias("seq"))
    )
    answered = [name_message(chat, key) for chat, key in named.select("chat", "reply_key").iter_rows()]
    named = named.with_columns(pl.Series("reply_to", answered, dtype=pl.String))
    is_present = pl.col("reply_to").is_in(named["message_id"].implode())
    named = named.with_columns(reply_to=pl.when(is_present).then("reply_to"))
    return named.select(pl.col(name).cast(dtype) for name, dtype in NAMED_SCHEMA.items())


def name_message(chat: str | None, key: str | None) -> str | None:
    """Return the id of a message by the keys that its platform gives to its chat and to it; None if it gives none."""
    return None if chat is None or key is None else digest(["platform", chat, key])


def read_archive(path: Path) -> pl.DataFrame:
    """Read all kept messages, in the columns of ``NAMED_SCHEMA``; a damaged file is a ``WorkspaceError``."""
    if not path.exists():
        return pl.DataFrame(schema=NAMED_SCHEMA)
    try:
        return pl.read_parquet(path).select(NAMED_SCHEMA.names()).cast(NAMED_SCHEMA)
    except pl.exceptions.PolarsError as error:
        raise WorkspaceError(
            f"{path} is damaged; restore it from a backup, or delete it and lose the messages that only it holds",
            code="damaged_record",
        ) from error


def write_archive(path: Path, archived: pl.DataFrame) -> None:
    """Replace all kept messages, in the columns of ``NAMED_SCHEMA``."""
    if archived.is_empty():
        path.unlink(missing_ok=True)
    else:
        write_file(path, encode_rows(archived), mode=0o600)


def hash_archive(path: Path) -> str:
    """Hash the bytes of the file; empty if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
