"""Executes the stages of a run as one Dagster job in this process."""

from collections.abc import Sequence

import dagster as dg

from assets.workspace_resource import RunOfCaller
from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import SettingsError
from backstory.base.telemetry import current_run
from backstory.interfaces.dagster_specs.partitions import partitions_of
from backstory.pipeline.run.builder import OnProgress
from backstory.pipeline.run.run import Run
from backstory.pipeline.stages.messages import find_partitions, known_first_partition
from backstory.pipeline.workspace import Workspace
from pipelines.automation import tag_range
from pipelines.dagster_internals.instance import open_instance
from pipelines.definitions import JOB, define
from pipelines.failures import describe_step_failures

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_DAY = len("2025-03-04")


def execute_job(workspace: Workspace, run: Run, on_progress: OnProgress) -> None:
    """Build the tables of a run, with their checks, as one run of the Dagster job in this process.

    Args:
        workspace: The workspace of the run, whose lock this process holds.
        run: What to build: all tables of consecutive partitions, in order. What became of it is added to it.
        on_progress: Called with each event as soon as there is one.

    Raises:
        SettingsError: The partitions begin before those that Dagster offers.
    """
    _require_offered(workspace, run.partitions)
    of_caller = RunOfCaller(workspace, run, on_progress)
    job = define(workspace, dg.ResourceDefinition.hardcoded_resource(of_caller)).resolve_job_def(JOB)
    with open_instance(workspace) as instance:
        result = job.execute_in_process(
            instance=instance,
            run_id=current_run(),
            tags=tag_range(run.partitions[0], run.partitions[-1]),
            run_config=_QUIET,
            raise_on_error=False,
        )
    if not of_caller.is_built:
        run.errors += describe_step_failures(result.all_events)


def _require_offered(workspace: Workspace, partitions: Sequence[str]) -> None:
    if workspace.settings.partitions.start is None and known_first_partition(workspace) is None:
        find_partitions(workspace)
    offered = partitions_of(workspace).get_first_partition_key()
    if offered is None or partitions[0] >= offered:
        return
    day, first_day = partitions[0][:_DAY], offered[:_DAY]
    # If no partition of the run is offered, a later first day would only raise another error.
    otherwise = f", or give --from {first_day}" if offered <= partitions[-1] else ""
    start = (
        workspace.settings.partitions.start
        or f"not set, so partitions begin with the first message on {first_day}"
    )
    raise SettingsError(
        f"partitions.start is {start}, after {day}, the first day of this run; set it "
        f"to {day} or earlier in {workspace.root / SETTINGS_FILE}{otherwise}"
    )
