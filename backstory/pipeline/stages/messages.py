"""The stage that reads the chat exports of a workspace into messages, quarantine and sources."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Final

import polars as pl

from backstory.base.errors import BackstoryError, InputError, WorkspaceError
from backstory.base.ids import digest
from backstory.ingest.chats.export import ExportFile
from backstory.ingest.chats.export_files import find_exports
from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.chats.merging import write_archive
from backstory.ingest.privacy.exclusions import OptOuts
from backstory.pipeline.chats.copies import clear_copies_of_messages, clear_copies_of_names
from backstory.pipeline.chats.exports_reading import (
    EXPORT_SOURCES,
    Reading,
    find_zones,
    fingerprint_messages,
    put_as_stored,
    put_local_times,
)
from backstory.pipeline.chats.leaks import find_former_names, record_opted_out
from backstory.pipeline.chats.people import find_people, read_people, record_people
from backstory.pipeline.chats.stored_messages import (
    PARTITIONED,
    forget_changed,
    keep_lost,
    record_files,
    refuse_removals,
)
from backstory.pipeline.incremental.report import CLEARED, log_unread
from backstory.pipeline.stages.stage import Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.partitions import Grain, partition_key, partition_keys
from backstory.storage.tables.tables import Made

_EXTENT: Final = "extent"
_EXPORTS: Final = "exports"
_LONGEST_GAP: Final = timedelta(days=366)
_MOST_LONE: Final = 3

logger = logging.getLogger(__name__)


def find_partitions(workspace: Workspace, exports: Sequence[ExportFile] | None = None) -> list[str]:
    """List the partitions in which the chat exports have messages, or the tables have rows, in order.

    The exports are hashed unless they are given. It is an error if there is no message, or if a few are more than a
    year away from all others.
    """
    settings = workspace.settings.partitions
    exports = find_exports(workspace.chats_dir) if exports is None else exports
    # A killed run may have emptied a partition in one table, and not yet in those that are made of it.
    made = [*chain(*(table.items() for table in workspace.catalog.read_all(PARTITIONED).values()))]
    stored = {key for key, entry in made if entry.rows}
    known = workspace.catalog.read(_EXTENT).get(_EXPORTS)
    admitted = str(settings.allow_timestamp_outliers)
    if known is None or known.inputs != digest([fingerprint_messages(workspace, exports), admitted]):
        reading = read_messages(workspace)
        if not settings.allow_timestamp_outliers:
            _require_no_timestamp_outliers(reading)
        found = partition_keys(reading.messages, settings.grain).unique().sort()
        if found.is_empty() and not stored:
            raise _find_nothing(workspace, reading.read)
        inputs = digest([fingerprint_messages(workspace, reading.read.files), admitted])
        known = Entry(inputs, " ".join(found), len(reading.messages))
        if workspace.writes and len(found):
            workspace.catalog.record(_EXTENT, {_EXPORTS: known})
    days = known.content.split()
    stored |= {key for key, _ in made if days and days[0] < key < days[-1]}
    # Those of another grain are removed when the table is made again.
    return sorted({*days, *(key for key in stored if _as_key(key, settings.grain) == key)})


def list_known_partitions(workspace: Workspace) -> list[str]:
    """List the partitions in which the chat exports had messages when they were read last, in order."""
    known = workspace.catalog.read(_EXTENT).get(_EXPORTS)
    return [] if known is None else known.content.split()


def known_first_partition(workspace: Workspace) -> str | None:
    """Return the partition of the first message in the last run or the tables, or None before the first run."""
    known = list_known_partitions(workspace)
    if not known:
        return None
    first = min([known[0], *workspace.tables.keys("messages")[:1]])
    # The last run may have had another grain.
    return _as_key(first, workspace.settings.partitions.grain)


def read_messages(workspace: Workspace) -> Reading:
    """Read the exports as a run does, with what only the archive holds. Nothing is written.

    It raises what would stop the run: a real name that is left, an unusable archive or key.
    """
    reading = keep_lost(workspace, put_as_stored(workspace))
    zone, zones = workspace.settings.conversations.timezone, find_zones(workspace, reading.origins)
    return replace(reading, messages=put_local_times(reading.messages, zones, zone))


def read_all_messages(workspace: Workspace, partitions: Sequence[str]) -> pl.DataFrame:
    """Read the messages as a run over partitions does; it also raises if that run would lose some."""
    reading = read_messages(workspace)
    refuse_removals(workspace, reading, partitions)
    return reading.messages


class MessagesStage(Stage):
    """Reads the exports into ``messages``, unreadable lines into ``quarantine``, and every file into ``sources``."""

    table = "messages"
    side_outputs = ("quarantine", "sources")
    _reading: Reading | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the exports and of what else decides the messages."""
        return fingerprint_messages(self.workspace)

    @cached_property
    def inputs(self) -> dict[str, str]:
        """The same hash for each partition, since any export may hold messages of any of them."""
        return dict.fromkeys(self.partitions, self.fingerprint)

    def stale_partitions(self) -> list[str]:
        """List the partitions that would be built: all of them if the key of the pseudonyms is unusable."""
        try:
            self._load_secret()
        except BackstoryError:
            return list(self.partitions)  # the run raises the error with its reason
        return list(self.partitions) if self._are_exports_unread() else super().stale_partitions()

    def weigh(self, partitions: list[str]) -> Mapping[str, int]:  # noqa: ARG002
        """Return the number of messages of each partition."""
        return dict(self._read().messages["partition"].value_counts().iter_rows())

    def compute(self, partitions: list[str], /, *_: pl.DataFrame) -> pl.DataFrame:
        """Return the messages of the partitions."""
        return self._read().messages.filter(pl.col("partition").is_in(partitions))

    def begin(self) -> None:
        """Read the exports if they have changed."""
        self._load_secret()
        if self._are_exports_unread():
            self._read()
            self.resources.widened_to = self.partitions

    def end(self) -> None:
        """Record which exports the tables match, if every partition was made from these."""
        workspace = self.workspace
        if self._reading is not None:
            stored = dict.fromkeys(workspace.tables.keys(self.table), self.fingerprint)
            if not workspace.tables.stale(self.table, stored):
                record_files(workspace, self._reading.read.files)
        workspace.last_reading.release()

    def _load_secret(self) -> None:
        if self.workspace.settings.privacy.pseudonyms:
            self.workspace.load_secret()

    def _are_exports_unread(self) -> bool:
        """Return whether ``sources`` and ``quarantine`` are of other exports, or damaged."""
        made_of = {EXPORT_SOURCES: self.fingerprint}
        return any(self.workspace.tables.stale(table, made_of) for table in self.side_outputs)

    def _read(self) -> Reading:
        """Read all messages once, refuse to lose any, and write the archive, ``quarantine`` and ``sources``.

        Where messages would be lost, or a real name is left, nothing is written.
        """
        if self._reading is not None:
            return self._reading
        workspace = self.workspace
        reading = read_messages(workspace)
        read, messages = reading.read, reading.messages
        # Days that hold names of people who joined later are made again, also outside of the range of the run.
        named = find_former_names(workspace)
        if named and workspace.feeds_back:  # later windows were given the posts about these days
            named |= {key for key in workspace.tables.keys("messages") if key > min(named)}
        self.partitions = sorted({*self.partitions, *named})
        refuse_removals(workspace, reading, self.partitions)
        had_messages = bool(workspace.tables.keys("messages"))
        dropped = clear_copies_of_messages(workspace, messages, self.partitions)
        people = find_people(workspace, read, messages)
        withdrawn = {*read_people(workspace).agreed.values()} - {*people.agreed.values()}
        hidden = clear_copies_of_names(workspace, withdrawn, reading.names if named else ())
        record_people(workspace, people)
        write_archive(workspace.archive, reading.kept)
        # Later exports may have lost the command by which somebody opted out.
        opt_outs = OptOuts.read(workspace.opt_outs)
        if (now := opt_outs.update(read.commands)).moments != opt_outs.moments:
            now.write(workspace.opt_outs)
        forget_changed(workspace, read.files)
        self.fingerprint = fingerprint_messages(workspace, read.files)  # now with the archive
        self.inputs = dict.fromkeys(self.partitions, self.fingerprint)
        quarantine, sources = reading.quarantine.sort("source", "line", maintain_order=True), reading.sources
        made = {
            (table, EXPORT_SOURCES): Made(rows, self.fingerprint)
            for table, rows in zip(self.side_outputs, (quarantine, sources), strict=True)
        }
        workspace.tables.commit(made)
        log_unread(sources)
        if messages.is_empty() and not had_messages and len(sources.filter(pl.col("status") != "ignored")):
            raise _find_nothing(workspace, read)
        _warn_of_unused_entries(read, workspace.settings.conversations.folder)
        record_opted_out(workspace, reading.opted_out)
        opted_out = int(reading.opted_out["messages"].sum())
        self.counts |= {"messages": len(messages)} | ({"opted_out": opted_out} if opted_out else {})
        self.counts |= {"quarantined": len(quarantine), "sources": len(sources)}
        self.counts |= dict(sources["status"].value_counts().sort("status").iter_rows())
        if cleared := ". ".join(filter(None, (dropped, hidden))):
            self.counts[CLEARED] = cleared
        keys = partition_keys(messages, workspace.settings.partitions.grain)
        self._reading = replace(reading, messages=messages.with_columns(keys))
        return self._reading


def _warn_of_unused_entries(read: ExportRead, folder: str) -> None:
    for entry in read.unused_overrides:
        logger.warning(
            "conversations.overrides: entry %d names no file and no subfolder of %s (without suffixes)",
            entry,
            folder,
        )
    for entry in read.unknown_people:
        logger.warning(
            "privacy.exclude: nobody wrote under the name of entry %d in the exports, so it leaves out at most "
            "archived messages. Write the name as the exports do, or the pseudonym as the tables do",
            entry,
        )


def _as_key(key: str, grain: Grain) -> str:
    """Return the partition of a grain in which a partition of any grain begins."""
    return partition_key(datetime.fromisoformat(key).replace(tzinfo=UTC), grain)


def _require_no_timestamp_outliers(reading: Reading) -> None:
    """Raise if the first or last few messages are more than a year away from all other messages."""
    lone = find_lone_messages(reading.messages)
    if lone.is_empty():
        return
    files = dict(reading.origins.select("source", "file").iter_rows())
    named = "; ".join(
        f"{files.get(source, source)}, {moment:%Y-%m-%d %H:%M} UTC"
        for source, moment in lone.select("source", "timestamp").rows()
    )
    raise InputError(
        f"{len(lone)} of {len(reading.messages)} messages are more than {_LONGEST_GAP.days} days from all others, as "
        f"if a phone's clock had been wrong: {named}. Correct or remove them in the export, choose days with --from "
        "and --to, or set `partitions: {allow_timestamp_outliers: true}` if the dates are right",
        code="timestamp_outliers",
    )


def find_lone_messages(messages: pl.DataFrame) -> pl.DataFrame:
    """Find the first or last three messages, or tenth of all, that are more than a year from all others."""
    ordered = messages.sort("timestamp", maintain_order=True)
    most = min(_MOST_LONE, len(ordered) // 10)
    after_silence = (ordered["timestamp"].diff() > _LONGEST_GAP).arg_true().to_list()
    head = max((place for place in after_silence if place <= most), default=0)
    tail = min((place for place in after_silence if len(ordered) - place <= most), default=len(ordered))
    return pl.concat([ordered.head(head), ordered.slice(tail)])


def _find_nothing(workspace: Workspace, read: ExportRead) -> WorkspaceError:
    files = read.sources.filter(pl.col("status") != "ignored").select("source", "status", "reason")
    listed = "".join(f"\n- {source} ({status}): {reason}" for source, status, reason in files.iter_rows())
    return WorkspaceError(
        f"no message could be read in {workspace.chats_dir}; put a chat export there (WhatsApp .txt or .zip, Telegram "
        f".json, Slack .zip or folder, Parquet, CSV or JSONL), or index only documents by `backstory add`{listed}",
        code="no_messages",
    )
