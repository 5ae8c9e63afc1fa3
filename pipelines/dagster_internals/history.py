"""Deletes events, checks and logs of old runs in Dagster's SQL storage. The last event of every partition stays."""

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import dagster as dg
from dagster._core.instance import RUNLESS_RUN_ID
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage, SqlEventLogStorageTable, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, AssetEventTagsTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from sqlalchemy import ColumnElement, Select, delete, func, select

from backstory.base.errors import InputError
from pipelines.dagster_internals.public_api import PUBLIC_VARIABLE

_AT_ONCE = 500
_SECONDS = 60
"""Wait for other writers of the store before its file is made smaller."""
_EVENTS, _CHECKS, _TAGS = SqlEventLogStorageTable.c, AssetCheckExecutionsTable.c, AssetEventTagsTable.c
# The last event of each of these kinds is what Dagster shows of an asset or partition today.
_SHOWN = [
    kind.value
    for kind in (
        dg.DagsterEventType.ASSET_MATERIALIZATION,
        dg.DagsterEventType.ASSET_OBSERVATION,
        dg.DagsterEventType.FRESHNESS_STATE_CHANGE,
    )
]


class Pruned(NamedTuple):
    """The result of pruning.

    Attributes:
        runs: Number of runs deleted with all their events.
        emptied: Number of runs that lost only their log. The run itself stays, since the asset pages refer to it.
        events: Events of assets that were deleted; 0 where they were not counted.
    """

    runs: int
    emptied: int
    events: int


def delete_history(instance: dg.DagsterInstance, before: datetime) -> Pruned:
    """Delete the runs that ended before a moment, with their events, checks and logs.

    Args:
        instance: The Dagster instance; its events must be in SQLite or in another SQL database.
        before: A moment with a time zone.

    Raises:
        InputError: The events are not in an SQL database.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        raise InputError(
            f"the history is in {type(storage).__name__}, which only Dagster itself can prune; set "
            f"{PUBLIC_VARIABLE}=1 to delete whole runs by Dagster's public API"
        )
    runs = instance.get_runs(dg.RunsFilter(statuses=FINISHED_STATUSES, created_before=before))
    latest, attempts = _find_last_attempts(storage)
    # With Postgres, a run that ended well has attempts, too: Dagster plans days even for tables without partitions.
    old = [
        run.run_id
        for run in runs
        if run.run_id not in latest and (run.is_success or run.run_id not in attempts)
    ]
    events = _delete_events(
        storage, (_EVENTS.run_id == RUNLESS_RUN_ID) & (_EVENTS.timestamp < _naive(before))
    )
    emptied = 0
    for first in range(0, len(old), _AT_ONCE):
        batch = old[first : first + _AT_ONCE]
        events += _delete_events(storage, _EVENTS.run_id.in_(batch))
        _delete_checks(storage, batch)
        shown = _find_shown(storage, batch)
        emptied += len(shown)
        for run_id in batch:
            _delete_log(instance, storage, run_id)
            if run_id not in shown:
                instance.run_storage.delete_run(run_id)
    if events and isinstance(storage, SqliteEventLogStorage):
        _give_space_back(storage)
    return Pruned(len(old) - emptied, emptied, events)


def _naive(moment: datetime) -> datetime:
    """Return the moment as Dagster stores it, in UTC without a zone."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def _find_last_attempts(storage: SqlEventLogStorage) -> tuple[set[str], set[str]]:
    """Return the last run of each asset, and the runs that planned a partition which no later run has built."""
    latest, attempts = set(), set()
    for record in storage.get_asset_records():
        entry = record.asset_entry
        unfinished = storage.get_latest_asset_partition_materialization_attempts_without_materializations(
            entry.asset_key
        )
        latest.add(entry.last_run_id or "")
        attempts |= {run_id for run_id, _ in unfinished.values()}
    return latest, attempts


def _delete_events(storage: SqlEventLogStorage, of: ColumnElement[bool]) -> int:
    last = (
        select(func.max(_EVENTS.id))
        .where(_EVENTS.dagster_event_type.in_(_SHOWN), _EVENTS.asset_key.is_not(None))
        .group_by(_EVENTS.dagster_event_type, _EVENTS.asset_key, _EVENTS.partition)
    )
    of_assets = select(_EVENTS.id)
    with storage.index_connection() as connection:
        deleted = connection.execute(
            delete(SqlEventLogStorageTable).where(of, _EVENTS.id.not_in(last))
        ).rowcount
        connection.execute(delete(AssetEventTagsTable).where(_TAGS.event_id.not_in(of_assets)))
    return int(deleted)


def _give_space_back(storage: SqliteEventLogStorage) -> None:
    with closing(sqlite3.connect(storage.path_for_shard(INDEX_SHARD_NAME), timeout=_SECONDS)) as index:
        index.execute("VACUUM")


def _delete_checks(storage: SqlEventLogStorage, runs: Sequence[str]) -> None:
    last = select(func.max(_CHECKS.id)).group_by(_CHECKS.asset_key, _CHECKS.check_name, _CHECKS.partition)
    with storage.index_connection() as connection:
        connection.execute(
            delete(AssetCheckExecutionsTable).where(_CHECKS.run_id.in_(runs), _CHECKS.id.not_in(last))
        )


def _find_shown(storage: SqlEventLogStorage, runs: Collection[str]) -> set[str]:
    """Return the runs to which an event or the result of a check still refers."""
    queries: list[Select[tuple[str]]] = [
        select(column).where(column.in_(runs)).distinct() for column in (_EVENTS.run_id, _CHECKS.run_id)
    ]
    with storage.index_connection() as connection:
        return {str(run_id) for query in queries for run_id in connection.execute(query).scalars()}


def _delete_log(instance: dg.DagsterInstance, storage: SqlEventLogStorage, run_id: str) -> None:
    """Delete the output of a run's process, and the run's own database if the store has one per run."""
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    if isinstance(storage, SqliteEventLogStorage):
        database = Path(storage.path_for_shard(run_id))
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)
