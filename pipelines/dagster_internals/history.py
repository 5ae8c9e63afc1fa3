"""Deletes events, checks and logs of old runs in Dagster's SQL storage. The last event of every partition stays."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from dagster._core.instance import RUNLESS_RUN_ID
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage, SqlEventLogStorageTable, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, AssetEventTagsTable
from sqlalchemy import delete, func, select

from backstory.base.errors import InputError

_EVENTS, _CHECKS, _TAGS = SqlEventLogStorageTable.c, AssetCheckExecutionsTable.c, AssetEventTagsTable.c
# The last event of each of these kinds is what Dagster shows of an asset or partition today.
_SHOWN = [
    kind.value
    for kind in (
        dg.DagsterEventType.ASSET_MATERIALIZATION,
        dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
        dg.DagsterEventType.ASSET_OBSERVATION,
        dg.DagsterEventType.FRESHNESS_STATE_CHANGE,
    )
]


def delete_history(instance: dg.DagsterInstance, before: datetime) -> int:
    """Delete the runs that ended before a moment, with their events, checks and logs, and return how many these are.

    What the pages of assets show stays: runs to which they refer lose only their log.

    Raises:
        InputError: The events are not in an SQL database.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        raise InputError(
            f"the history is in {type(storage).__name__}, which only Dagster itself can prune; prune it there"
        )
    runs = instance.get_runs(dg.RunsFilter(statuses=FINISHED_STATUSES, created_before=before))
    latest = {record.asset_entry.last_run_id for record in storage.get_asset_records()}
    old = [run.run_id for run in runs if run.run_id not in latest]
    shown = _delete_rows(storage, old, before.astimezone(UTC).replace(tzinfo=None))
    for run_id in old:
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        if isinstance(storage, SqliteEventLogStorage):
            database = Path(storage.path_for_shard(run_id))
            for suffix in ("", "-wal", "-shm"):
                database.with_name(database.name + suffix).unlink(missing_ok=True)
        if run_id not in shown:
            instance.run_storage.delete_run(run_id)
    return len(old)


def _delete_rows(storage: SqlEventLogStorage, runs: Sequence[str], before: datetime) -> set[str]:
    """Delete what no page of an asset shows, and return the runs to which the rest refers."""
    last_event = (
        select(func.max(_EVENTS.id))
        .where(_EVENTS.dagster_event_type.in_(_SHOWN), _EVENTS.asset_key.is_not(None))
        .group_by(_EVENTS.dagster_event_type, _EVENTS.asset_key, _EVENTS.partition)
    )
    last_check = select(func.max(_CHECKS.id)).group_by(
        _CHECKS.asset_key, _CHECKS.check_name, _CHECKS.partition
    )
    of_no_run = (_EVENTS.run_id == RUNLESS_RUN_ID) & (_EVENTS.timestamp < before)
    with storage.index_connection() as connection:
        for statement in (
            delete(SqlEventLogStorageTable).where(
                _EVENTS.run_id.in_(runs) | of_no_run, _EVENTS.id.not_in(last_event)
            ),
            delete(AssetEventTagsTable).where(_TAGS.event_id.not_in(select(_EVENTS.id))),
            delete(AssetCheckExecutionsTable).where(_CHECKS.run_id.in_(runs), _CHECKS.id.not_in(last_check)),
        ):
            connection.execute(statement)
        return {
            str(run_id)
            for column in (_EVENTS.run_id, _CHECKS.run_id)
            for run_id in connection.execute(select(column).distinct()).scalars()
        }
