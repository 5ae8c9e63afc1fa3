"""Dagster's SQLite storage, changed to write a batch of events in one transaction and to store each event once.

Dagster's own SQLite storage opens and closes two databases per event, which took minutes for a year of days. It makes
an engine for each connection, which compiles every statement again: a third of the time of a small run. It stores every
event of an asset twice: in the database of the run, and in the index that the asset pages read. It also plans a run
with one event per partition and asset, although one event can name all partitions of an asset.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqlEventLogStorageTable, SqliteEventLogStorage
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData, deserialize_value
from sqlalchemy import Connection, Engine, NullPool, create_engine, select

Row = dict[str, Any]
"""A row of the table of events, by column."""

_ENDED_WELL = dg.DagsterRunStatus.SUCCESS
_INSERT = SqlEventLogStorageTable.insert().returning(
    SqlEventLogStorageTable.c.id, sort_by_parameter_order=True
)
_EMPTY: tuple[object, ...] = (None, [], {})


@lru_cache(maxsize=8)  # runs, schedules, the index, and the logs of the last few runs
def _open_engine(address: str) -> Engine:
    """Give the engine of a database. It keeps the statements that it has compiled, and no connection."""
    return create_engine(address, poolclass=NullPool, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})


class _Runs(SqliteRunStorage):
    """Dagster's SQLite table of runs, with one engine for all connections."""

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _open_engine(self._conn_string).begin() as connection:
            yield connection


class BatchedEventLog(SqliteEventLogStorage):
    """Dagster's SQLite event log, with batched writes and one copy of each partition's event."""

    @property
    def supports_partition_subset_in_asset_materialization_planned_events(self) -> bool:
        """Whether one event may plan many partitions; if so, Dagster writes one plan per asset of a run."""
        return True

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        """Connect as Dagster does, which makes an engine for each connection."""
        with self._db_lock:
            engine = _open_engine(self.conn_string_for_shard(shard))
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store the events of a batch, all of one run.

        Materialization events are stored only in the index, which the asset pages read. All other events are stored
        as :meth:`store_event` stores them.

        Args:
            events: Events of assets and checks; Dagster batches no others.
        """
        rows = [_shorten(event, self._event_to_row(event)) for event in events]
        of_run = [
            row
            for row in rows
            if row["dagster_event_type"] != dg.DagsterEventType.ASSET_MATERIALIZATION.value
        ]
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
        last = {str(event.get_dagster_event().asset_key): (event, place) for event, place in of_assets}
        for event, place in last.values():
            self.store_asset_event(event, place)
        for event, place in stored:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(_plan_whole_table(event), place)

    def get_latest_asset_partition_materialization_attempts_without_materializations(
        self, asset_key: dg.AssetKey, after_storage_id: int | None = None
    ) -> Mapping[str, tuple[str, int]]:
        """Return the partitions that runs planned and did not materialize, including plans for many partitions.

        Args:
            asset_key: The asset.
            after_storage_id: Only events after this one count.

        Returns:
            Partition key to the latest such run and the storage id of the event that planned it.
        """
        attempts = dict(
            super().get_latest_asset_partition_materialization_attempts_without_materializations(
                asset_key, after_storage_id
            )
        )
        for place, run_id, event in self._read_plans(asset_key, after_storage_id):
            planned = event.get_dagster_event().asset_materialization_planned_data.partitions_subset
            if planned is None:
                continue
            made = self.get_latest_storage_id_by_partition(
                asset_key, dg.DagsterEventType.ASSET_MATERIALIZATION, after_cursor=place
            )
            for key in planned.get_partition_keys():
                if key not in made and attempts.get(key, ("", -1))[1] < place:
                    attempts[key] = (run_id, place)
        return attempts

    def _read_plans(self, asset_key: dg.AssetKey, after: int | None) -> list[tuple[int, str, EventLogEntry]]:
        """Read the plans of runs that did not succeed; a plan of a successful run leaves no partition missing."""
        table = SqlEventLogStorageTable.c
        query = select(table.id, table.run_id).where(
            table.asset_key == asset_key.to_string(),
            table.dagster_event_type == dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED.value,
            table.partition.is_(None),
            table.id > (after or 0),
        )
        with self.index_connection() as connection:
            planned = [(int(place), str(run_id)) for place, run_id in connection.execute(query)]
            unfinished = self._list_unfinished({run_id for _, run_id in planned})
            return [
                (place, run_id, deserialize_value(text, EventLogEntry))
                for place, run_id in planned
                if run_id in unfinished
                for text in connection.execute(select(table.event).where(table.id == place)).scalars()
            ]

    def _list_unfinished(self, run_ids: set[str]) -> set[str]:
        others = [status for status in dg.DagsterRunStatus if status is not _ENDED_WELL]
        runs = self._instance.get_runs(dg.RunsFilter(statuses=others)) if run_ids else []
        return {run.run_id for run in runs} & run_ids


def _plan_whole_table(event: EventLogEntry) -> EventLogEntry:
    """Reduce the plan of a check to one row without a partition.

    Dagster stores a planned row per partition of the run. The checks here report on whole tables, so these rows would
    never get a result.
    """
    planned = event.get_dagster_event()
    if planned.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED:
        return event
    of_check = planned.asset_check_planned_data
    once = AssetCheckEvaluationPlanned(asset_key=of_check.asset_key, check_name=of_check.check_name)
    return event._replace(dagster_event=planned._replace(event_specific_data=once))


def _shorten(event: EventLogEntry, row: Row) -> Row:
    """Leave the empty fields out of a stored materialization; Dagster fills them in when it reads the event."""
    if event.dagster_event_type != dg.DagsterEventType.ASSET_MATERIALIZATION:
        return row
    fields = json.loads(row["event"])
    fields["dagster_event"] = _without_empty(fields["dagster_event"])
    return {**row, "event": json.dumps(fields, separators=(",", ":"))}


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_empty(inner) for name, inner in value.items() if inner not in _EMPTY}
    return [_without_empty(inner) for inner in value] if isinstance(value, list) else value


class WorkspaceStorage(DagsterSqliteStorage):
    """Dagster's storage in the folder of a workspace; ``dagster.yaml`` names it."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._run_storage = _Runs(create_db_conn_string(f"{base_dir}/history", "runs"))
        self._event_log_storage = BatchedEventLog(f"{base_dir}/history/runs/")

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Any
    ) -> "WorkspaceStorage":
        """Build the storage from its section of ``dagster.yaml``."""
        return cls.from_local(inst_data=inst_data, **config_value)
