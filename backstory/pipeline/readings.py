"""The chat exports in the form in which the table ``messages`` holds them: without forgotten people and real names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from backstory.errors import PrivacyError
from backstory.forgotten import drop_members, hide_members, leave_out, list_forgotten_members, read_forgotten
from backstory.ids import digest
from backstory.messages import (
    ExportFile,
    ExportRead,
    assign_message_ids,
    find_exports,
    replace_sources,
)
from backstory.messages.archive import hash_archive
from backstory.pipeline.inputs import hash_dependencies
from backstory.privacy import find_real_names, load_secret, pseudonymize_messages, pseudonymize_sources
from backstory.workspace import Workspace


@dataclass(frozen=True)
class Reading:
    """The messages of the exports in the form of the tables.

    Attributes:
        messages: Rows as the table ``messages`` holds them.
        origins: ``file`` (path below the folder of exports) and ``conversation``, with real names, and the ``source``
            and ``conversation_id`` of its messages in the table; one row per pair.
        sources: Rows of ``sources``.
        quarantine: Rows of ``quarantine``.
        names: Real names of people; empty if the tables hold real names.
        archive: New content of the archive of kept conversations; None to leave the archive unchanged.
    """

    messages: pl.DataFrame
    origins: pl.DataFrame
    sources: pl.DataFrame
    quarantine: pl.DataFrame
    names: Sequence[str]
    archive: pl.DataFrame | None = None


def exports_fingerprint(workspace: Workspace) -> str:
    """Hash the chat exports as they are now, the settings that read them, and the archived and forgotten messages."""
    return fingerprint_messages(workspace, find_exports(workspace.exports))


def fingerprint_messages(workspace: Workspace, files: Sequence[ExportFile]) -> str:
    """Hash everything that the stage of the messages reads, for given files."""
    kept, left_out = hash_archive(workspace.archive), read_forgotten(workspace.forgotten).fingerprint
    hashes = [file.fingerprint for file in files]
    return digest([hash_dependencies(workspace, "messages"), kept, left_out, *hashes], length=16)


def read_chats(workspace: Workspace) -> tuple[ExportRead, tuple[ExportFile, ...]]:
    """Read the exports without forgotten conversations and members.

    Returns:
        What was read, with real names, and the files as they were after they were read.
    """
    settings = workspace.settings.conversations
    read, files = workspace.last_reading.read(workspace.exports, settings)
    return leave_out(read, read_forgotten(workspace.forgotten), settings.folder), files


def put_as_stored(workspace: Workspace, read: ExportRead) -> Reading:
    """Give messages their ids, and replace real names.

    Args:
        workspace: An open workspace.
        read: What :func:`read_chats` returned.

    Returns:
        The messages, sources and quarantine as tables hold them, without archived messages.

    Raises:
        PrivacyError: A message still holds a real name.
    """
    messages, quarantine, sources = read.messages, read.quarantine, read.sources
    secret = None
    if workspace.settings.privacy.pseudonyms:
        messages, quarantine, sources = _pseudonymize(workspace, read)
        secret = load_secret(workspace.secret, workspace.ledger, workspace.tables)
    forgotten = read_forgotten(workspace.forgotten)
    members = list_forgotten_members(read.names, forgotten)
    messages = hide_members(messages, ("conversation_id", "text", "source"), members, secret, forgotten)
    quarantine = hide_members(quarantine, ("source",), members, secret, forgotten)
    sources = hide_members(sources, ("source", "reason"), members, secret, forgotten)
    origins = messages.select("source", "conversation_id").with_columns(
        read.messages["source"].alias("file"), read.messages["conversation_id"].alias("conversation")
    )
    return Reading(
        messages=assign_message_ids(drop_members(messages, forgotten)),
        origins=origins.unique(maintain_order=True),
        sources=sources,
        quarantine=quarantine,
        names=read.names.to_list() if secret else (),
    )


def _pseudonymize(workspace: Workspace, read: ExportRead) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    secret = load_secret(workspace.secret, workspace.ledger, workspace.tables)
    names = read.names
    pseudonymous = pseudonymize_messages(
        read.messages, secret, aliases=read.aliases, other_names=read.unread_authors
    )
    breaches = find_real_names(pseudonymous, names)
    if not breaches.is_empty():
        columns = ", ".join(sorted(breaches["column"].unique()))
        raise PrivacyError(
            f"{len(breaches)} cells still hold a real name (column {columns}); nothing was written. Set "
            "`privacy: {pseudonyms: false}` only if the chat is public"
        )
    quarantine = pseudonymize_sources(read.quarantine, names, secret)
    sources = _number_equal_sources(pseudonymize_sources(read.sources, names, secret))
    reasons = replace_sources(sources["reason"], read.sources["source"], sources["source"])
    return pseudonymous, quarantine, sources.with_columns(reasons)


def _number_equal_sources(sources: pl.DataFrame) -> pl.DataFrame:
    """Number files that get the same name because they spell one person's name in two ways."""
    number = pl.int_range(1, pl.len() + 1).over("source")
    return sources.with_columns(
        pl.when(number == 1).then("source").otherwise(pl.format("{} ({})", "source", number)).alias("source")
    )
