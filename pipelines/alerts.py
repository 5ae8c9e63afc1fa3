"""Sends alerts after runs that the daemon starts: from the UI, by a schedule, a sensor or a backfill.

``backstory dagster materialize`` sends its own, since Dagster shows runs of that kind to no sensor. A run whose
process was killed sends none; its alert is sent when Dagster marks it as failed.
"""

from collections.abc import Sequence
from typing import Final

import dagster as dg

from assets.tags import PARTITION
from backstory.base.errors import ContractError
from backstory.operations.alerts.dispatch import list_hooks, send_alerts_of_run
from backstory.operations.alerts.ended_run import EndedRun, UnreadFile, list_files
from backstory.pipeline.checks.checks import CHECKS, Check
from backstory.pipeline.incremental.report import UNREAD_STATUSES
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import partition_range
from pipelines.failures import describe_step_failures
from pipelines.run_plan import RANGE_END, RANGE_START

_SECONDS: Final = 30
_STATUSES: Final = {
    "alerts_of_failed_runs": dg.DagsterRunStatus.FAILURE,
    "alerts_of_finished_runs": dg.DagsterRunStatus.SUCCESS,
}
_EVENTS: Final = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.ASSET_CHECK_EVALUATION}


def make_alert_sensors(workspace: Workspace) -> list[dg.SensorDefinition]:
    """Define the sensors that send alerts after failed and finished runs; none if the settings name no hook.

    They are switched on from the start.

    Args:
        workspace: The workspace; the sensors open it at each run, so that changed settings take effect.
    """
    root = workspace.root

    def send_alerts(context: dg.RunStatusSensorContext) -> None:
        opened = open_workspace(root)
        for sentence in send_alerts_of_run(opened, describe_run(opened, context)):
            context.log.info(sentence)

    if not list_hooks(workspace):
        return []
    return [
        dg.run_status_sensor(
            run_status=status,
            name=name,
            minimum_interval_seconds=_SECONDS,
            default_status=dg.DefaultSensorStatus.RUNNING,
            description="Alerts the hooks of the setting `alerts` of new problems, and when all problems are gone.",
        )(send_alerts)
        for name, status in _STATUSES.items()
    ]


def describe_run(workspace: Workspace, context: dg.RunStatusSensorContext) -> EndedRun:
    """Describe the end of a run from its events.

    Args:
        workspace: An open workspace.
        context: The context of a sensor, with the run and the event of its end.
    """
    run, instance = context.dagster_run, context.instance
    events = [
        entry.dagster_event for entry in instance.all_logs(run.run_id, of_type=_EVENTS) if entry.dagster_event
    ]
    record = instance.get_run_record_by_id(run.run_id)
    is_timed = record is not None and record.start_time is not None and record.end_time is not None
    tables = _list_tables(run)
    return EndedRun(
        run_id=run.run_id,
        partitions=_list_partitions(workspace, run),
        tables=tables,
        failures=_list_failures(context, describe_step_failures(events)),
        checks=dict(found for event in events for found in _read_result(event)),
        files=_list_unread(workspace) if {"messages", "documents"} & set(tables) else None,
        seconds=record.end_time - record.start_time if is_timed else None,  # type: ignore[union-attr, operator]
    )


def _list_failures(context: dg.RunStatusSensorContext, of_steps: list[str]) -> list[str]:
    """Return why the run failed; a run whose process was killed has no failed step, only an event of its own."""
    if context.dagster_run.status is not dg.DagsterRunStatus.FAILURE:
        return []
    return of_steps or [
        f"the run ended without a result: {context.dagster_event.message or 'no reason is known'}"
    ]


def _list_tables(run: dg.DagsterRun) -> list[str]:
    selected = {key.path[-1] for key in run.asset_selection or ()}
    return [stage.table for stage in STAGES if not selected or stage.table in selected]


def _list_partitions(workspace: Workspace, run: dg.DagsterRun) -> Sequence[str]:
    one = run.tags.get(PARTITION, "")
    first, last = run.tags.get(RANGE_START, one), run.tags.get(RANGE_END, one)
    return partition_range(first, last, workspace.settings.partitions.grain) if first and last else ()


def _read_result(event: dg.DagsterEvent) -> list[tuple[Check, int]]:
    if event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
        return []
    found = event.asset_check_evaluation_data
    counted = found.metadata.get("failing_rows")
    if counted is None:  # the check did not run, since its table was not made
        return []
    name = (found.asset_key.path[-1], found.check_name)
    return [(check, int(str(counted.value))) for check in CHECKS if (check.table, check.name) == name]


def _list_unread(workspace: Workspace) -> list[UnreadFile] | None:
    try:
        sources = workspace.tables.read("sources")
    except ContractError:
        return None
    return list_files(sources.filter(sources["status"].is_in(UNREAD_STATUSES)))
