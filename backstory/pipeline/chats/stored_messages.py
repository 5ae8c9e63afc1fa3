"""The stored messages, and those of them that the exports no longer hold, although an earlier run read them.

A message was not removed if its export is byte-identical to the last complete run (something else reads it
differently), if it was moved to another conversation, edited, or read in another time zone. What was removed is refused
(``ask``), dropped (``mirror``), or restored from the archive (``keep``), as ``conversations.removals`` says.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from backstory.base.errors import ContractError, RemovalError, WorkspaceError
from backstory.base.ids import digest
from backstory.base.wording import count, name_some
from backstory.ingest.chats.export import ExportFile
from backstory.ingest.chats.export_files import conversation_of
from backstory.ingest.chats.merging import read_archive
from backstory.ingest.privacy.exclusions import Forgotten, drop_opted_out
from backstory.ingest.privacy.pseudonyms import PSEUDONYM, find_real_names, pseudonymize_messages
from backstory.pipeline.chats.exports_reading import Reading, scrub_messages
from backstory.pipeline.incremental.inputs import content_of, read_table_rows
from backstory.pipeline.workspace import Workspace
from backstory.settings.inputs import ConversationSettings
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.partitions import partition_keys, previous_partition
from backstory.storage.tables.schemas import Messages

_FILES: Final = "exports_read"
_ORDER: Final = ("timestamp", "source", "seq")
_NAMED: Final = 5
_ANOTHER_CLOCK: Final = timedelta(hours=26)
"""Largest difference between two time zones."""

logger = logging.getLogger(__name__)

PARTITIONED: Final = (
    *("messages", "windows", "window_chunks", "hits", "decisions", "contexts", "window_contexts", "posts"),
)
"""Tables with calendar partitions, in the order in which data flows."""


def read_intact_messages(workspace: Workspace) -> pl.DataFrame:
    """Read the stored messages, without partitions whose files differ from those written or have other columns.

    The run rebuilds these partitions from the exports. Their old content cannot be compared with the exports.
    """
    try:
        return workspace.tables.read("messages")
    except ContractError:
        intact, damaged = [empty(Messages)], []
    for key in workspace.tables.keys("messages"):
        try:
            intact.append(workspace.tables.read("messages", [key]))
        except ContractError:
            damaged.append(key)
    if damaged:
        logger.warning(
            "whether the exports have lost messages of %s cannot be told, since the files of the table are damaged or "
            "of another version of Backstory",
            name_some(damaged, _NAMED),
        )
    return pl.concat(intact)


def keep_lost(workspace: Workspace, reading: Reading) -> Reading:
    """Add the messages of kept conversations that the exports have lost.

    They come from the archive, and from the tables if it does not know their conversation yet. They have a negative
    ``seq``, because their position in an export is no longer known.
    """
    settings = workspace.settings.conversations
    archived = read_archive(workspace.archive)
    given = {settings.removals, *(override.removals for override in settings.overrides.values())}
    if "keep" not in given and archived.is_empty():
        return reading
    stored = _drop_forgotten(workspace, read_intact_messages(workspace).select(archived.columns))
    if workspace.settings.privacy.pseudonyms and not _is_pseudonymous(stored):
        stored = stored.clear()  # the tables are of a run without pseudonyms
    policies = _find_policies(settings, reading)
    before, names = set(archived["conversation_id"]), {*policies, *stored["conversation_id"]}
    kept = {name for name in names if policies.get(name, settings.removals) == "keep"}
    kept |= before - policies.keys()
    is_kept = pl.col("conversation_id").is_in(list(kept))
    archived = _rename_conversations(archived, reading.messages, kept)
    known = [*before, *archived["conversation_id"].unique()]
    earlier = pl.concat([archived, stored.filter(~pl.col("conversation_id").is_in(known))])
    is_deleted = pl.col("message_id").is_in(
        list(reading.read.deleted)
    )  # on the platform, by whoever wrote it
    earlier = earlier.filter(is_kept & ~is_deleted & ~_is_held(workspace, reading))
    earlier = earlier.unique("message_id", maintain_order=True).sort(_ORDER, maintain_order=True)
    earlier = drop_opted_out(_hide_names(workspace, earlier, reading.names), reading.opted_out)
    lost = find_missing(scrub_messages(workspace, earlier), reading.messages)
    # Of the same time, they come first, because an export loses its oldest messages.
    place = pl.int_range(pl.len()) - pl.len().cast(pl.Int64)
    lost = lost.with_columns(place.over("timestamp", "source").alias("seq"))
    messages = pl.concat([reading.messages, lost]).sort(_ORDER, maintain_order=True)
    return replace(reading, messages=messages, kept=messages.filter(is_kept))


def _find_policies(settings: ConversationSettings, reading: Reading) -> dict[str, str]:
    """Return the removal policy of each conversation that was read or is in the settings, by its id in the tables."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, override in settings.overrides.items():
        found[name].add(override.removals or settings.removals)
    for name, file in reading.origins.select("conversation_id", "file").iter_rows():
        found[name].add(settings.override(file, conversation_of(file)).removals)
    order = ("keep", "ask", "mirror")
    return {name: min(policies, key=order.index) for name, policies in found.items()}


def _drop_forgotten(workspace: Workspace, stored: pl.DataFrame) -> pl.DataFrame:
    """Drop what a forgetting that was killed has left in the tables."""
    forgotten = Forgotten.read(workspace.forgotten)
    members = forgotten.list_held("member", stored["author"].drop_nulls().unique())
    gone = forgotten.list_held("conversation", stored["conversation_id"].unique())
    is_gone = pl.col("author").is_in(members).fill_null(value=False) | pl.col("conversation_id").is_in(gone)
    return stored.filter(~is_gone)


def _rename_conversations(archived: pl.DataFrame, read: pl.DataFrame, kept: set[str]) -> pl.DataFrame:
    """Rename archived conversations to the present name of their chat, which messages in both places show."""
    shown = archived.join(read.select("message_id", name="conversation_id"), on="message_id")
    renamed = shown.select("conversation_id", "name").unique()
    renamed = renamed.filter(
        ~pl.col("conversation_id").is_in(read["conversation_id"].unique().implode()),
        pl.col("conversation_id").is_in(list(kept)) & pl.col("name").is_in(list(kept)),
    )
    # A conversation whose messages are now in several has no one name.
    names = dict(renamed.filter(pl.len().over("conversation_id") == 1).iter_rows())
    return archived.with_columns(pl.col("conversation_id").replace(names))


def _hide_names(workspace: Workspace, earlier: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Replace real names that became known after messages were archived."""
    if not workspace.settings.privacy.pseudonyms:
        return earlier
    if not _is_pseudonymous(earlier):
        raise WorkspaceError(
            f"messages that only {workspace.archive} holds have real names, since `privacy.pseudonyms` was off when a "
            "run wrote them. Switch pseudonyms off again, or delete the file and lose these messages",
            code="real_names",
        )
    is_named = pl.col("message_id").is_in(find_real_names(earlier, names)["message_id"].unique().implode())
    named = earlier.filter(is_named)
    if named.is_empty():
        return earlier
    unsigned = named.with_columns(author=pl.lit(None, pl.String))
    hidden = pseudonymize_messages(unsigned, workspace.load_secret(), other_names=names)
    return pl.concat([earlier.filter(~is_named), hidden.with_columns(named["author"])])


def _is_pseudonymous(messages: pl.DataFrame) -> bool:
    return messages["author"].drop_nulls().str.contains(f"^{PSEUDONYM}$").all()


def find_missing(before: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """Find messages that were removed: no other one stands for them, moved, edited or read by another clock."""
    missing = before.join(now, on="message_id", how="anti", maintain_order="left")
    added = now.join(before, on="message_id", how="anti", maintain_order="left")
    same_time = pl.col("timestamp") == pl.col("moment")
    near = (pl.col("text") != "") & ((pl.col("timestamp") - pl.col("moment")).abs() <= _ANOTHER_CLOCK)
    for alike in (
        ["timestamp", "author", "text", "kind"],
        ["conversation_id", "timestamp", "author"],
        ["kind", "text"],
    ):
        nth = pl.int_range(pl.len()).over(alike)
        others = added.select(*alike, nth=nth, moment="timestamp", other="message_id")
        pairs = missing.with_columns(nth=nth).join(others, on=[*alike, "nth"], nulls_equal=True)
        pairs = pairs.filter(same_time | near)
        missing = missing.join(pairs, on="message_id", how="anti", maintain_order="left")
        added = added.join(pairs, left_on="message_id", right_on="other", how="anti", maintain_order="left")
    return missing


def _is_held(workspace: Workspace, reading: Reading) -> pl.Expr:
    """Return whether an export holds stored messages that is byte-identical to the last complete run."""
    known = workspace.catalog.read(_FILES).items()
    unchanged = [
        file.source for file in reading.read.files if file.sha256 and known >= _enter([file]).items()
    ]
    sources = reading.origins.filter(pl.col("file").is_in(unchanged))["source"].unique()
    return (pl.col("seq") >= 0) & pl.col("source").is_in(sources.implode())


def forget_changed(workspace: Workspace, files: Sequence[ExportFile]) -> None:
    """Record before the first write that the tables will no longer match files that have changed since."""
    known = workspace.catalog.read(_FILES)
    workspace.catalog.forget(_FILES, dict(known.items() - _enter(files).items()))


def record_files(workspace: Workspace, files: Sequence[ExportFile]) -> None:
    """Record after the last write which files the tables match."""
    workspace.catalog.record(_FILES, _enter(files))


def _enter(files: Sequence[ExportFile]) -> dict[str, Entry]:
    """Return what is recorded of files, by hashes of their names, which can be names of people."""
    return {digest([file.source], length=16): Entry(file.sha256, "", 0) for file in files if file.sha256}


def refuse_removals(workspace: Workspace, reading: Reading, partitions: Sequence[str]) -> None:
    """Stop a run that would remove messages, unless the caller or the settings allow it."""
    if workspace.accept_removals:
        return
    settings = workspace.settings.conversations
    stored = drop_opted_out(read_intact_messages(workspace), reading.opted_out)
    policies = _find_policies(settings, reading)
    names = stored["conversation_id"].unique()
    asking = [name for name in names if policies.get(name, settings.removals) == "ask"]
    missing = find_missing(stored, reading.messages)
    is_wanted = partition_keys(missing, workspace.settings.partitions.grain).is_in(partitions)
    missing = missing.filter(
        is_wanted, pl.col("conversation_id").is_in(asking) & ~_is_held(workspace, reading)
    )
    if len(missing):
        raise RemovalError(_describe(missing, reading, settings.folder), code="removed_messages")


def _describe(missing: pl.DataFrame, reading: Reading, folder: str) -> str:
    states = {
        source.removesuffix("/"): "" if status == "read" else f"cannot be used ({status}): {reason}"
        for source, status, reason in reading.sources.select("source", "status", "reason").iter_rows()
    }
    lines = []
    for (name,), rows in missing.sort("conversation_id").group_by("conversation_id", maintain_order=True):
        reasons = []
        for source, lost in rows["source"].value_counts().sort("source").iter_rows():
            path = PurePosixPath(folder) / source
            places = map(str, (path, *path.parents))
            told = next((states[place] for place in places if place in states), "is gone")
            reasons.append(f"{path} {told or f'no longer holds {lost:,} of them'}")
        days = rows["local_time"].dt.date().unique().sort().cast(pl.String)
        lines.append(
            f"- {name}: {count(len(rows), 'message')} of {count(len(days), 'day')} "
            f"({' to '.join(sorted({days[0], days[-1]}))}); {name_some(reasons, _NAMED, separator='; ')}"
        )
    return (
        f"the run wrote nothing, since it would remove {count(len(missing), 'message')} that an earlier run read:\n"
        + "\n".join(lines)
        + "\nPut the files back, or run again with --accept-removals to remove these messages from all tables, or set "
        "`conversations: {removals: keep}` to keep them (`mirror` removes them without asking)"
    )


def read_with_previous(workspace: Workspace, partitions: Sequence[str]) -> pl.DataFrame:
    """Read the messages of partitions that were built, and of the partition before each."""
    grain = workspace.settings.partitions.grain
    wanted = sorted({*partitions, *(previous_partition(key, grain) for key in partitions)})
    # The partition before the first one may not exist. The wanted partitions must exist.
    made = workspace.catalog.read("messages")
    messages = read_table_rows(
        workspace, "messages", [key for key in wanted if key in made or key in partitions]
    )
    return messages.with_columns(partition_keys(messages, grain))


def hash_read_messages(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    """Hash for each partition the messages that its windows hold: where windows overlap, also those before it.

    The windows name messages by their ids, which an edited message keeps, so that a stage that reads the messages of
    windows must not rest on the table of windows alone.
    """
    settings = workspace.settings
    read = {key: [key] for key in partitions}
    if settings.windows.overlap:
        read = {key: [key, previous_partition(key, settings.partitions.grain)] for key in partitions}
    contents = content_of(workspace, "messages", [*chain(*read.values())])
    return {key: digest(contents[one] for one in keys) for key, keys in read.items()}
