"""Messages of conversations with ``removals: keep``, which the archive holds after the exports have lost them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.ingest.chats.archive import ARCHIVE_SCHEMA, drop_archived, read_archive, write_archive
from backstory.ingest.chats.export_files import ExportFile
from backstory.ingest.chats.opened import conversation_of
from backstory.ingest.privacy.leaks import find_real_names
from backstory.ingest.privacy.pseudonyms import PSEUDONYM, pseudonymize_messages
from backstory.pipeline.chats.exports_reading import (
    Reading,
    are_stored_as_read_now,
    drop_opted_out,
    hash_exports,
    hash_reading,
    list_unchanged,
    scrub_messages,
)
from backstory.pipeline.chats.stored_messages import read_intact_messages
from backstory.pipeline.workspace import Workspace
from backstory.settings.inputs import ConversationSettings
from backstory.storage.tables.catalog import Entry

_ARCHIVED: Final = "archive"
_EXPORTS: Final = "exports"
_ORDER: Final = ("timestamp", "source", "seq")


def keep_archived(workspace: Workspace, reading: Reading, files: Sequence[ExportFile]) -> Reading:
    """Add the messages of kept conversations that only the archive holds, and set the archive's new content.

    Added messages have a negative ``seq``, because their position in an export is no longer known.
    """
    archived = _read_archive(workspace, reading.names)
    policies = find_policies(workspace.settings.conversations, reading)
    retained = {name for name in policies if policies[name] == "keep"}
    before = set(archived["conversation_id"])
    retained |= before - policies.keys()
    if not retained:
        return reading
    archived = _rename_conversations(archived, reading.messages, retained)
    how = hash_reading(workspace)
    unseen = retained - before - set(archived["conversation_id"])
    base = pl.concat([archived, _as_archived(_read_stored(workspace, unseen), how)])
    reread = (
        pl.col("held")
        & (pl.col("reading") != how)
        & pl.col("source").is_in(list_unchanged(workspace, reading, files))
    )
    base = base.filter(pl.col("conversation_id").is_in(list(retained)) & ~reread)
    base = scrub_messages(workspace, drop_opted_out(base, reading.opted_out))
    columns = reading.messages.columns
    only = base.filter(
        pl.col("message_id").is_in(
            find_missing(base.select(columns), reading.messages)["message_id"].implode()
        )
    )
    # Of the same time, archived messages come first, because an export loses its oldest messages.
    place = pl.int_range(pl.len()) - pl.len().cast(pl.Int64)
    only = only.with_columns(place.over("timestamp", "source").alias("seq"))
    messages = pl.concat([reading.messages, only.select(columns)]).sort(_ORDER, maintain_order=True)
    present = reading.messages.filter(pl.col("conversation_id").is_in(list(retained)))
    archive = pl.concat([_as_archived(present, how), only.with_columns(held=pl.lit(value=False))])
    return replace(
        reading,
        messages=messages,
        archive=archive.sort(_ORDER, maintain_order=True),
        emptied=tuple(sorted((before & retained) - set(archive["conversation_id"]))),
    )


def find_policies(settings: ConversationSettings, reading: Reading) -> dict[str, str]:
    """Return the removal policy of each conversation that was read or is in the settings, by its id in the tables."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, override in settings.overrides.items():
        found[name].add(override.removals or settings.removals)
    for name, file in reading.origins.select("conversation_id", "file").iter_rows():
        found[name].add(settings.override(file, conversation_of(file)).removals)
    order = ("keep", "ask", "mirror")
    return {name: min(policies, key=order.index) for name, policies in found.items()}


def store_archive(workspace: Workspace, reading: Reading, files: Sequence[ExportFile]) -> None:
    """Write the archive's new content, if there is any, and record the exports that it was made from."""
    if reading.archive is not None:
        write_archive(workspace.archive, reading.archive)
        drop_archived(workspace.archive, reading.emptied)
        archived = Entry(hash_exports(workspace, files), "", len(reading.archive))
        workspace.catalog.record(_ARCHIVED, {_EXPORTS: archived})


def is_archive_stale(workspace: Workspace, files: Sequence[ExportFile]) -> bool:
    """Check whether messages of these exports may be missing from the archive."""
    settings = workspace.settings.conversations
    policies = {settings.removals, *(override.removals for override in settings.overrides.values())}
    known = workspace.catalog.read(_ARCHIVED).get(_EXPORTS)
    return "keep" in policies and (known is None or known.inputs != hash_exports(workspace, files))


def _rename_conversations(archived: pl.DataFrame, read: pl.DataFrame, retained: set[str]) -> pl.DataFrame:
    """Rename archived conversations to the present name of their chat, which messages in both places show."""
    present = set(read["conversation_id"])
    shown = archived.select("message_id", "conversation_id").join(
        read.select("message_id", name="conversation_id"), on="message_id"
    )
    renamed = shown.filter(
        ~pl.col("conversation_id").is_in(list(present)),
        pl.col("conversation_id").is_in(list(retained)),
        pl.col("name").is_in(list(retained)),
    ).unique(["conversation_id", "name"])
    # A conversation whose messages are now in several has no one name.
    renamed = renamed.filter(pl.len().over("conversation_id") == 1)
    names = dict(renamed.select("conversation_id", "name").iter_rows())
    return archived.with_columns(pl.col("conversation_id").replace(names))


def _read_archive(workspace: Workspace, names: Sequence[str]) -> pl.DataFrame:
    """Read the archive, and replace real names, including those that became known after it was written."""
    archived = read_archive(workspace.archive)
    if not workspace.settings.privacy.pseudonyms or archived.is_empty():
        return archived
    if not archived["author"].drop_nulls().str.contains(f"^{PSEUDONYM}$").all():
        raise WorkspaceError(
            f"{workspace.archive} holds real names, since `privacy.pseudonyms` was off when a run wrote it. Switch "
            "pseudonyms off again, or delete the folder and lose the messages that only it holds",
            code="real_names",
        )
    named = find_real_names(archived, names)["message_id"].unique()
    if named.is_empty():
        return archived
    is_named = pl.col("message_id").is_in(named.implode())
    rows = archived.filter(is_named)
    secret = workspace.load_secret()
    hidden = pseudonymize_messages(
        rows.with_columns(author=pl.lit(None, pl.String)), secret, other_names=names
    )
    return pl.concat([archived.filter(~is_named), hidden.with_columns(rows["author"])])


def _read_stored(workspace: Workspace, conversations: set[str]) -> pl.DataFrame:
    """Read the stored messages of conversations not archived yet, if they were read as the exports are read now."""
    stored = read_intact_messages(workspace)
    if not are_stored_as_read_now(workspace):
        return stored.clear()
    return stored.filter(pl.col("conversation_id").is_in(list(conversations)))


def _as_archived(messages: pl.DataFrame, how: str) -> pl.DataFrame:
    columns = [pl.lit(how).alias("reading"), pl.lit(value=True).alias("held")]
    return messages.with_columns(columns).select(ARCHIVE_SCHEMA.names())


_ANOTHER_CLOCK: Final = timedelta(hours=26)
"""Largest difference between two time zones."""


def find_missing(before: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """Find messages that were removed: not present, moved, edited or read in another time zone."""
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
