"""Starts runs after changes and every night, reports what was built without Dagster, and alerts of killed runs."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import dagster as dg
from pydantic import BaseModel

from assets import tags
from assets.reports import Reporter
from assets.tables import name_workspace
from backstory.base.errors import BackstoryError, InputError
from backstory.base.ids import digest
from backstory.ingest.chats.export import ExportFile
from backstory.ingest.chats.export_files import find_exports
from backstory.ingest.sources.listing import SYNC_SECONDS, find_next_sync
from backstory.interfaces.dagster_specs.asset_specs import asset_key, partitions_of, specify_assets
from backstory.operations.alerts import list_hooks, send_alerts
from backstory.pipeline.chats.exports_reading import fingerprint_messages
from backstory.pipeline.run.plan import ALL_TABLES, CORPUS, fingerprint_documents, hash_state, is_fresh
from backstory.pipeline.run.run import Run
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import partition_range
from backstory.storage.turns import is_running, running_if_free
from pipelines.dagster_internals.event_log import open_store

JOB: Final = "materialize_everything"

UNFINISHED: Final = [
    dg.DagsterRunStatus(status)
    for status in ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING", "SUSPENDED")
]
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_SECONDS = 60
_CRONS = {"hour": "10 * * * *", "day": "0 3 * * *", "week": "0 3 * * 1", "month": "0 3 1 * *"}


class _Seen(BaseModel):
    """The cursor of the sensor: hashes of the inputs and of the tables, and what was requested when."""

    inputs: str = ""
    state: str = ""
    requested: bool = False  # of a run that had not ended when the sensor looked last
    synced: float = 0  # when a run was last requested because sources elsewhere were due


def make_sensor(workspace: Workspace, clock: Callable[[], float] = time.time) -> dg.SensorDefinition:
    """Define the sensor that requests a run over all partitions after a change, and reports what others built.

    A run skips what is unchanged. After a run that failed, was stopped or was terminated, the next one is requested
    when the inputs have changed; otherwise a day that cannot be built would be tried every minute.
    """
    root = workspace.root

    @dg.sensor(
        name="changed_files",
        job_name=JOB,
        minimum_interval_seconds=_SECONDS,
        description="Asks for a run over all partitions that have ended after a change: messages or documents were "
        "added, edited or removed, a setting was changed, a file of a table was damaged. Files are compared by their "
        "content. `partitions.after_posts` names the partitions that are searched again after changed documents. "
        "Reports what was built without Dagster.",
    )
    def changed_files(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        opened, requests = open_workspace(root), []
        before = _Seen.model_validate_json(context.cursor) if context.cursor else _Seen()
        with _alerting(opened):
            exports, keys = plan_partitions(opened)
            read = [fingerprint_messages(opened, exports), fingerprint_documents(opened)]
            inputs = digest([*read, opened.settings.model_dump_json(), *keys[-1:]], length=16)
            now = _Seen(inputs=inputs, state=hash_state(opened), synced=before.synced)
            is_under_way = _is_under_way(context.instance, opened)
            if is_under_way or (now.state != before.state and report_made(opened, context.instance) is None):
                return dg.SkipReason("A run is under way.")
            is_known = inputs == before.inputs and (before.requested or now.state == before.state)
            next_sync = find_next_sync(opened)
            if next_sync is not None and max(next_sync, before.synced + SYNC_SECONDS) <= clock():
                now.synced, now.inputs = clock(), before.inputs
                requests = [_request(opened, [])]
            elif not (is_known or _is_up_to_date(opened, keys)):
                now.requested = True
                requests = [_request(opened, keys)]
        return dg.SensorResult(
            run_requests=requests or None,
            skip_reason=None if requests else "Nothing has changed.",
            cursor=now.model_dump_json(),
        )

    return changed_files


def make_schedule(workspace: Workspace) -> dg.ScheduleDefinition:
    """Define the schedule that requests a run over all partitions that have ended, also if the last one failed."""
    settings, root = workspace.settings, workspace.root

    @dg.schedule(
        name="materialize_recent",
        job_name=JOB,
        cron_schedule=_CRONS[settings.partitions.grain],
        execution_timezone=settings.conversations.timezone,
        description="Every partition up to the one that has ended, also if its last run failed.",
    )
    def materialize_recent(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        opened = open_workspace(root)
        with _alerting(opened):
            _, keys = plan_partitions(opened)
        return _request(opened, keys, context.scheduled_execution_time.isoformat())

    return materialize_recent


def report_made(workspace: Workspace, instance: dg.DagsterInstance) -> int | None:
    """Report partitions that were built without Dagster, and return their number; None if a run is under way."""
    if not workspace.tables_dir.is_dir():
        return 0
    with running_if_free(workspace.catalog.state, "the report of made days to Dagster") as is_free:
        if not is_free:
            return None
        return Reporter(workspace, instance, open_store(instance)).report_built(specify_assets(workspace))


def prune_runs(workspace: Workspace, instance: dg.DagsterInstance, before: datetime) -> int:
    """Delete the runs that were created before a moment and have ended, and return their number.

    Partitions of which no event is left are reported again, by the next tick of the sensor if a run is under way.
    """
    old = instance.get_runs(dg.RunsFilter(statuses=_ENDED, created_before=before))
    for run in old:
        instance.delete_run(run.run_id)
        instance.compute_log_manager.delete_logs(prefix=[run.run_id])
    report_made(workspace, instance)
    return len(old)


def make_alert_sensors(workspace: Workspace) -> list[dg.SensorDefinition]:
    """Define the sensor that alerts of killed runs if there is a hook; every other run sends its own alerts."""
    if not list_hooks(workspace):
        return []
    root = workspace.root

    @dg.run_failure_sensor(
        name="alerts_of_killed_runs",
        minimum_interval_seconds=_SECONDS // 2,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Alerts the hooks of the setting `alerts` of runs whose process was killed.",
    )
    def send_alerts_of_killed(context: dg.RunFailureSensorContext) -> None:
        if context.get_step_failure_events():
            return  # its step has ended, and has sent its alerts
        opened, run = open_workspace(root), context.dagster_run
        reason = context.failure_event.message or "no reason is known"
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


def plan_partitions(workspace: Workspace) -> tuple[Sequence[ExportFile], list[str]]:
    """List the chat exports, and the partitions from the first message to the last that Dagster offers and have ended.

    An empty folder of chats, as `backstory init` makes it, has none.
    """
    exports = find_exports(workspace.chats_dir) if workspace.chats_dir.is_dir() else ()
    has_messages = exports or workspace.tables.keys("messages")
    found = find_partitions(workspace, exports) if has_messages else []
    definition = partitions_of(workspace)
    first, last = definition.get_first_partition_key(), definition.get_last_partition_key()
    return exports, [key for key in found if first and last and first <= key <= last]


@contextmanager
def _alerting(workspace: Workspace) -> Iterator[None]:
    """Alert of an error that keeps a run from being requested."""
    try:
        yield
    except BackstoryError as error:
        send_alerts(workspace, Run((), frozenset()), error)
        raise


def _request(workspace: Workspace, keys: Sequence[str], run_key: str | None = None) -> dg.RunRequest:
    """Request a run over partitions; without any, over the documents and their index alone."""
    own = {tags.AUTOMATIC: name_workspace(workspace)}
    if keys:
        return dg.RunRequest(run_key, tags=own | tags.tag_range(keys[0], keys[-1]))
    documents = [asset_key(workspace, stage.table) for stage in CORPUS]
    return dg.RunRequest(run_key, tags=own, asset_selection=documents)


def _is_under_way(instance: dg.DagsterInstance, workspace: Workspace) -> bool:
    """Return whether a run of the workspace is executing, or a requested one is in the queue."""
    requested = dg.RunsFilter(statuses=UNFINISHED, tags={tags.AUTOMATIC: name_workspace(workspace)})
    return is_running(workspace.catalog.state) or bool(instance.get_runs(requested, limit=1))


def _is_up_to_date(workspace: Workspace, keys: Sequence[str]) -> bool:
    """Return whether a run over partitions, or over the documents alone, would make nothing."""
    if keys:
        return is_fresh(workspace, keys)
    return not any(stage.find_stale(workspace, []) for stage in CORPUS)


def _list_partitions(workspace: Workspace, run: dg.DagsterRun) -> list[str]:
    """List the partitions of a run; none if it had another grain."""
    one = run.tags.get(tags.PARTITION, "")
    first, last = run.tags.get(tags.RANGE_START, one), run.tags.get(tags.RANGE_END, one)
    try:
        return partition_range(first, last, workspace.settings.partitions.grain) if first and last else []
    except InputError:
        return []
