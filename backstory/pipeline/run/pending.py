"""Partitions that a run would rebuild, and why; sensors and schedules ask this before they start a run."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import polars as pl

from backstory.base.ids import digest
from backstory.index.snapshot import current_version
from backstory.ingest.sources.roots import list_sources
from backstory.pipeline.chats.exports_reading import EXPORT_SOURCES, exports_fingerprint
from backstory.pipeline.chats.local_times import require_no_timestamp_outliers
from backstory.pipeline.incremental.fingerprints import hash_dependencies, hash_document_files
from backstory.pipeline.incremental.partitions import split_by_partition
from backstory.pipeline.incremental.visible_documents import read_searched, read_visible
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.stages.messages import read_all_messages
from backstory.pipeline.stages.post_folder import list_files_of_people
from backstory.pipeline.stages.retrieval import RetrievalStage, find_stale
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.partitions import partition_key, partition_keys, previous_partition
from backstory.storage.tables.tables import WHOLE, hash_rows

_SEARCHED: Final = ("hits", "decisions", "contexts", "window_contexts")
_PARTITIONED: Final = tuple(stage for stage in STAGES if stage.partitioned)
_OF_DOCUMENTS: Final = tuple(stage for stage in STAGES if not stage.partitioned)


@dataclass(frozen=True)
class Pending:
    """Stale partitions, and why a run would rebuild them.

    Attributes:
        partitions: Key of each partition that has messages, or had some, and that a run would rebuild for another
            reason than a newer snapshot; with a hash of its messages, of those that its windows overlap, and of the
            settings.
        outdated: Keys of the partitions that are complete, with contexts of an earlier snapshot, by the same hash.
        documents: Whether documents, their chunks or the index would be rebuilt.
        latest: The partitions that have messages, in order.
    """

    partitions: Mapping[str, str]
    outdated: Mapping[str, str]
    documents: bool
    latest: Sequence[str]


def hash_messages(workspace: Workspace) -> dict[str, str]:
    """Read the exports, and hash the rows that each partition of ``messages`` must have.

    Returns:
        The hash of the file of each partition that has messages, in order.

    Raises:
        InputError: A few messages are more than a year away from all other messages.
        ContractError: A message still holds a real name.
        WorkspaceError: The archive or the key of the pseudonyms cannot be used.
    """
    settings = workspace.settings.partitions
    messages = read_all_messages(workspace).messages
    if not settings.allow_timestamp_outliers:
        require_no_timestamp_outliers(messages)
    keyed = messages.with_columns(partition_keys(messages, settings.grain))
    keys = [str(key) for key in keyed["partition"].unique().sort()]
    return {key: hash_rows(rows) for key, rows in split_by_partition(keyed, keys).items()}


def find_stale_partitions(workspace: Workspace, messages: Mapping[str, str]) -> Pending:
    """Compare the catalog and the files of the tables with what their inputs are now.

    Partitions that have no messages and never had any are left out, although a run that is given them records them.

    Args:
        workspace: An open workspace.
        messages: The result of :func:`hash_messages`.
    """
    entries = workspace.catalog.read_all(["sources", *(stage.table for stage in STAGES)])
    recorded = {
        key
        for stage in _PARTITIONED
        for key, entry in entries.get(stage.table, {}).items()
        if entry.rows and _is_of_grain(workspace, key)
    }
    keys = sorted(recorded | messages.keys())
    pending = set(_find_changed_messages(workspace, messages, keys))
    for stage in _PARTITIONED:
        if stage.table != "messages" and stage.table not in _SEARCHED:
            pending.update(stage.find_stale(workspace, keys))
    incomplete, outdated = _find_unsearched(workspace, [key for key in keys if key not in pending])
    pending |= incomplete
    sources = entries.get("sources", {}).get(EXPORT_SOURCES)
    chats = exports_fingerprint(workspace)
    inputs = _hash_inputs(workspace, messages, keys)
    wanted = {key: inputs[key] for key in sorted(pending)}
    if keys and not pending and (sources is None or sources.inputs != chats):
        # The same messages in other files: the table of files is not up to date.
        wanted = {keys[-1]: digest([inputs[keys[-1]], chats])}
    return Pending(
        partitions=wanted,
        outdated={key: inputs[key] for key in sorted(outdated)},
        documents=any(stage.find_stale(workspace, []) for stage in _OF_DOCUMENTS),
        latest=sorted(messages),
    )


def find_outdated(workspace: Workspace) -> list[str]:
    """List the partitions whose contexts name another snapshot than the published one, in order.

    Where written posts are documents, a partition is up to date if it was searched in the documents before it.

    Raises:
        ContractError: A file of the tables is damaged.
    """
    if workspace.feeds_back:
        searched = read_searched(workspace)
        now = read_visible(workspace).name_earlier(sorted(searched))
        return sorted(key for key, earlier in now.items() if searched[key] != earlier)
    current = current_version(workspace.index)
    return sorted(key for key, version in _name_snapshots(workspace, None).items() if version != current)


def hash_state(workspace: Workspace) -> str:
    """Hash the catalog, the settings and the sizes and times of the tables' files.

    Equal hashes mean that :func:`find_stale_partitions` would answer the same for the same exports and documents,
    unless a file was damaged without a trace in its size and time. Of a bucket, which compares its files with
    checksums, no file is asked about: one that somebody deletes is noticed when something else has changed.
    """
    entries = workspace.catalog.read_all(["sources", *(stage.table for stage in STAGES)])
    files = workspace.tables.list_files()
    parts = [hash_dependencies(workspace, stage.table) for stage in STAGES]
    for table in ("sources", *(stage.table for stage in STAGES)):
        for key, entry in sorted(entries.get(table, {}).items()):
            parts += [table, key, entry.inputs, entry.content]
        parts += [str(workspace.tables.store.stamp(name)) for name in files.get(table, {}).values()]
    return digest(parts, length=16)


def _is_of_grain(workspace: Workspace, key: str) -> bool:
    """Check whether a key names a partition of the grain that is set; the next run drops those of another grain."""
    return (
        partition_key(datetime.fromisoformat(key).replace(tzinfo=UTC), workspace.settings.partitions.grain)
        == key
    )


def _find_changed_messages(
    workspace: Workspace, messages: Mapping[str, str], keys: Sequence[str]
) -> Iterator[str]:
    """Yield the partitions whose messages differ from the recorded ones, and the next one if windows overlap."""
    entries = workspace.catalog.read("messages")
    files = workspace.tables.hash_files("messages")
    changed = {
        key
        for key in keys
        if key not in entries or not messages.get(key, "") == entries[key].content == files.get(key, "")
    }
    yield from changed
    if workspace.settings.windows.overlap:
        grain = workspace.settings.partitions.grain
        yield from (key for key in messages if previous_partition(key, grain) in changed)


def _find_unsearched(workspace: Workspace, keys: Sequence[str]) -> tuple[set[str], set[str]]:
    """Find the partitions that were not searched at all, and those that were searched in an earlier snapshot."""
    windows = workspace.catalog.read("windows")
    made = [workspace.catalog.read(table) for table in _SEARCHED]
    incomplete = {key for key in keys if not all(key in entries for entries in made)}
    # Without windows, every snapshot gives the same: nothing.
    searched = [key for key in keys if key not in incomplete and windows[key].rows]
    files = workspace.tables.hash_files("window_contexts")
    intact = [key for key in searched if files.get(key, "") == made[-1][key].content]
    snapshots = _name_snapshots(workspace, intact)
    if workspace.feeds_back:
        known, now = read_searched(workspace), read_visible(workspace).name_earlier(intact)
        # If an earlier post has changed, a partition is pending whatever `partitions.after_posts` says.
        snapshots = {
            key: known[key].version for key in intact if key in known and known[key].posts == now[key].posts
        }
    incomplete.update(key for key in searched if key not in snapshots)
    outdated: set[str] = set()
    for stage in STAGES:
        if stage.table in _SEARCHED and issubclass(stage, RetrievalStage):
            stale = stage.find_stale(workspace, list(snapshots))
            incomplete.update(find_stale(workspace, stage, stale, snapshots))
            outdated.update(stale)
    return incomplete, outdated - incomplete


def _name_snapshots(workspace: Workspace, keys: Collection[str] | None) -> dict[str, str]:
    """Return the version of the snapshot that each partition names, for those that have rows."""
    wanted = None if keys is None else sorted(keys)
    windows = workspace.tables.read("windows", wanted).select("window_id", "partition")
    contexts = workspace.tables.read("window_contexts", wanted).select("window_id", "index_version")
    named = windows.join(contexts, on="window_id").group_by("partition").agg(pl.col("index_version").min())
    return dict(named.iter_rows())


def _hash_inputs(workspace: Workspace, messages: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    overlaps = bool(workspace.settings.windows.overlap)
    grain = workspace.settings.partitions.grain
    settings = [hash_dependencies(workspace, stage.table, snapshot="") for stage in STAGES]
    return {
        key: digest(
            [
                messages.get(key, ""),
                messages.get(previous_partition(key, grain), "") if overlaps else "",
                *settings,
            ]
        )
        for key in keys
    }


_COMPLETE: Final = "complete run"


def is_fresh(workspace: Workspace, partitions: Sequence[str]) -> bool:
    """Check whether every stage is up to date, every output is intact, and the checks have passed.

    Each stage compares its entries in the catalog with its current inputs. Earlier runs that were partial, killed or
    had other settings therefore need no special case. Every byte of exports and tables is hashed; their sizes and times
    are not trusted. A document is hashed if its state on the disk has changed
    (:mod:`backstory.ingest.documents.file_hashes`). Of the snapshot, the sizes of the files are compared.

    Returns:
        True if a run would rebuild nothing and the current tables passed their checks.
    """
    if any(source.settings.is_remote for source in list_sources(workspace)):
        return False  # whether a place elsewhere has changed is known only by listing it
    known = workspace.catalog.read(_COMPLETE).get(WHOLE)
    if known is None or (known.inputs, known.content) != (
        _range(partitions),
        _recorded_state(workspace, partitions),
    ):
        return False
    resources = RunResources(workspace)
    return not any(stage(resources, partitions).stale_partitions() for stage in STAGES)


def record_run(workspace: Workspace, partitions: Sequence[str]) -> None:
    """Record that the tables in their current state passed the checks for these partitions."""
    entry = Entry(_range(partitions), _recorded_state(workspace, partitions), len(partitions))
    workspace.catalog.record(_COMPLETE, {WHOLE: entry})


def _range(partitions: Sequence[str]) -> str:
    return f"{partitions[0]} {partitions[-1]}"


def _recorded_state(workspace: Workspace, partitions: Sequence[str]) -> str:
    """Hash the entries of the partitions, and of every table without partitions."""
    partitioned = {stage.table for stage in _PARTITIONED}
    whole = {name for stage in STAGES for name in stage.side_outputs} | {
        stage.table for stage in _OF_DOCUMENTS
    }
    entries = workspace.catalog.read_all(partitioned | whole)
    wanted = [(table, key) for table in sorted(partitioned) for key in partitions]
    wanted += [(table, key) for table in sorted(whole) for key in sorted(entries.get(table, {}))]
    parts = []
    for table, key in wanted:
        entry = entries.get(table, {}).get(key)
        parts += [table, key, "" if entry is None else entry.inputs, "" if entry is None else entry.content]
    return digest(parts)


def fingerprint_documents(workspace: Workspace) -> str:
    """Hash the path and content of every document file.

    Of the written posts only what people did counts, if they are documents: edited, added and removed files.
    """
    posts = hash_document_files(workspace, workspace.list_other_parts())
    return digest([posts, *list_files_of_people(workspace)]) if workspace.feeds_back else posts


def join_ranges(
    partitions: Sequence[str], calendar: Sequence[str], most: int, apart: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Join partitions to ranges. Too many ranges are joined across gaps, since an unchanged day is cheap.

    Args:
        partitions: Keys to join, all of them in ``calendar``.
        calendar: All keys between the first and the last, in order.
        most: Maximum number of ranges; exceeded only for the sake of ``apart``.
        apart: Keys that no gap inside a range may hold.

    Returns:
        First and last key of each range, in order. The widest gaps remain between ranges.
    """
    places = {key: place for place, key in enumerate(calendar)}
    barriers = sorted(places[key] for key in apart if key in places)
    wanted = sorted(partitions, key=places.__getitem__)
    gaps = [(places[later] - places[earlier], later) for earlier, later in pairwise(wanted)]
    split = {
        later
        for earlier, later in pairwise(wanted)
        if bisect(barriers, places[earlier]) != bisect(barriers, places[later])
    }
    joinable = sorted((gap for gap in gaps if gap[0] > 1 and gap[1] not in split), reverse=True)
    widest = joinable[: max(most - 1 - len(split), 0)]
    starts = {wanted[0], *split, *(later for _, later in widest)} if wanted else set()
    ranges: list[tuple[str, str]] = []
    for key in wanted:
        first = key if key in starts else ranges.pop()[0]
        ranges.append((first, key))
    return ranges
