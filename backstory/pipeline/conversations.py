"""Stages for the messages, windows and query chunks of a workspace."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache

import polars as pl

from backstory.errors import BackstoryError, PrivacyError, WorkspaceError
from backstory.forgotten import drop_members, hide_members, leave_out, list_forgotten_members, read_forgotten
from backstory.ids import digest
from backstory.messages import (
    ExportFile,
    ExportRead,
    assign_message_ids,
    find_exports,
    read_exports,
    replace_sources,
)
from backstory.messages.archive import hash_archive, read_archive
from backstory.pipeline.former_names import remove_former_names
from backstory.pipeline.incremental import (
    content_of,
    find_pending,
    materialize_partitions,
    read_made,
    rows_of,
    split_by_partition,
    write_beside,
)
from backstory.pipeline.inputs import hash_dependencies
from backstory.pipeline.lone_messages import require_no_lone_messages
from backstory.pipeline.removals import (
    Reading,
    begin_writing,
    drop_outside,
    end_writing,
    is_archive_stale,
    keep_archived,
    refuse_removals,
)
from backstory.pipeline.stage_report import StageReport, log_unread
from backstory.privacy import find_real_names, load_secret, pseudonymize_messages, pseudonymize_sources
from backstory.tables import hash_partitions, list_partitions, read_table
from backstory.tables.ledger import Entry
from backstory.tables.partitions import partition_key, partition_keys, partition_range, previous_partition
from backstory.window_chunks import cut_window_chunks
from backstory.windows import cut_windows
from backstory.workspace import Workspace

_EXTENT = "extent"
_PRIVACY = "privacy"
_EXPORTS = "exports"

EXPORT_SOURCES = "conversations"
"""Partition of the table ``sources`` for the files in the folder of exports."""

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
    fingerprint = _fingerprint_extent(workspace)
    known = workspace.ledger.read(_EXTENT).get(_EXPORTS)
    if known is None or known.inputs != fingerprint:
        read = _read_exports(workspace)
        timestamps = pl.concat([read.messages["timestamp"], read_archive(workspace.archive)["timestamp"]])
        if not settings.admit_lone_messages:
            require_no_lone_messages(read.messages)
        keys = partition_keys(timestamps, settings.grain)
        if keys.is_empty():
            # The tables still hold what earlier runs read. A run over those partitions reports what is missing.
            if stored := list_partitions(workspace.tables, "messages"):
                return stored
            raise WorkspaceError(_describe_nothing(workspace, read))
        known = Entry(fingerprint, " ".join(map(str, (keys.min(), keys.max()))), len(timestamps))
        if _fingerprint_extent(workspace) == fingerprint:
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
    counts: dict[str, int | float | str] = {}
    files = find_exports(workspace.exports)
    if workspace.settings.privacy.pseudonyms:
        load_secret(workspace.secret, workspace.ledger, workspace.tables)

    @cache
    def read_messages() -> tuple[pl.DataFrame, str]:
        read = _read_exports(workspace)
        files_after = find_exports(workspace.exports)
        reading, quarantine = _read_as_stored(workspace, read)
        reading = keep_archived(workspace, reading, files)
        refuse_removals(workspace, reading, files, partitions)
        messages, sources = reading.messages, reading.sources
        is_emptied = bool(list_partitions(workspace.tables, "messages"))
        if notice := remove_former_names(workspace, reading.names, partitions):
            counts["notice"] = notice
        begin_writing(workspace, reading, files)
        _write_quarantine(workspace, quarantine)
        # Last, because its ledger entry also confirms the quarantine.
        fingerprint, fingerprint_after = (_fingerprint(workspace, found) for found in (files, files_after))
        inputs = fingerprint if fingerprint_after == fingerprint else ""
        write_beside(workspace, "sources", {EXPORT_SOURCES: sources}, inputs)
        log_unread(sources)
        if messages.is_empty() and not is_emptied and len(sources.filter(pl.col("status") != "ignored")):
            raise WorkspaceError(_describe_nothing(workspace, read))
        drop_outside(workspace, messages)
        for entry in read.unused_overrides:
            logger.warning(
                "conversations.overrides: entry %d names no file and no subfolder of %s; compare its name with "
                "theirs (a file's without its suffix)",
                entry,
                workspace.settings.conversations.folder,
            )
        statuses = dict(sources["status"].value_counts().sort("status").iter_rows())
        counts.update(messages=len(messages), quarantined=len(quarantine), sources=len(sources), **statuses)
        grain = workspace.settings.partitions.grain
        keys = partition_keys(messages["timestamp"], grain).alias("partition")
        return messages.with_columns(keys), fingerprint_after

    def weigh(_: list[str]) -> Mapping[str, int]:
        return dict(read_messages()[0]["partition"].value_counts().iter_rows())

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        return split_by_partition(read_messages()[0].filter(pl.col("partition").is_in(pending)), pending)

    is_known = _are_files_accounted_for(workspace, _fingerprint(workspace, files))
    if not is_known or is_archive_stale(workspace, files):
        read_messages()  # writes `sources`, `quarantine`, and the archive, which is a part of the fingerprint
    fingerprint = _fingerprint(workspace, files)
    report = materialize_partitions(
        workspace,
        "messages",
        dict.fromkeys(partitions, fingerprint),
        compute,
        weigh=weigh,
        read_inputs_again=lambda: dict.fromkeys(partitions, read_messages()[1]),
        counts=counts,
    )
    if read_messages.cache_info().currsize:
        end_writing(workspace, files, partitions)
    return report


def find_pending_messages(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions that :func:`materialize_messages` would build: all of them if the key is unusable."""
    files = find_exports(workspace.exports)
    fingerprint = _fingerprint(workspace, files)
    is_known = _are_files_accounted_for(workspace, fingerprint) and _is_secret_known(workspace)
    if not is_known or is_archive_stale(workspace, files):
        return list(partitions)
    return find_pending(workspace, "messages", dict.fromkeys(partitions, fingerprint))


def find_privacy_breaches(workspace: Workspace, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    """Search the stored messages, from which all other tables are built, for authors' real names.

    The names are read from the exports, because nothing else holds them. Partitions that passed before and
    have not changed since are skipped.

    Args:
        workspace: An open workspace.
        partitions: Keys to search, or None for all.

    Returns:
        ``column`` and ``message_id`` of every breach, never the name. No rows if there is no breach, or if
        pseudonyms are switched off.
    """
    wanted = list(partitions) if partitions is not None else list_partitions(workspace.tables, "messages")
    clean = pl.DataFrame(schema={"column": pl.String, "message_id": pl.String})
    if not workspace.settings.privacy.pseudonyms:
        return clean
    contents = content_of(workspace, "messages", wanted)
    fingerprint = exports_fingerprint(workspace)
    inputs = {key: digest([fingerprint, content]) for key, content in contents.items()}
    pending = workspace.ledger.pending(_PRIVACY, inputs, contents)
    if not pending:
        return clean
    names = read_exports(workspace.exports, workspace.settings.conversations).names
    breaches = find_real_names(read_table(workspace.tables, "messages", pending), names)
    if breaches.is_empty():
        workspace.ledger.record(_PRIVACY, {key: Entry(inputs[key], contents[key], 0) for key in pending})
    return breaches


def find_pending_windows(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions that :func:`materialize_windows` would build."""
    return find_pending(workspace, "windows", _inputs_of_windows(workspace, partitions))


def materialize_windows(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Cut the messages of each partition into windows."""
    settings = workspace.settings.windows
    embedder = workspace.embedder
    inputs = _inputs_of_windows(workspace, partitions)

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        messages = _read_with_previous(workspace, pending)
        windows = cut_windows(
            messages,
            settings,
            partitions=pending,
            grain=workspace.settings.partitions.grain,
            count_tokens=embedder.count_tokens,
        )
        return split_by_partition(windows, pending, keep_key=True)

    return materialize_partitions(workspace, "windows", inputs, compute, weigh=rows_of(workspace, "messages"))


def find_pending_window_chunks(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions that :func:`materialize_window_chunks` would build."""
    return find_pending(workspace, "window_chunks", _inputs_of_window_chunks(workspace, partitions))


def materialize_window_chunks(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Cut each window into query chunks."""
    settings = workspace.settings.queries
    embedder = workspace.embedder
    limit = min(workspace.settings.chunks.max_tokens, embedder.max_input_tokens)
    inputs = _inputs_of_window_chunks(workspace, partitions)

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        windows = read_made(workspace, "windows", pending)
        messages = _read_with_previous(workspace, pending)
        chunks = cut_window_chunks(
            windows,
            messages,
            settings,
            max_tokens=limit,
            count_tokens=embedder.count_tokens,
            default_min_tokens=embedder.default_query_tokens,
        )
        keyed = chunks.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
        return split_by_partition(keyed, pending)

    weigh = rows_of(workspace, "messages")
    return materialize_partitions(workspace, "window_chunks", inputs, compute, weigh=weigh)


def exports_fingerprint(workspace: Workspace) -> str:
    """Hash the chat exports, the settings that read them, and the archived and forgotten messages."""
    return _fingerprint(workspace, find_exports(workspace.exports))


def _fingerprint_extent(workspace: Workspace) -> str:
    admitted = str(workspace.settings.partitions.admit_lone_messages)
    return digest([exports_fingerprint(workspace), admitted])


def read_as_stored(workspace: Workspace) -> Reading:
    """Read the exports in the form of the table ``messages``, without archived messages.

    Raises:
        PrivacyError: A message still holds a real name.
    """
    return _read_as_stored(workspace, _read_exports(workspace))[0]


def _fingerprint(workspace: Workspace, files: Sequence[ExportFile]) -> str:
    kept, left_out = hash_archive(workspace.archive), read_forgotten(workspace.forgotten).fingerprint
    hashes = [file.fingerprint for file in files]
    return digest([hash_dependencies(workspace, "messages"), kept, left_out, *hashes], length=16)


def _read_exports(workspace: Workspace) -> ExportRead:
    """Read the exports without forgotten conversations and members."""
    settings = workspace.settings.conversations
    read = read_exports(workspace.exports, settings)
    return leave_out(read, read_forgotten(workspace.forgotten), settings.folder)


def _read_as_stored(workspace: Workspace, read: ExportRead) -> tuple[Reading, pl.DataFrame]:
    """Return messages and sources with ids and without real names, and the quarantine."""
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
    origins = messages.select("source", "conversation_id").with_columns(read.messages["source"].alias("file"))
    reading = Reading(
        messages=assign_message_ids(drop_members(messages, forgotten)),
        origins=origins.unique(maintain_order=True),
        sources=sources,
        names=read.names.to_list() if secret else (),
    )
    return reading, quarantine


def _describe_nothing(workspace: Workspace, read: ExportRead) -> str:
    files = read.sources.filter(pl.col("status") != "ignored").select("source", "status", "reason")
    if files.is_empty():
        return (
            f"no message in {workspace.exports}; put a chat export there (WhatsApp .txt or .zip, "
            "Parquet, CSV or JSONL)"
        )
    told = "".join(f"\n- {source} ({status}): {reason}" for source, status, reason in files.iter_rows())
    return f"no message could be read from the files in {workspace.exports}:{told}"


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


def _inputs_of_windows(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    """Hash the messages of each partition, and those of the previous partition where windows overlap."""
    settings = workspace.settings
    depends = hash_dependencies(workspace, "windows")
    overlaps = bool(settings.windows.overlap)
    before = {key: previous_partition(key, settings.partitions.grain) for key in partitions if overlaps}
    contents = content_of(workspace, "messages", [*partitions, *before.values()])
    return {
        key: digest([contents[key], contents[before[key]] if overlaps else "", depends]) for key in partitions
    }


def _inputs_of_window_chunks(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    depends = hash_dependencies(workspace, "window_chunks")
    contents = content_of(workspace, "windows", partitions)
    return {key: digest([contents[key], depends]) for key in partitions}


def _read_with_previous(workspace: Workspace, partitions: Sequence[str]) -> pl.DataFrame:
    grain = workspace.settings.partitions.grain
    wanted = sorted({*partitions, *(previous_partition(key, grain) for key in partitions)})
    # The partition before the first one may not exist. The wanted partitions must exist.
    made = workspace.ledger.read("messages")
    messages = read_made(workspace, "messages", [key for key in wanted if key in made or key in partitions])
    return messages.with_columns(partition_keys(messages["timestamp"], grain).alias("partition"))
