"""Report days to Dagster that were built without it, as by ``backstory run``; it would show them as missing."""

from typing import Final

import dagster as dg

from assets.materialization_events import RunlessEvents, report_built
from backstory.interfaces.dagster_specs.asset_specs import specify_assets
from backstory.pipeline.run.pending import hash_state
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.turns import running_if_free
from pipelines.dagster_internals.batched_events import BatchedEvents
from pipelines.dagster_internals.public_api import uses_public_api

_SECONDS: Final = 60


def make_report_sensor(workspace: Workspace) -> dg.SensorDefinition:
    """Define the sensor that reports days built without Dagster. It is on from the start, since it starts no runs.

    Args:
        workspace: The workspace; the sensor opens it at each tick.
    """
    root = workspace.root

    @dg.sensor(
        name="made_days",
        minimum_interval_seconds=_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports days built without Dagster, as by `backstory run`; otherwise Dagster would show them as "
        "missing. It starts no runs.",
    )
    def made_days(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        opened = open_workspace(root)
        if not opened.tables_dir.is_dir():
            return dg.SkipReason("Nothing is built yet.")
        with running_if_free(opened.catalog.state, "the report of made days to Dagster") as is_free:
            if not is_free:
                return dg.SkipReason(
                    "A run of this workspace is under way; the sensor reports its results afterwards."
                )
            state = hash_state(opened)
            if context.cursor == state:
                return dg.SkipReason("Dagster knows all built partitions.")
            events = RunlessEvents if uses_public_api() else BatchedEvents
            count = report_built(events(context.instance), opened, specify_assets(opened))
        return dg.SensorResult(skip_reason=f"Reported {count} partitions.", cursor=state)

    return made_days
