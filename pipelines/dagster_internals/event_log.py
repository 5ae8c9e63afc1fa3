"""Events in batches, and Dagster's SQLite storage, changed to write a batch in one transaction.

Dagster's own opens two databases per event and stores each event twice, which took minutes for a year of days.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import (
    ASSET_CHECK_EVENTS,
    ASSET_EVENTS,
    AssetMaterializationPlannedData,
    DagsterEvent,
    DagsterEventBatchMetadata,
    StepMaterializationData,
)
from dagster._core.events.log import EventLogEntry
from dagster._core.instance import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.storage.event_log import SqlEventLogStorageTable, SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData

from assets.reports import Event, Failed, Store

_INSERT = SqlEventLogStorageTable.insert().returning(
    SqlEventLogStorageTable.c.id, sort_by_parameter_order=True
)


def open_store(
    instance: dg.DagsterInstance,
    run_id: str = RUNLESS_RUN_ID,
    job: str = RUNLESS_JOB_NAME,
    step: str | None = None,
) -> Store:
    """Return the function that stores events in a batch, as those of a step or of no run."""

    def wrap(event: Event) -> DagsterEvent:
        if isinstance(event, Failed):  # a partition that was planned and has no event is shown as failed
            planned = AssetMaterializationPlannedData(event.asset_key, event.partition)
            return DagsterEvent.build_asset_materialization_planned_event(job, step or "", planned)
        kind, data = (
            (dg.DagsterEventType.ASSET_CHECK_EVALUATION, event)
            if isinstance(event, dg.AssetCheckEvaluation)
            else (dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(event))
        )
        return DagsterEvent(kind.value, job_name=job, step_key=step, event_specific_data=data)

    def store(events: Sequence[Event]) -> None:
        batch = str(uuid4())
        for place, event in enumerate(events, 1):
            of_batch = DagsterEventBatchMetadata(batch, place == len(events))
            instance.report_dagster_event(wrap(event), run_id, batch_metadata=of_batch)

    return store


class BatchedEventLog(SqliteEventLogStorage):
    """Dagster's SQLite event log, with batched writes and one copy of each partition's event."""

    @property
    def supports_partition_subset_in_asset_materialization_planned_events(self) -> bool:
        """Whether one event may plan many partitions; if so, Dagster writes one plan per asset of a run."""
        return True

    def delete_events(self, run_id: str) -> None:
        """Delete the events of a run, and its database."""
        super().delete_events(run_id)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path_for_shard(run_id)}{suffix}").unlink(missing_ok=True)

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events of assets and checks, all of one run; materializations only in the index."""
        rows = [self._event_to_row(event) for event in events]
        materialized = dg.DagsterEventType.ASSET_MATERIALIZATION.value
        of_run = [row for row in rows if row["dagster_event_type"] != materialized]
        if of_run:
            with self.run_connection(events[0].run_id) as connection:
                connection.execute(SqlEventLogStorageTable.insert(), of_run)
        with self.index_transaction() as connection:
            ids = list(connection.execute(_INSERT, rows).scalars())
        stored = list(zip(events, ids, strict=True))
        of_assets = [(event, place) for event, place in stored if event.dagster_event_type in ASSET_EVENTS]
        if of_assets:
            self.store_asset_event_tags(*map(list, zip(*of_assets, strict=True)))
        # The row of an asset holds only its last event.
        for event, place in {
            event.get_dagster_event().asset_key: (event, place) for event, place in of_assets
        }.values():
            self.store_asset_event(event, place)
        for event, place in stored:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(_plan_whole_table(event), place)


def _plan_whole_table(event: EventLogEntry) -> EventLogEntry:
    """Reduce the plan of a check from a row per day, which would never get a result, to one row."""
    planned = event.get_dagster_event()
    if planned.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED:
        return event
    check = planned.asset_check_planned_data
    once = AssetCheckEvaluationPlanned(asset_key=check.asset_key, check_name=check.check_name)
    return event._replace(dagster_event=planned._replace(event_specific_data=once))


class WorkspaceStorage(DagsterSqliteStorage):
    """Dagster's storage in the folder of a workspace; ``dagster.yaml`` names it."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = BatchedEventLog(f"{base_dir}/history/runs/")

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Any
    ) -> "WorkspaceStorage":
        """Build the storage from its section of ``dagster.yaml``."""
        return cls.from_local(inst_data=inst_data, **config_value)
