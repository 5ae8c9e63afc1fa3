"""Events in batches, and Dagster's SQLite storage, changed to write a batch in one transaction.

Dagster's own opens two databases per event and stores each event twice, which took minutes for a year of days.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import dagster as dg
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
from dagster_shared.record import copy

from assets.reports import Event, Failed, Store

_MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION.value
_INSERT = SqlEventLogStorageTable.insert().returning(
    SqlEventLogStorageTable.c.id, sort_by_parameter_order=True
)


def open_store(instance: dg.DagsterInstance, context: dg.AssetExecutionContext | None = None) -> Store:
    """Return the function that stores events in a batch, as those of a step or of no run."""
    run_id, job, step = RUNLESS_RUN_ID, RUNLESS_JOB_NAME, ""
    if context is not None:
        run_id, job, step = (
            context.run.run_id,
            context.run.job_name,
            str(context.op_execution_context.op_handle),
        )

    def wrap(event: Event) -> DagsterEvent:
        if isinstance(event, Failed):  # what is planned and has no event is shown as failed
            planned = AssetMaterializationPlannedData(event.asset_key, event.partition)
            return DagsterEvent.build_asset_materialization_planned_event(job, step, planned)
        kind, data = (
            (dg.DagsterEventType.ASSET_CHECK_EVALUATION, event)
            if isinstance(event, dg.AssetCheckEvaluation)
            else (dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(event))
        )
        return DagsterEvent(kind.value, job_name=job, step_key=step or None, event_specific_data=data)

    def store(events: Sequence[Event]) -> None:
        batch = str(uuid4())
        for place, event in enumerate(map(wrap, events), 1):
            of_batch = DagsterEventBatchMetadata(batch, place == len(events))
            instance.report_dagster_event(event, run_id, batch_metadata=of_batch)

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
        of_run = [row for row in rows if row["dagster_event_type"] != _MATERIALIZED]
        if of_run:
            with self.run_connection(events[0].run_id) as connection:
                connection.execute(SqlEventLogStorageTable.insert(), of_run)
        with self.index_transaction() as connection:
            stored = list(zip(events, connection.execute(_INSERT, rows).scalars(), strict=True))
        of_assets = [(event, place) for event, place in stored if event.dagster_event_type in ASSET_EVENTS]
        if of_assets:
            self.store_asset_event_tags(*map(list, zip(*of_assets, strict=True)))
        last = {event.get_dagster_event().asset_key: (event, place) for event, place in of_assets}
        for event, place in last.values():  # the row of an asset holds only one event
            self.store_asset_event(event, place)
        for event, place in stored:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(_plan_whole_table(event), place)


def _plan_whole_table(event: EventLogEntry) -> EventLogEntry:
    """Reduce the plan of a check from a row per day, which would never get a result, to one row."""
    planned = event.get_dagster_event()
    if planned.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED:
        return event
    whole = copy(planned.asset_check_planned_data, partitions_subset=None)
    return event._replace(dagster_event=planned._replace(event_specific_data=whole))


class WorkspaceStorage(DagsterSqliteStorage):
    """Dagster's storage in the folder of a workspace; ``dagster.yaml`` names it."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = BatchedEventLog(f"{base_dir}/history/runs/")

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Self:
        """Build the storage from its section of ``dagster.yaml``."""
        return cls.from_local(inst_data=inst_data, **config_value)
