"""Messages that a run would remove from the tables because the inputs no longer hold them, and those that are kept.

A message that is in the tables but not in the exports is classified like this:

- If its export is byte-identical to the last complete run, nobody removed the message: another setting or another
  version of Backstory reads it differently.
- If it is now in another place, it was moved (a renamed export). If the same time and author now have another text, it
  was edited. If the same text is at most 26 hours away, it was read in another time zone.
- Otherwise it was removed. ``conversations.removals`` decides for each conversation: the run stops (``ask``), the
  tables drop the message (``mirror``), or it is restored from the archive (``keep``).
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from backstory.errors import DamagedTableError, RemovalError, WorkspaceError
from backstory.ids import digest, digest_json
from backstory.messages import ExportFile, conversation_of
from backstory.messages.archive import ARCHIVE_SCHEMA, read_archive, write_archive
from backstory.pipeline.inputs import code_version
from backstory.privacy import find_real_names, load_secret, pseudonymize_messages
from backstory.privacy.pseudonyms import PSEUDONYM
from backstory.settings import ConversationSettings
from backstory.tables import list_partitions, read_table, write_partition
from backstory.tables.contracts import empty
from backstory.tables.ledger import Entry
from backstory.tables.partitions import partition_keys
from backstory.tables.schemas import Messages
from backstory.workspace import Workspace

logger = logging.getLogger(__name__)

PARTITIONED: Final = (
    *("messages", "windows", "window_chunks", "hits", "decisions", "contexts", "window_contexts"),
)
"""Tables with calendar partitions, in the order in which data flows."""

_FILES = "exports_read"
_ARCHIVED = "archive"
_EXPORTS = "exports"
_ANOTHER_CLOCK = timedelta(hours=26)
_NAMED = 5
_ORDER = ("timestamp", "source", "seq")


@dataclass(frozen=True)
class Reading:
    """Result of reading the exports once.

    Attributes:
        messages: Rows as the table ``messages`` holds them.
        origins: ``file`` (path below the folder of exports, with real names), and the ``source`` and
            ``conversation_id`` of its messages in the table; one row per pair.
        sources: Rows of ``sources``.
        names: Real names of people; empty if the tables hold real names.
        archive: New content of the archive of kept conversations; None to leave the archive unchanged.
    """

    messages: pl.DataFrame
    origins: pl.DataFrame
    sources: pl.DataFrame
    names: Sequence[str]
    archive: pl.DataFrame | None = None


def find_missing(before: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """Find messages that were removed: not present, moved, edited or read in another time zone.

    Args:
        before: Messages of an earlier reading, in the columns of the table.
        now: All messages of this reading.

    Returns:
        The rows of ``before`` without a counterpart in ``now``.
    """
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


def keep_archived(workspace: Workspace, reading: Reading, files: Sequence[ExportFile]) -> Reading:
    """Add the messages of kept conversations that only the archive holds, and set the archive's new content.

    Added messages have a negative ``seq``, because their position in an export is no longer known.

    Args:
        workspace: An open workspace.
        reading: What the exports hold.
        files: The exports.

    Returns:
        The reading with the kept messages.

    Raises:
        WorkspaceError: The archive cannot be used.
    """
    archived = _read_archive(workspace, reading.names)
    policies = _find_policies(workspace.settings.conversations, reading)
    kept = {name for name in policies if policies[name] == "keep"}
    kept |= set(archived["conversation_id"]) - policies.keys()
    if not kept:
        return reading
    how = hash_reading(workspace)
    unseen = kept - set(archived["conversation_id"])
    base = pl.concat([archived, _as_archived(_read_stored(workspace, how, unseen), how, held=True)])
    reread = (
        pl.col("held")
        & (pl.col("reading") != how)
        & pl.col("source").is_in(_unchanged(workspace, reading, files))
    )
    base = base.filter(pl.col("conversation_id").is_in(list(kept)) & ~reread)
    columns = reading.messages.columns
    only = base.filter(
        pl.col("message_id").is_in(
            find_missing(base.select(columns), reading.messages)["message_id"].implode()
        )
    )
    # Within the same minute, archived messages come first, because an export loses its oldest messages.
    place = pl.int_range(pl.len()) - pl.len().cast(pl.Int64)
    only = only.with_columns(place.over("conversation_id").alias("seq"))
    messages = pl.concat([reading.messages, only.select(columns)]).sort(_ORDER, maintain_order=True)
    present = reading.messages.filter(pl.col("conversation_id").is_in(list(kept)))
    archive = pl.concat([_as_archived(present, how, held=True), only.with_columns(held=pl.lit(value=False))])
    return replace(reading, messages=messages, archive=archive.sort(_ORDER, maintain_order=True))


def is_archive_stale(workspace: Workspace, files: Sequence[ExportFile]) -> bool:
    """Check whether messages of these exports may be missing from the archive."""
    settings = workspace.settings.conversations
    policies = {settings.removals, *(override.removals for override in settings.overrides.values())}
    known = workspace.ledger.read(_ARCHIVED).get(_EXPORTS)
    return "keep" in policies and (known is None or known.inputs != hash_exports(workspace, files))


def hash_exports(workspace: Workspace, files: Sequence[ExportFile]) -> str:
    """Hash the exports and how they are read, but not which messages are archived or forgotten."""
    return digest([hash_reading(workspace), *(_sign(workspace, file) for file in files)])


def hash_reading(workspace: Workspace) -> str:
    """Hash everything except an export's bytes that decides how its messages are read."""
    settings = workspace.settings
    no_reading = {"folder", "removals", "read_seconds", "read_megabytes"}
    how = settings.conversations.model_dump(mode="json", exclude=no_reading)
    for override in how["overrides"].values():
        del override["removals"]
    privacy = settings.privacy.model_dump(mode="json")
    return digest([code_version("messages"), digest_json(how), digest_json(privacy)], length=16)


def refuse_removals(
    workspace: Workspace, reading: Reading, files: Sequence[ExportFile], partitions: Sequence[str]
) -> None:
    """Stop a run that would remove messages, unless the caller or the settings allow it.

    Args:
        workspace: An open workspace.
        reading: What the tables would hold.
        files: The exports.
        partitions: Keys of the partitions that would be written.

    Raises:
        RemovalError: The run would lose messages. The error names the conversations, days and files, and what to do.
    """
    if workspace.accept_removals:
        return
    stored = _read_intact_messages(workspace)
    policies = _find_policies(workspace.settings.conversations, reading)
    default = workspace.settings.conversations.removals
    asked = [name for name in stored["conversation_id"].unique() if policies.get(name, default) == "ask"]
    keys = partition_keys(stored["timestamp"], workspace.settings.partitions.grain)
    first, last = _span(workspace, reading.messages)
    is_written = keys.is_in(partitions) | (keys < first) | (keys > last)
    missing = find_missing(stored, reading.messages).filter(
        pl.col("conversation_id").is_in(asked),
        ~pl.col("source").is_in(_unchanged(workspace, reading, files)),
    )
    missing = missing.join(stored.filter(is_written), on="message_id", how="semi")
    if len(missing):
        raise RemovalError(_describe(missing, reading, workspace.settings.conversations.folder))


def drop_outside(workspace: Workspace, messages: pl.DataFrame) -> int:
    """Empty the partitions of all tables before the first message or after the last one.

    Args:
        workspace: An open workspace.
        messages: All messages.

    Returns:
        Number of emptied partitions.
    """
    first, last = _span(workspace, messages)
    dropped = 0
    # The table of messages comes last, so that a run after a killed process finds the same partitions.
    for table in reversed(PARTITIONED):
        outside = [key for key in list_partitions(workspace.tables, table) if key < first or key > last]
        workspace.ledger.forget(table, outside)
        for key in outside:
            write_partition(workspace.tables, table, key, read_table(workspace.tables, table, []))
        dropped += len(outside)
    return dropped


def begin_writing(workspace: Workspace, reading: Reading, files: Sequence[ExportFile]) -> None:
    """Write the archive, and record that the tables no longer match the files of the last complete run."""
    if reading.archive is not None:
        write_archive(workspace.archive, reading.archive)
        archived = Entry(hash_exports(workspace, files), "", len(reading.archive))
        workspace.ledger.record(_ARCHIVED, {_EXPORTS: archived})
    known = workspace.ledger.read(_FILES)
    signatures = {_key(file): _sign(workspace, file) for file in files}
    workspace.ledger.forget(
        _FILES, [key for key, entry in known.items() if signatures.get(key) != entry.inputs]
    )


def end_writing(workspace: Workspace, files: Sequence[ExportFile], partitions: Sequence[str]) -> None:
    """Record which files the tables hold, if every partition with messages was written."""
    if set(list_partitions(workspace.tables, "messages")) <= set(partitions):
        how = hash_reading(workspace)
        entries = {_key(file): Entry(_sign(workspace, file), how, 0) for file in files if file.sha256}
        workspace.ledger.record(_FILES, entries)


def _find_policies(settings: ConversationSettings, reading: Reading) -> dict[str, str]:
    """Return the removal policy of each conversation that was read or is in the settings, by its id in the tables."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, override in settings.overrides.items():
        found[name].add(override.removals or settings.removals)
    for name, file in reading.origins.select("conversation_id", "file").iter_rows():
        found[name].add(settings.override(file, conversation_of(file)).removals)
    order = ("keep", "ask", "mirror")
    return {name: min(policies, key=order.index) for name, policies in found.items()}


def _unchanged(workspace: Workspace, reading: Reading, files: Sequence[ExportFile]) -> list[str]:
    """Return the sources, as named in the table, that are byte-identical to the last complete run."""
    known = workspace.ledger.read(_FILES)
    same = [
        file.source
        for file in files
        if (entry := known.get(_key(file))) is not None and entry.inputs == _sign(workspace, file)
    ]
    return reading.origins.filter(pl.col("file").is_in(same))["source"].to_list()


def _sign(workspace: Workspace, file: ExportFile) -> str:
    settings = workspace.settings.conversations.override(file.source, conversation_of(file.source))
    return f"{file.sha256} {settings.removals}"


def _key(file: ExportFile) -> str:
    return digest([file.source], length=16)  # names of files can be names of people


def _span(workspace: Workspace, messages: pl.DataFrame) -> tuple[str, str]:
    """Return the keys of the first and last partition with messages; without messages, an empty range."""
    keys = partition_keys(messages["timestamp"], workspace.settings.partitions.grain)
    return (str(keys.min()), str(keys.max())) if len(keys) else ("~", "")


def _read_archive(workspace: Workspace, names: Sequence[str]) -> pl.DataFrame:
    """Read the archive, and replace real names, including those that became known after it was written."""
    archived = read_archive(workspace.archive)
    if not workspace.settings.privacy.pseudonyms or archived.is_empty():
        return archived
    if not archived["author"].drop_nulls().str.contains(f"^{PSEUDONYM}$").all():
        raise WorkspaceError(
            f"{workspace.archive} holds real names, since `privacy.pseudonyms` was off when it was written; switch "
            "pseudonyms off again, or delete the folder to lose the messages that only it holds"
        )
    named = find_real_names(archived, names)["message_id"].unique()
    if named.is_empty():
        return archived
    is_named = pl.col("message_id").is_in(named.implode())
    rows = archived.filter(is_named)
    secret = load_secret(workspace.secret, workspace.ledger, workspace.tables)
    hidden = pseudonymize_messages(
        rows.with_columns(author=pl.lit(None, pl.String)), secret, other_names=names
    )
    return pl.concat([archived.filter(~is_named), hidden.with_columns(rows["author"])])


def _read_stored(workspace: Workspace, how: str, conversations: set[str]) -> pl.DataFrame:
    """Read the stored messages of conversations not archived yet, if they were read with the same settings."""
    entries = workspace.ledger.read(_FILES).values()
    stored = _read_intact_messages(workspace)
    same = bool(entries) and all(entry.content == how for entry in entries)
    return stored.filter(pl.col("conversation_id").is_in(list(conversations))) if same else stored.clear()


def _read_intact_messages(workspace: Workspace) -> pl.DataFrame:
    """Read the stored messages, without partitions whose files differ from those written.

    The run rebuilds these partitions from the exports. Their old content cannot be compared with the exports.
    """
    intact = [empty(Messages)]
    damaged = []
    for key in list_partitions(workspace.tables, "messages"):
        try:
            intact.append(read_table(workspace.tables, "messages", [key]))
        except DamagedTableError:
            damaged.append(key)
    if damaged:
        logger.warning(
            "messages of %s cannot be compared with the exports, since the file is damaged (%d such files): whether "
            "the exports have lost messages of these days is not known",
            damaged[0],
            len(damaged),
        )
    return pl.concat(intact)


def _as_archived(messages: pl.DataFrame, how: str, *, held: bool) -> pl.DataFrame:
    columns = [pl.lit(how).alias("reading"), pl.lit(held).alias("held")]
    return messages.with_columns(columns).select(ARCHIVE_SCHEMA.names())


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


def _describe(missing: pl.DataFrame, reading: Reading, folder: str) -> str:
    lines = []
    states = {row["source"].removesuffix("/"): row for row in reading.sources.iter_rows(named=True)}
    for rows in missing.sort("conversation_id").partition_by("conversation_id", maintain_order=True):
        days = rows["timestamp"].dt.date()
        first, last = str(days.min()), str(days.max())
        span = first if first == last else f"{first} to {last}"
        reasons = [
            _describe_file(str(PurePosixPath(folder) / source), states, count)
            for source, count in rows["source"].value_counts().sort("source").iter_rows()
        ]
        lines.append(
            f"- {rows['conversation_id'][0]}: {_count(len(rows), 'message')} of "
            f"{_count(days.n_unique(), 'day')} ({span}); "
            f"{'; '.join(reasons[:_NAMED])}{'; and more files' if len(reasons) > _NAMED else ''}"
        )
    return (
        f"nothing was written, since {_count(len(missing), 'message')} would be removed that an earlier run read:\n"
        + "\n".join(lines)
        + "\nPut the files back; or run again with --accept-removals to remove these messages from all tables; or set "
        "`conversations: {removals: keep}` to keep them (`mirror` to remove them without being asked)"
    )


def _describe_file(source: str, states: Mapping[str, Mapping[str, object]], count: int) -> str:
    path = PurePosixPath(source)
    state = next((states[str(place)] for place in (path, *path.parents) if str(place) in states), None)
    if state is None:
        return f"{source} is gone"
    if state["status"] == "read":
        return f"{source} no longer holds {count:,} of them"
    return f"{source} cannot be used ({state['status']}): {state['reason']}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def require_documents(workspace: Workspace, before: pl.DataFrame, now: pl.DataFrame) -> None:
    """Stop a run that finds none of the documents of an earlier run, for example because a disk is not mounted.

    Args:
        workspace: An open workspace.
        before: Table ``documents`` of the earlier run.
        now: What the table would hold.

    Raises:
        RemovalError: All documents of the earlier run are gone, and there is no other document.
    """
    served = before.filter(pl.col("status") == "ok").join(now, on="document_id", how="semi")
    left = now.filter(pl.col("status").is_in(["ok", "error"]))
    if len(served) and left.is_empty() and not workspace.accept_removals:
        folder = workspace.settings.documents.folder
        raise RemovalError(
            f"the documents were left as they are, since {folder}/ holds none of the "
            f"{_count(len(served), 'document')} that an earlier run read, and no other. If the folder should hold "
            "them, make it available (is its disk mounted?); if they are to be removed from the index, run again with "
            "--accept-removals"
        )
