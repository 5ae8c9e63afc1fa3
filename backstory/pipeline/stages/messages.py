"""The stage that reads the chat exports of a workspace into messages, quarantine and sources."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import polars as pl

from backstory.base.errors import BackstoryError, WorkspaceError
from backstory.base.ids import digest
from backstory.ingest.chats.archive import read_archive
from backstory.ingest.chats.export_files import ExportFile, find_exports
from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.privacy.opt_outs import read_opt_outs, write_opt_outs
from backstory.pipeline.chats.copies import clear_copies_of_messages, clear_copies_of_names
from backstory.pipeline.chats.exports_reading import (
    EXPORT_SOURCES,
    Reading,
    fingerprint_messages,
    forget_changed,
    name_conversations,
    put_as_stored,
    read_chats,
    record_files,
)
from backstory.pipeline.chats.leaks import find_former_names, record_opted_out
from backstory.pipeline.chats.local_times import (
    find_zones,
    place_in_zones,
    put_local_times,
    require_no_timestamp_outliers,
)
from backstory.pipeline.chats.message_archive import is_archive_stale, keep_archived, store_archive
from backstory.pipeline.chats.people import find_people, read_people, record_people
from backstory.pipeline.chats.removals import refuse_removals
from backstory.pipeline.chats.stored_messages import PARTITIONED, drop_outside
from backstory.pipeline.incremental.inputs import split_by_partition
from backstory.pipeline.incremental.report import CLEARED, log_unread
from backstory.pipeline.stages.stage import Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.partitions import partition_key, partition_keys
from backstory.storage.tables.schemas import Messages
from backstory.storage.tables.tables import Made

_EXTENT: Final = "extent"
_EXPORTS: Final = "exports"
_DAYS: Final = "days"

logger = logging.getLogger(__name__)


def find_partitions(workspace: Workspace, exports: Sequence[ExportFile] | None = None) -> list[str]:
    """List the partitions in which the chat exports have messages, or had some in an earlier run, in order.

    They are hashed unless they are given. It is an error if there is no message, or if a few are more than a year away
    from all others.
    """
    settings = workspace.settings.partitions
    exports = find_exports(workspace.chats_dir) if exports is None else exports
    fingerprint = _fingerprint_extent(workspace, exports)
    known = workspace.catalog.read(_EXTENT).get(_EXPORTS)
    if known is None or known.inputs != fingerprint:
        read, files = read_chats(workspace)
        # An archived message stands for one of an export only by its id, which stored messages have.
        messages = (
            _place(workspace, read)
            if read_archive(workspace.archive).is_empty()
            else _keep_archived(workspace, read, files).messages
        )
        if not settings.allow_timestamp_outliers:
            require_no_timestamp_outliers(messages)
        keys = partition_keys(messages, settings.grain)
        if keys.is_empty():
            # The tables still hold what earlier runs read. A run over those partitions reports what is missing.
            if stored := workspace.tables.keys("messages"):
                return stored
            raise WorkspaceError(_describe_nothing(workspace, read), code="no_messages")
        days = " ".join(keys.unique().sort())
        known = Entry(_fingerprint_extent(workspace, files), days, len(messages))
        if workspace.writes:
            workspace.catalog.record(_EXTENT, {_EXPORTS: known})
    found = known.content.split()
    # A killed run may have emptied a partition in one table, and not yet in those that are made of it.
    made = {key for entries in workspace.catalog.read_all(PARTITIONED).values() for key in entries}
    return sorted({*found, *(key for key in made if found[0] < key < found[-1])})


def known_first_partition(workspace: Workspace) -> str | None:
    """Return the partition of the first message in the last run, or None before the first run."""
    known = workspace.catalog.read(_EXTENT).get(_EXPORTS)
    if known is None:
        return None
    # The last run may have had another grain.
    moment = datetime.fromisoformat(known.content.split(" ")[0]).replace(tzinfo=UTC)
    return partition_key(moment, workspace.settings.partitions.grain)


def read_all_messages(workspace: Workspace, partitions: Sequence[str]) -> Reading:
    """Read the exports as a run over partitions does, with what only the archive holds. Nothing is written.

    It raises what would stop the run: messages that would be lost, a real name, an unusable archive or key.
    """
    read, files = read_chats(workspace)
    reading = _keep_archived(workspace, read, files)
    refuse_removals(workspace, reading, files, partitions)
    return reading


def _keep_archived(workspace: Workspace, read: ExportRead, files: Sequence[ExportFile]) -> Reading:
    reading = keep_archived(workspace, put_as_stored(workspace, read), files)
    zones = find_zones(
        workspace, reading.origins.select("conversation_id", "conversation", "file").iter_rows()
    )
    zone = workspace.settings.conversations.timezone
    return replace(reading, messages=put_local_times(reading.messages, zones, zone))


def _place(workspace: Workspace, read: ExportRead) -> pl.DataFrame:
    """Return the times of messages as they were read, with real names."""
    settings = workspace.settings.conversations
    has_own = any(one.timezone is not None for one in settings.overrides.values())
    # An entry may name a conversation as the tables do.
    stored = name_conversations(workspace, read) if has_own else {}
    messages = read.messages.with_columns(
        pl.col("conversation_id").replace(stored), name="conversation_id", file="source"
    )
    chats = messages.select("conversation_id", "name", "file").unique()
    placed = place_in_zones(messages, find_zones(workspace, chats.iter_rows()), settings.timezone)
    return placed.select("timestamp", "local_time", "source")


@dataclass
class _AllMessages:
    """All messages of a run, read once.

    Attributes:
        rows: The messages, with their ``partition``.
        fingerprint: Hash of everything that the stage has read.
        files: The exports with the hashes of what was read of them.
        partitions: Keys of the partitions to make of them.
        counts: Figures of the stage.
    """

    rows: pl.DataFrame
    fingerprint: str
    files: Sequence[ExportFile]
    partitions: Sequence[str]
    counts: dict[str, int | float | str] = field(default_factory=dict)


class MessagesStage(Stage):
    """Reads the exports into ``messages``, unreadable lines into ``quarantine``, and every file into ``sources``."""

    table = "messages"
    side_outputs = ("quarantine", "sources")
    _read: _AllMessages | None = None

    @cached_property
    def files(self) -> Sequence[ExportFile]:
        """The exports as they are on the disk."""
        return find_exports(self.workspace.chats_dir)

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Hash the exports and what else decides the messages; the archive must have been brought up to date before."""
        return dict.fromkeys(self.partitions, fingerprint_messages(self.workspace, self.files))

    def stale_partitions(self) -> list[str]:
        """List the partitions that would be built: all of them if the key of the pseudonyms is unusable."""
        fingerprint = fingerprint_messages(self.workspace, self.files)
        is_known = _are_files_accounted_for(self.workspace, fingerprint) and _is_secret_known(self.workspace)
        if not is_known or is_archive_stale(self.workspace, self.files):
            return list(self.partitions)
        return super().stale_partitions()

    def weigh(self, partitions: list[str]) -> Mapping[str, int]:
        """Return the number of messages of each partition."""
        if self._are_empty(partitions):
            return {}
        return dict(self._read_all().rows["partition"].value_counts().iter_rows())

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Return the messages of the partitions."""
        if self._are_empty(partitions):
            return dict.fromkeys(partitions, empty(Messages))
        rows = self._read_all().rows
        return split_by_partition(rows.filter(pl.col("partition").is_in(partitions)), partitions)

    def inputs_after(self) -> Mapping[str, str]:
        """Hash what was read, which may differ from what was on the disk before."""
        read = self._read
        return self.inputs if read is None else dict.fromkeys(self.partitions, read.fingerprint)

    def begin(self) -> None:
        """Read the exports if they have changed, and write ``sources`` and ``quarantine``.

        Where messages would be lost, or a real name is left, nothing is written. Where no message can be read,
        ``sources`` is.
        """
        workspace = self.workspace
        if workspace.settings.privacy.pseudonyms:
            workspace.load_secret()
        is_known = _are_files_accounted_for(workspace, fingerprint_messages(workspace, self.files))
        if not is_known or is_archive_stale(workspace, self.files):
            # Writes `sources`, `quarantine`, and the archive, which is a part of the fingerprint.
            self.partitions = list(self._read_all().partitions)
            self.resources.widened_to = self.partitions

    def end(self) -> None:
        """Record which exports the partitions were made from."""
        workspace = self.workspace
        if self._read is not None and self._read.files == self.files:
            # Of other days, some may have been made from the same exports.
            stored = workspace.tables.keys(self.table)
            read = dict.fromkeys(stored, self._read.fingerprint)
            current = {*stored}.difference(workspace.tables.stale(self.table, read))
            record_files(workspace, self.files, [*self.partitions, *current])
        workspace.last_reading.release()

    def _read_all(self) -> _AllMessages:
        """Read all messages once; their figures are those of the stage."""
        if self._read is None:
            self._read = _read_and_write_side_outputs(self.workspace, self.partitions)
            self.counts.update(self._read.counts)
            # What lies outside of the messages was removed.
            self.seen = self.workspace.catalog.version
        return self._read

    def _are_empty(self, partitions: Sequence[str]) -> bool:
        """Return whether the last reading was of the same files and found no messages, and none are stored."""
        days = self.workspace.catalog.read(_EXTENT).get(_DAYS)
        if self._read is not None or days is None or days.inputs != self.inputs[partitions[0]]:
            return False
        filled = {*days.content.split(), *self.workspace.tables.keys("messages")}
        return filled.isdisjoint(partitions)


def _read_and_write_side_outputs(workspace: Workspace, partitions: Sequence[str]) -> _AllMessages:
    """Read all messages, refuse to lose any, and write the archive, ``quarantine`` and ``sources``."""
    read, files = read_chats(workspace)
    reading = _keep_archived(workspace, read, files)
    keys = partition_keys(reading.messages, workspace.settings.partitions.grain)
    days = keys.unique().sort()
    # Days that hold names of people who joined later are made again, also outside of the range of the run.
    named = find_former_names(workspace)
    if named and workspace.feeds_back:  # later windows were given the posts about these days
        named |= {key for key in workspace.tables.keys("messages") if key > min(named)}
    partitions = sorted({*partitions, *named})
    refuse_removals(workspace, reading, files, partitions)
    messages, sources = reading.messages, reading.sources
    had_messages = bool(workspace.tables.keys("messages"))
    dropped = clear_copies_of_messages(workspace, messages, partitions)
    people = find_people(workspace, read, messages)
    withdrawn = {*read_people(workspace).agreed.values()} - {*people.agreed.values()}
    hidden = clear_copies_of_names(workspace, withdrawn, reading.names if named else ())
    record_people(workspace, people)
    store_archive(workspace, reading, files)
    _store_opt_outs(workspace, read)
    forget_changed(workspace, files)
    _write_quarantine(workspace, reading.quarantine)
    # Last, because its catalog entry also confirms the quarantine.
    fingerprint = fingerprint_messages(workspace, files)
    workspace.tables.commit({("sources", EXPORT_SOURCES): Made(sources, fingerprint)})
    log_unread(sources)
    if messages.is_empty() and not had_messages and len(sources.filter(pl.col("status") != "ignored")):
        raise WorkspaceError(_describe_nothing(workspace, read), code="no_messages")
    drop_outside(workspace, messages)
    _warn_of_unused_entries(workspace, read)
    record_opted_out(workspace, reading.opted_out)
    workspace.catalog.record(_EXTENT, {_DAYS: Entry(fingerprint, " ".join(days), len(days))})
    statuses = dict(sources["status"].value_counts().sort("status").iter_rows())
    return _AllMessages(
        messages.with_columns(keys),
        fingerprint,
        files,
        partitions,
        {
            "messages": len(messages),
            **({"opted_out": opted_out} if (opted_out := int(reading.opted_out["messages"].sum())) else {}),
            "quarantined": len(reading.quarantine),
            "sources": len(sources),
            **statuses,
            **({CLEARED: cleared} if (cleared := ". ".join(filter(None, (dropped, hidden)))) else {}),
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
            "privacy.exclude: nobody wrote under the name of entry %d in the exports. The entry leaves out only "
            "messages that earlier runs archived of a person of exactly this name. Write the name as the exports do, "
            "or the pseudonym as the tables do",
            entry,
        )


def _fingerprint_extent(workspace: Workspace, files: Sequence[ExportFile]) -> str:
    admitted = str(workspace.settings.partitions.allow_timestamp_outliers)
    return digest([fingerprint_messages(workspace, files), admitted])


def _describe_nothing(workspace: Workspace, read: ExportRead) -> str:
    files = read.sources.filter(pl.col("status") != "ignored").select("source", "status", "reason")
    if files.is_empty():
        return (
            f"no message in {workspace.chats_dir}; put a chat export there (WhatsApp .txt or .zip, "
            "Telegram .json, Slack .zip or folder, Parquet, CSV or JSONL), or index only documents by `backstory add`"
        )
    listed = "".join(f"\n- {source} ({status}): {reason}" for source, status, reason in files.iter_rows())
    return f"no message could be read from the files in {workspace.chats_dir}:{listed}"


def _write_quarantine(workspace: Workspace, quarantine: pl.DataFrame) -> None:
    groups = {digest([str(source)], length=16): rows for (source,), rows in quarantine.group_by("source")}
    # Its keys are hashes of sources, of which some may be deleted.
    gone = workspace.catalog.read("quarantine").keys() - groups.keys()
    made = {("quarantine", key): Made(rows.sort("line"), "") for key, rows in groups.items()}
    workspace.tables.commit(made, without=[("quarantine", key) for key in gone])


def _are_files_accounted_for(workspace: Workspace, fingerprint: str) -> bool:
    """Check whether ``sources`` and ``quarantine`` were written from these exports and are intact."""
    entry = workspace.catalog.read("sources").get(EXPORT_SOURCES)
    if entry is None or entry.inputs != fingerprint:
        return False
    if workspace.tables.hash_files("sources").get(EXPORT_SOURCES, "") != entry.content:
        return False
    recorded = {key: one.content for key, one in workspace.catalog.read("quarantine").items() if one.rows}
    return recorded == workspace.tables.hash_files("quarantine")


def _is_secret_known(workspace: Workspace) -> bool:
    try:
        if workspace.settings.privacy.pseudonyms:
            workspace.load_secret()
    except BackstoryError:
        return False  # the stage raises the error with its reason
    return True
