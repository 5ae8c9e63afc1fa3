"""Events of assets that Dagster stores in batches.

The public API stores one event at a time. For a year of days that took minutes (``docs/decisions/0007``).
"""

import select
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import dagster as dg
import sqlalchemy as sa
from dagster._core.events import DagsterEvent, DagsterEventBatchMetadata, StepMaterializationData
from dagster._core.instance import RUNLESS_JOB_NAME, RUNLESS_RUN_ID

from assets.materialization_events import Event

_MOST_CONNECTIONS = 20
_SECONDS_KEPT = 3600


def keep_connections(instance: dg.DagsterInstance) -> None:
    """Let this process keep its connections to tables of Dagster in Postgres, which opens two for each event else."""
    instance.optimize_for_webserver(
        statement_timeout=0, pool_recycle=_SECONDS_KEPT, max_overflow=_MOST_CONNECTIONS
    )
    if not sa.event.contains(sa.pool.QueuePool, "checkout", _replace_closed):
        sa.event.listen(sa.pool.QueuePool, "checkout", _replace_closed)


def _replace_closed(connection: Any, *_: object) -> None:
    """Have a connection that its server has closed, as when it started again, replaced before it is used."""
    incoming = select.poll()
    incoming.register(connection.fileno(), select.POLLIN)
    if incoming.poll(0):
        raise sa.exc.DisconnectionError


@dataclass(frozen=True)
class BatchedEvents:
    """Stores events of the step of a run, or by default of no run; see :class:`assets.materialization_events.Events`.

    Attributes:
        instance: The instance that stores the events.
        batch: Id of the run.
        job_name: Name of its job.
        step_key: Key of the step.
        run_tags: Tags of the run.
    """

    instance: dg.DagsterInstance
    batch: str = RUNLESS_RUN_ID
    job_name: str = RUNLESS_JOB_NAME
    step_key: str | None = None
    run_tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_step(cls, context: dg.AssetExecutionContext) -> Self:
        """Name the step that is executing."""
        keep_connections(context.instance)
        run, step = context.run, str(context.op_execution_context.op_handle)
        return cls(context.instance, run.run_id, run.job_name, step, run.tags)

    def report(self, event: Event) -> None:
        """Store an event at once."""
        self._report(event, None)

    def report_many(self, events: Sequence[Event], batch: str) -> None:
        """Store events in one transaction.

        Args:
            events: The events.
            batch: Name of the batch, different from all others.
        """
        for place, event in enumerate(events, 1):
            self._report(event, DagsterEventBatchMetadata(batch, place == len(events)))

    def _report(self, event: Event, batch: DagsterEventBatchMetadata | None) -> None:
        kind, data = (
            (dg.DagsterEventType.ASSET_CHECK_EVALUATION, event)
            if isinstance(event, dg.AssetCheckEvaluation)
            else (dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(event))
        )
        stored = DagsterEvent(
            kind.value, job_name=self.job_name, step_key=self.step_key, event_specific_data=data
        )
        self.instance.report_dagster_event(stored, self.batch, batch_metadata=batch)
