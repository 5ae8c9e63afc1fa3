"""Messages and documents that the inputs no longer hold, although an earlier run read them.

A message was not removed if its export is byte-identical to the last complete run (something else reads it
differently), if it was moved to another conversation, edited, or read in another time zone. What was removed is refused
(``ask``), dropped (``mirror``), or restored from the archive (``keep``), as ``conversations.removals`` says.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from backstory.base.errors import RemovalError, WorkspaceError
from backstory.base.ids import digest
from backstory.base.wording import count, name_some
from backstory.ingest.chats.archive import read_archive
from backstory.ingest.chats.export_files import ExportFile
from backstory.ingest.chats.opened import conversation_of
from backstory.ingest.privacy.erasure_list import read_forgotten
from backstory.ingest.privacy.leaks import find_real_names
from backstory.ingest.privacy.opt_outs import drop_opted_out
from backstory.ingest.privacy.pseudonyms import PSEUDONYM, pseudonymize_messages
from backstory.pipeline.chats.exports_reading import Reading, scrub_messages
from backstory.pipeline.chats.stored_messages import read_intact_messages
from backstory.pipeline.workspace import Workspace
from backstory.settings.inputs import ConversationSettings
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.partitions import partition_keys

_FILES: Final = "exports_read"
_ORDER: Final = ("timestamp", "source", "seq")
_NAMED: Final = 5
_ANOTHER_CLOCK: Final = timedelta(hours=26)
"""Largest difference between two time zones."""


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
    archived = _rename_conversations(archived, reading.messages, kept)
    unseen = kept - before - set(archived["conversation_id"])
    is_kept = pl.col("conversation_id").is_in(list(kept))
    earlier = pl.concat([archived, stored.filter(pl.col("conversation_id").is_in(list(unseen)))])
    earlier = earlier.filter(is_kept & ~_is_held(workspace, reading))
    earlier = earlier.unique("message_id", keep="first", maintain_order=True).sort(
        _ORDER, maintain_order=True
    )
    earlier = drop_opted_out(_hide_names(workspace, earlier, reading.names), reading.opted_out)
    lost = find_missing(scrub_messages(workspace, earlier), reading.messages)
    # Of the same time, they come first, because an export loses its oldest messages.
    place = pl.int_range(pl.len()) - pl.len().cast(pl.Int64)
    lost = lost.with_columns(place.over("timestamp", "source").alias("seq"))
    messages = pl.concat([reading.messages, lost]).sort(_ORDER, maintain_order=True)
    rows = messages.filter(is_kept)
    emptied = sorted(before - set(rows["conversation_id"]))
    return replace(reading, messages=messages, kept=rows, emptied=tuple(emptied))


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
    forgotten = read_forgotten(workspace.forgotten)
    chats, people = (stored[column].drop_nulls().unique() for column in ("conversation_id", "author"))
    gone = [name for name in chats if forgotten.holds("conversation", name)]
    members = [name for name in people if forgotten.holds("member", name)]
    is_member = pl.col("author").is_in(members).fill_null(value=False)
    return stored.filter(~pl.col("conversation_id").is_in(gone), ~is_member)


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
            "run wrote them. Switch pseudonyms off again, or delete the folder and lose these messages",
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
    """Find messages that were removed: not present, moved, edited or read in another time zone."""
    missing = before.join(now, on="message_id", how="anti", maintain_order="left")
    added = now.join(before, on="message_id", how="anti", maintain_order="left")
    for place in (("timestamp", "author", "text", "kind"), ("conversation_id", "timestamp", "author")):
        numbered = [
            frame.with_columns(pl.int_range(pl.len()).over(place).alias("nth")) for frame in (missing, added)
        ]
        missing, added = (
            one.join(other, on=[*place, "nth"], how="anti", nulls_equal=True, maintain_order="left").drop(
                "nth"
            )
            for one, other in (numbered, reversed(numbered))
        )
    return missing.filter(~pl.col("message_id").is_in(_find_by_another_clock(missing, added)))


def _find_by_another_clock(missing: pl.DataFrame, added: pl.DataFrame) -> list[str]:
    """Return the ids of missing messages for each of which an added one has the same text at a near time."""
    times: dict[tuple[str, str | None], deque[datetime]] = defaultdict(deque)
    for kind, text, moment in added.sort("timestamp").select("kind", "text", "timestamp").iter_rows():
        times[kind, text].append(moment)
    found = []
    rows = (
        missing.filter(pl.col("text") != "")
        .sort("timestamp")
        .select("message_id", "kind", "text", "timestamp")
    )
    for message_id, kind, text, moment in rows.iter_rows():
        free = times[kind, text]
        while free and free[0] < moment - _ANOTHER_CLOCK:
            free.popleft()
        if free and free[0] <= moment + _ANOTHER_CLOCK:
            free.popleft()
            found.append(message_id)
    return found


def _is_held(workspace: Workspace, reading: Reading) -> pl.Expr:
    """Return whether an export holds stored messages that is byte-identical to the last complete run."""
    known = workspace.catalog.read(_FILES)
    unchanged = [
        file.source
        for file in reading.read.files
        if (entry := known.get(_key(file))) is not None and entry.inputs == file.sha256
    ]
    sources = reading.origins.filter(pl.col("file").is_in(unchanged))["source"].unique()
    return (pl.col("seq") >= 0) & pl.col("source").is_in(sources.implode())


def forget_changed(workspace: Workspace, files: Sequence[ExportFile]) -> None:
    """Record before the first write that the tables will no longer match files that have changed since."""
    hashes = {_key(file): file.sha256 for file in files}
    known = workspace.catalog.read(_FILES)
    workspace.catalog.forget(_FILES, [key for key, entry in known.items() if hashes.get(key) != entry.inputs])


def record_files(workspace: Workspace, files: Sequence[ExportFile]) -> None:
    """Record after the last write which files the tables match."""
    entries = {_key(file): Entry(file.sha256, "", 0) for file in files if file.sha256}
    workspace.catalog.record(_FILES, entries)


def _key(file: ExportFile) -> str:
    return digest([file.source], length=16)  # names of files can be names of people


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
    states = {row["source"].removesuffix("/"): row for row in reading.sources.iter_rows(named=True)}
    lines = []
    for (name,), rows in missing.sort("conversation_id").group_by("conversation_id", maintain_order=True):
        days = rows["local_time"].dt.date().unique().sort()
        span = f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"
        sources = rows["source"].value_counts().sort("source").iter_rows()
        reasons = [_describe_file(PurePosixPath(folder) / source, states, lost) for source, lost in sources]
        lines.append(
            f"- {name}: {count(len(rows), 'message')} of {count(len(days), 'day')} ({span}); "
            f"{name_some(reasons, _NAMED, separator='; ')}"
        )
    return (
        f"the run wrote nothing, since it would remove {count(len(missing), 'message')} that an earlier run read:\n"
        + "\n".join(lines)
        + "\nPut the files back, or run again with --accept-removals to remove these messages from all tables, or set "
        "`conversations: {removals: keep}` to keep them (`mirror` removes them without asking)"
    )


def _describe_file(path: PurePosixPath, states: Mapping[str, Mapping[str, object]], lost: int) -> str:
    state = next((states[str(place)] for place in (path, *path.parents) if str(place) in states), None)
    if state is None:
        return f"{path} is gone"
    if state["status"] == "read":
        return f"{path} no longer holds {lost:,} of them"
    return f"{path} cannot be used ({state['status']}): {state['reason']}"
