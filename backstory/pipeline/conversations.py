"""The stage that reads the chat exports of a workspace into messages, quarantine and sources."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Final

import polars as pl

from backstory.errors import BackstoryError, WorkspaceError
from backstory.ids import digest
from backstory.messages import ExportFile, ExportRead, find_exports
from backstory.messages.archive import read_archive
from backstory.opt_out_record import read_opt_outs, write_opt_outs
from backstory.pipeline.copies import clear_copies_of_messages
from backstory.pipeline.export_records import forget_changed, record_files
from backstory.pipeline.former_names import remove_former_names
from backstory.pipeline.incremental import (
    find_pending,
    materialize_partitions,
    split_by_partition,
    write_beside,
)
from backstory.pipeline.kept_messages import is_archive_stale, keep_archived, store_archive
from backstory.pipeline.leaks import record_opted_out
from backstory.pipeline.lone_messages import require_no_lone_messages
from backstory.pipeline.readings import (
    EXPORT_SOURCES,
    Reading,
    fingerprint_messages,
    put_as_stored,
    read_chats,
)
from backstory.pipeline.removals import refuse_removals
from backstory.pipeline.stage_report import CLEARED, StageReport, log_unread
from backstory.pipeline.stored_messages import drop_outside
from backstory.privacy import load_secret
from backstory.tables import hash_partitions, list_partitions
from backstory.tables.ledger import Entry
from backstory.tables.partitions import partition_key, partition_keys, partition_range
from backstory.workspace import Workspace

_EXTENT: Final = "extent"
_EXPORTS: Final = "exports"

logger = logging.getLogger(__name__)


def find_partitions(workspace: Workspace) -> list[str]:
    """List the partitions that the chat exports span, without gaps.

    Args:
        workspace: An open workspace.

    Returns:
        Keys from the first message's partition to the last one's.

    Raises:
        WorkspaceError: There is no message to read. The error gives the reason for each file.
        InputError: A few messages are more than a year away from all other messages. The error names them.
    """
    workspace.ledger.set_aside_if_damaged()
    settings = workspace.settings.partitions
    fingerprint = _fingerprint_extent(workspace, find_exports(workspace.exports))
    known = workspace.ledger.read(_EXTENT).get(_EXPORTS)
    if known is None or known.inputs != fingerprint:
        read, files = read_chats(workspace)
        # An archived message stands for one of an export only by its id, which stored messages have.
        messages = (
            read.messages
            if read_archive(workspace.archive).is_empty()
            else _keep_archived(workspace, read, files).messages
        )
        if not settings.admit_lone_messages:
            require_no_lone_messages(messages)
        keys = partition_keys(messages["timestamp"], settings.grain)
        if keys.is_empty():
            # The tables still hold what earlier runs read. A run over those partitions reports what is missing.
            if stored := list_partitions(workspace.tables, "messages"):
                return stored
            raise WorkspaceError(_describe_nothing(workspace, read))
        extent = " ".join(map(str, (keys.min(), keys.max())))
        known = Entry(_fingerprint_extent(workspace, files), extent, len(messages))
        workspace.ledger.record(_EXTENT, {_EXPORTS: known})
    first, last = known.content.split(" ")
    return partition_range(first, last, settings.grain)


def known_first_partition(workspace: Workspace) -> str | None:
    """Return the partition of the first message in the last run, or None before the first run."""
    known = workspace.ledger.read(_EXTENT).get(_EXPORTS)
    if known is None:
        return None
    # The last run may have had another grain.
    moment = datetime.fromisoformat(known.content.split(" ")[0]).replace(tzinfo=UTC)
    return partition_key(moment, workspace.settings.partitions.grain)


def read_all_messages(workspace: Workspace) -> Reading:
    """Read the exports as a run does, with the messages that only the archive holds, and without writing a table.

    Raises:
        PrivacyError: A message still holds a real name.
        WorkspaceError: The archive or the key of the pseudonyms cannot be used.
    """
    return _keep_archived(workspace, *read_chats(workspace))


def _keep_archived(workspace: Workspace, read: ExportRead, files: Sequence[ExportFile]) -> Reading:
    return keep_archived(workspace, put_as_stored(workspace, read), files)


@dataclass
class _Messages:
    """All messages of a run, read once.

    Attributes:
        rows: The messages, with their ``partition``.
        fingerprint: Hash of everything that the stage has read.
        files: The exports with the hashes of what was read of them.
        counts: Figures of the stage.
    """

    rows: pl.DataFrame
    fingerprint: str
    files: Sequence[ExportFile]
    counts: dict[str, int | float | str] = field(default_factory=dict)


def materialize_messages(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Read the exports into ``messages``, unreadable lines into ``quarantine``, and every file into ``sources``.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions.

    Returns:
        What was done.

    Raises:
        WorkspaceError: There are files, but no message can be read. ``sources`` is written nevertheless.
        PrivacyError: A message still holds a real name, or the key of the pseudonyms differs from the one used
            before. Nothing is written.
        RemovalError: The run would lose messages that an earlier run read. Nothing is written.
    """
    if workspace.settings.privacy.pseudonyms:
        load_secret(workspace.secret, workspace.ledger, workspace.tables)
    files = find_exports(workspace.exports)
    counts: dict[str, int | float | str] = {}

    @cache
    def read_messages() -> _Messages:
        read = _read_and_write_beside(workspace, partitions)
        counts.update(read.counts)
        return read

    def weigh(_: list[str]) -> Mapping[str, int]:
        return dict(read_messages().rows["partition"].value_counts().iter_rows())

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        return split_by_partition(read_messages().rows.filter(pl.col("partition").is_in(pending)), pending)

    is_known = _are_files_accounted_for(workspace, fingerprint_messages(workspace, files))
    if not is_known or is_archive_stale(workspace, files):
        read_messages()  # writes `sources`, `quarantine`, and the archive, which is a part of the fingerprint
    report = materialize_partitions(
        workspace,
        "messages",
        dict.fromkeys(partitions, fingerprint_messages(workspace, files)),
        compute,
        weigh=weigh,
        read_inputs_again=lambda: dict.fromkeys(partitions, read_messages().fingerprint),
        counts=counts,
    )
    if read_messages.cache_info().currsize and read_messages().files == files:
        record_files(workspace, files, partitions)
    workspace.last_reading.release()
    return report


def _read_and_write_beside(workspace: Workspace, partitions: Sequence[str]) -> _Messages:
    """Read all messages, refuse to lose any, and write the archive, ``quarantine`` and ``sources``."""
    read, files = read_chats(workspace)
    reading = _keep_archived(workspace, read, files)
    refuse_removals(workspace, reading, files, partitions)
    messages, sources = reading.messages, reading.sources
    held_messages = bool(list_partitions(workspace.tables, "messages"))
    notice = remove_former_names(workspace, reading.names, partitions)
    cleared = clear_copies_of_messages(workspace, messages, partitions)
    store_archive(workspace, reading, files)
    _store_opt_outs(workspace, read)
    forget_changed(workspace, files)
    _write_quarantine(workspace, reading.quarantine)
    # Last, because its ledger entry also confirms the quarantine.
    fingerprint = fingerprint_messages(workspace, files)
    write_beside(workspace, "sources", {EXPORT_SOURCES: sources}, fingerprint)
    log_unread(sources)
    if messages.is_empty() and not held_messages and len(sources.filter(pl.col("status") != "ignored")):
        raise WorkspaceError(_describe_nothing(workspace, read))
    drop_outside(workspace, messages)
    _warn_of_unused_entries(workspace, read)
    record_opted_out(workspace, reading.opted_out)
    keys = partition_keys(messages["timestamp"], workspace.settings.partitions.grain).alias("partition")
    statuses = dict(sources["status"].value_counts().sort("status").iter_rows())
    return _Messages(
        messages.with_columns(keys),
        fingerprint,
        files,
        {
            "messages": len(messages),
            **({"opted_out": opted_out} if (opted_out := int(reading.opted_out["messages"].sum())) else {}),
            "quarantined": len(reading.quarantine),
            "sources": len(sources),
            **statuses,
            **({"notice": notice} if notice else {}),
            **({CLEARED: cleared} if cleared else {}),
        },
    )


def _store_opt_outs(workspace: Workspace, read: ExportRead) -> None:
    """Remember who opted out by a command, since later exports may have lost it."""
    known = read_opt_outs(workspace.opt_outs)
    now = known.update(read.commands)
    if now.moments != known.moments:
        write_opt_outs(workspace.opt_outs, now)


def _warn_of_unused_entries(workspace: Workspace, read: ExportRead) -> None:
    for entry in read.unused_overrides:
        logger.warning(
            "conversations.overrides: entry %d names no file and no subfolder of %s; compare its name with "
            "theirs (a file's without its suffix)",
            entry,
            workspace.settings.conversations.folder,
        )
    for entry in read.unknown_people:
        logger.warning(
            "privacy.exclude: under the name of entry %d nobody wrote in the exports, so that it leaves out only what "
            "earlier runs kept of a person of exactly this name; give a name as the exports write it, or a "
            "pseudonym as the tables do",
            entry,
        )


def find_pending_messages(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions that :func:`materialize_messages` would build: all of them if the key is unusable."""
    files = find_exports(workspace.exports)
    fingerprint = fingerprint_messages(workspace, files)
    is_known = _are_files_accounted_for(workspace, fingerprint) and _is_secret_known(workspace)
    if not is_known or is_archive_stale(workspace, files):
        return list(partitions)
    return find_pending(workspace, "messages", dict.fromkeys(partitions, fingerprint))


def _fingerprint_extent(workspace: Workspace, files: Sequence[ExportFile]) -> str:
    admitted = str(workspace.settings.partitions.admit_lone_messages)
    return digest([fingerprint_messages(workspace, files), admitted])


def _describe_nothing(workspace: Workspace, read: ExportRead) -> str:
    files = read.sources.filter(pl.col("status") != "ignored").select("source", "status", "reason")
    if files.is_empty():
        return (
            f"no message in {workspace.exports}; put a chat export there (WhatsApp .txt or .zip, "
            "Telegram .json, Slack .zip or folder, Parquet, CSV or JSONL), or read documents alone by `backstory add`"
        )
    told = "".join(f"\n- {source} ({status}): {reason}" for source, status, reason in files.iter_rows())
    return f"no message could be read from the files in {workspace.exports}:{told}"


def _write_quarantine(workspace: Workspace, quarantine: pl.DataFrame) -> None:
    groups = {digest([str(source)], length=16): rows for (source,), rows in quarantine.group_by("source")}
    for key in list_partitions(workspace.tables, "quarantine"):
        groups.setdefault(key, quarantine.clear())
    # Its file names are hashes of sources. Entries of deleted exports are removed together with their files.
    workspace.ledger.forget("quarantine", workspace.ledger.read("quarantine"))
    write_beside(workspace, "quarantine", {key: rows.sort("line") for key, rows in groups.items()}, "")


def _are_files_accounted_for(workspace: Workspace, fingerprint: str) -> bool:
    """Check whether ``sources`` and ``quarantine`` were written from these exports and are intact."""
    entry = workspace.ledger.read("sources").get(EXPORT_SOURCES)
    if entry is None or entry.inputs != fingerprint:
        return False
    if hash_partitions(workspace.tables, "sources").get(EXPORT_SOURCES, "") != entry.content:
        return False
    recorded = {key: one.content for key, one in workspace.ledger.read("quarantine").items() if one.rows}
    return recorded == hash_partitions(workspace.tables, "quarantine")


def _is_secret_known(workspace: Workspace) -> bool:
    try:
        if workspace.settings.privacy.pseudonyms:
            load_secret(workspace.secret, workspace.ledger, workspace.tables)
    except BackstoryError:
        return False  # the stage raises the error with its reason
    return True
