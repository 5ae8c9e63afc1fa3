"""The chat exports in the form in which the table ``messages`` holds them: without forgotten people and real names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import PSEUDONYM_PREFIX, digest
from backstory.base.local_times import read_clocks
from backstory.ingest.chats.export import ExportFile
from backstory.ingest.chats.export_files import conversation_of, find_exports
from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.chats.merging import NAMED_SCHEMA, assign_message_ids, hash_archive
from backstory.ingest.privacy.exclusions import (
    Forgotten,
    OptOuts,
    drop_members,
    hide_members,
    leave_out,
    leave_out_people,
    name_opted_out,
)
from backstory.ingest.privacy.names import NameFinder
from backstory.ingest.privacy.personal_data import scrub
from backstory.ingest.privacy.pseudonyms import (
    find_real_names,
    is_unmade,
    pseudonymize_messages,
    replace_in_identifiers,
)
from backstory.pipeline.incremental.inputs import hash_dependencies
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import Messages

EXPORT_SOURCES: Final = "conversations"
"""Partition of the table ``sources`` for the files in the folder of exports."""


@dataclass(frozen=True)
class Reading:
    """What was ``read`` of the exports, and the rows of ``messages``, ``sources`` and ``quarantine`` made of it.

    ``origins`` has ``file`` and ``conversation`` with real names, and ``source`` and ``conversation_id`` as the table
    names them; ``names`` are real ones, none if the tables hold them; ``opted_out`` is as
    :func:`~backstory.ingest.privacy.exclusions.name_opted_out` gives it. ``kept`` are all messages that the archive is
    to hold: those of the conversations of which none may be lost.
    """

    read: ExportRead
    messages: pl.DataFrame
    origins: pl.DataFrame
    sources: pl.DataFrame
    quarantine: pl.DataFrame
    names: Sequence[str]
    opted_out: pl.DataFrame
    kept: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=NAMED_SCHEMA))


def fingerprint_messages(workspace: Workspace, files: Sequence[ExportFile] | None = None) -> str:
    """Hash everything that the stage of the messages reads, with the exports as they are now unless they are given."""
    files = find_exports(workspace.chats_dir) if files is None else files
    return digest(
        [
            hash_dependencies(workspace, "messages"),
            hash_archive(workspace.archive),
            Forgotten.read(workspace.forgotten).fingerprint,
            OptOuts.read(workspace.opt_outs).fingerprint,
            *map(str, files),
        ],
        length=16,
    )


def read_chats(workspace: Workspace) -> ExportRead:
    """Read the exports without forgotten conversations and members, and without people who opted out.

    What was read has real names; its files are as they were when they were read.
    """
    folder, forgotten = workspace.settings.conversations.folder, Forgotten.read(workspace.forgotten)
    return leave_out_opted_out(workspace, leave_out(workspace.last_reading.read(), forgotten, folder))


def leave_out_opted_out(workspace: Workspace, read: ExportRead) -> ExportRead:
    """Drop the messages of people who opted out by the settings of a workspace or by a command in a chat."""
    privacy = workspace.settings.privacy
    has_secret = privacy.pseudonyms and not is_unmade(workspace.secret, workspace.tables)
    names_pseudonym = any(name.startswith(PSEUDONYM_PREFIX) for name in privacy.exclude)
    secret = workspace.load_secret() if has_secret and names_pseudonym else None
    folder = workspace.settings.conversations.folder
    return leave_out_people(read, privacy.exclude, OptOuts.read(workspace.opt_outs), secret, folder)


def scrub_messages(workspace: Workspace, messages: pl.DataFrame) -> pl.DataFrame:
    """Replace the contact and bank data in texts that ``privacy.scrub`` lists; ids stay."""
    privacy = workspace.settings.privacy
    return messages.with_columns(scrub(messages["text"], privacy.scrub, privacy.phone_region))


def put_as_stored(workspace: Workspace) -> Reading:
    """Read the exports, assign messages their ids, and replace real names; as long as nothing changes, only once.

    A message that still holds a real name is a ``ContractError``.
    """
    read, made = read_chats(workspace), workspace.last_reading.made
    fingerprint = fingerprint_messages(workspace, read.files)
    if fingerprint not in made:
        made.clear()
        made[fingerprint] = _put_as_stored(workspace, read)
    reading: Reading = made[fingerprint]
    return reading


def _put_as_stored(workspace: Workspace, read: ExportRead) -> Reading:
    messages, quarantine, sources = read.messages, read.quarantine, read.sources
    secret = None
    # A run without a file must not make a key.
    if workspace.settings.privacy.pseudonyms and not read.sources.is_empty():
        secret = workspace.load_secret()
        messages, quarantine, sources = _pseudonymize(read, secret)
    forgotten = Forgotten.read(workspace.forgotten)
    members = forgotten.list_held("member", read.names)

    def hide(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        return hide_members(frame, columns, members, secret, forgotten)

    messages = hide(messages, "conversation_id", "text", "source")
    origins = messages.select("source", "conversation_id").with_columns(
        read.messages["source"].alias("file"), read.messages["conversation_id"].alias("conversation")
    )
    numbered = assign_message_ids(drop_members(messages, forgotten))
    return Reading(
        read=read,
        messages=scrub_messages(workspace, numbered),  # ids come first, so that no setting of it changes them
        origins=origins.unique(maintain_order=True),
        sources=hide(sources, "source", "reason"),
        quarantine=hide(quarantine, "source"),
        names=read.names.to_list() if secret else (),
        opted_out=hide(name_opted_out(read, workspace.settings.privacy.exclude, secret), "conversation_id"),
    )


def _pseudonymize(read: ExportRead, secret: bytes) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    names = read.names
    pseudonymous = pseudonymize_messages(
        read.messages, secret, aliases=read.aliases, other_names=read.unread_authors
    )
    breaches = find_real_names(pseudonymous, names)
    if not breaches.is_empty():
        columns = ", ".join(sorted(breaches["column"].unique()))
        raise ContractError(
            f"{len(breaches)} cells still hold a real name (column {columns}); nothing was written. Set "
            "`privacy: {pseudonyms: false}` only if the chat is public",
            code="privacy",
        )
    finder = NameFinder(names)
    quarantine, sources = (
        replace_in_identifiers(one, finder, secret) for one in (read.quarantine, read.sources)
    )
    # Files get the same name that spell one person's name in two ways.
    number = pl.int_range(1, pl.len() + 1).over("source")
    numbered = pl.when(number == 1).then("source").otherwise(pl.format("{} ({})", "source", number))
    return pseudonymous, quarantine, sources.with_columns(numbered.alias("source"))


def put_local_times(messages: pl.DataFrame, zones: Mapping[str, str], zone: str) -> pl.DataFrame:
    """Return the table ``messages``, with times by the clock of each conversation."""
    of_chat = pl.col("conversation_id").replace_strict(zones, default=zone, return_dtype=pl.String)
    placed = messages.with_columns(timezone=of_chat if zones else pl.lit(zone))
    return conform(placed.with_columns(local_time=read_clocks(placed, "timestamp")), Messages)


def find_zones(workspace: Workspace, origins: pl.DataFrame) -> dict[str, str]:
    """Find the time zones that ``conversations.overrides`` gives to single conversations, by id.

    An entry has the id of the conversation, its name, or the name of its export or subfolder; one of a single file of a
    subfolder is only the zone of a phone. There is none if the exports of a conversation have several, or if posts are
    documents for later windows of all conversations, which a run makes day by day.
    """
    settings = workspace.settings.conversations
    named = {name: one.timezone for name, one in settings.overrides.items() if one.timezone is not None}
    if not named or workspace.shares_posts:
        return {}
    found: dict[str, set[str]] = defaultdict(set)
    for conversation, name, file in origins.select("conversation_id", "conversation", "file").iter_rows():
        keys = (conversation, name, conversation_of(file))
        found[conversation].add(next((named[key] for key in keys if key in named), settings.timezone))
    # An entry also counts for a conversation of which no export is left.
    return named | {name: one.pop() if len(one) == 1 else settings.timezone for name, one in found.items()}
