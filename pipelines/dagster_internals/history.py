"""Prune Dagster's history of runs. The asset pages stay complete: the last event of every partition is not deleted."""

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import dagster as dg
from dagster._core.instance import RUNLESS_RUN_ID
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage, SqlEventLogStorageTable, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, AssetEventTagsTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from sqlalchemy import ColumnElement, Select, delete, func, select

from backstory.base.errors import InputError

KEEP_DAYS: Final = 90
"""Age in days up to which history stays by default."""

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
        events: Events of assets that were deleted.
    """

    runs: int
    emptied: int
    events: int


def prune_history(instance: dg.DagsterInstance, keep_days: int, now: datetime) -> Pruned:
    """Delete the runs that ended and are older than some days, with their events, checks and logs.

    The last materialization of every partition, the last result of every check, and every run that is the last attempt
    to build something stay, however old. So no partition changes its color.

    Args:
        instance: The Dagster instance; its events must be in SQLite or in another SQL database.
        keep_days: Age in days from which runs are deleted.
        now: The present moment, with a time zone.

    Raises:
        InputError: ``keep_days`` is below 1, or the events are not in an SQL database.
    """
    storage = instance.event_log_storage
    if keep_days < 1:
        raise InputError(
            f"{keep_days} days of history is too few; give 1 or more",
            code="out_of_range",
            name="keep_days",
            value=keep_days,
        )
    if not isinstance(storage, SqlEventLogStorage):
        raise InputError(f"the history is in {type(storage).__name__}, which only Dagster itself can prune")
    before = now - timedelta(days=keep_days)
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


def make_pruning(keep_days: int = KEEP_DAYS) -> dg.ScheduleDefinition:
    """Define the schedule, off until it is switched on, that prunes the history every night.

    Args:
        keep_days: Age in days from which runs are deleted; the launchpad can change it for one run.
    """

    @dg.op(config_schema={"keep_days": dg.Field(int, default_value=keep_days)})
    def delete_old_runs(context: dg.OpExecutionContext) -> None:
        pruned = prune_history(context.instance, context.op_config["keep_days"], datetime.now(UTC))
        context.log.info(describe_pruned(pruned))

    @dg.job(
        name="prune_history",
        description="Deletes old runs from Dagster's history; tables and the last event of each partition stay.",
        executor_def=dg.in_process_executor,
    )
    def prune() -> None:
        delete_old_runs()

    return dg.ScheduleDefinition(
        name="prune_history_nightly",
        job=prune,
        cron_schedule="30 4 * * *",
        description=f"Deletes runs that are older than {keep_days} days.",
    )


def describe_pruned(pruned: Pruned) -> str:
    """Describe the result of pruning in a sentence."""
    return (
        f"{pruned.runs} runs and {pruned.events} events deleted; {pruned.emptied} more runs lost only their "
        "log, since the assets show their results"
    )


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
