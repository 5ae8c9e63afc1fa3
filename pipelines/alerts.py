"""Sends alerts of runs whose process was killed; every other run sends its own."""

import dagster as dg

from assets.tags import PARTITION, RANGE_END, RANGE_START
from backstory.base.errors import InputError
from backstory.operations.alerts.sending import list_hooks, send_alerts
from backstory.pipeline.run.plan import ALL_TABLES
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import partition_range

SENSOR = "alerts_of_killed_runs"
_SECONDS = 30


def make_alert_sensors(workspace: Workspace) -> list[dg.SensorDefinition]:
    """Define the sensor that sends alerts after killed runs; none if the settings name no hook.

    It is switched on from the start, and opens the workspace at each run, so that changed settings take effect.
    """
    root = workspace.root
    if not list_hooks(workspace):
        return []

    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.FAILURE,
        name=SENSOR,
        minimum_interval_seconds=_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Alerts the hooks of the setting `alerts` of runs whose process was killed.",
    )
    def send_alerts_of_killed(context: dg.RunStatusSensorContext) -> None:
        run = context.dagster_run
        if context.instance.all_logs(run.run_id, of_type={dg.DagsterEventType.STEP_FAILURE}):
            return  # its step has ended, and has sent its alerts
        opened = open_workspace(root)
        reason = context.dagster_event.message or "no reason is known"
        selected = frozenset(key.path[-1] for key in run.asset_selection or ()) & ALL_TABLES
        ended = Run(
            _list_partitions(opened, run),
            selected or ALL_TABLES,
            id=run.run_id,
            errors=[f"the run ended without a result: {reason}"],
        )
        for sentence in send_alerts(opened, ended):
            context.log.info(sentence)

    return [send_alerts_of_killed]


def _list_partitions(workspace: Workspace, run: dg.DagsterRun) -> list[str]:
    """List the partitions of a run; none if it had another grain."""
    one = run.tags.get(PARTITION, "")
    first, last = run.tags.get(RANGE_START, one), run.tags.get(RANGE_END, one)
    if not first or not last:
        return []
    try:
        return list(partition_range(first, last, workspace.settings.partitions.grain))
    except InputError:
        return []
