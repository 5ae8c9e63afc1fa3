"""Where Dagster keeps its runs and events: SQLite as shipped, but a batch of events is one transaction.

Dagster writes an event for each partition of each asset, planned and made, and its own SQLite storage opens and closes
two databases for each of them: a year of days took minutes, most of them waiting for the disk.
"""

from collections.abc import Sequence
from typing import Any

from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Insert


class BatchedEventLog(SqliteEventLogStorage):
    """Dagster's event log in SQLite, which writes a batch at once."""

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store the events of a batch, all of one run, as :meth:`store_event` stores each.

        Args:
            events: Events of assets and checks; Dagster batches no others.
        """
        statements = [self.prepare_insert_event(event) for event in events]
        with self.run_connection(events[0].run_id) as connection:
            for statement in statements:
                connection.execute(statement)
        with self.index_transaction() as connection:
            ids = [_insert(connection, statement) for statement in statements]
        stored = list(zip(events, ids, strict=True))
        of_assets = [(event, place) for event, place in stored if event.dagster_event_type in ASSET_EVENTS]
        if of_assets:
            self.store_asset_event_tags(*map(list, zip(*of_assets, strict=True)))
        # What is kept of an asset is its last event.
        last = {str(event.get_dagster_event().asset_key): (event, place) for event, place in of_assets}
        for event, place in last.values():
            self.store_asset_event(event, place)
        for event, place in stored:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(event, place)


def _insert(connection: Connection, statement: Insert) -> int:
    key = connection.execute(statement).inserted_primary_key
    if key is None:
        raise LookupError("SQLite gave no id for an event that it stored")
    return int(key[0])


class WorkspaceStorage(DagsterSqliteStorage):
    """Dagster's storage in the folder of a workspace; ``dagster.yaml`` names it."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = BatchedEventLog(f"{base_dir}/history/runs/")

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Any
    ) -> "WorkspaceStorage":
        """Make the storage from its block of ``dagster.yaml``."""
        return cls.from_local(inst_data=inst_data, **config_value)
