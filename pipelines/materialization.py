"""Executes a run as the job of Dagster in this process."""

from dataclasses import dataclass

import dagster as dg

from assets.tags import tag_range
from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import SettingsError
from backstory.interfaces.dagster_specs.asset_specs import partitions_of
from backstory.pipeline.run.plan import is_fresh
from backstory.pipeline.run.run import OnProgress, Run, RunEvent
from backstory.pipeline.run.runner import Report, execute_run
from backstory.pipeline.stages.messages import find_partitions, known_first_partition
from backstory.pipeline.workspace import Workspace
from pipelines.automation import JOB
from pipelines.definitions import define
from pipelines.instance import open_instance

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_DAY = len("2025-03-04")


@dataclass
class _WorkspaceOfCaller:
    """Stands for the workspace within the job: the step executes the run of the caller, who sends its alerts."""

    workspace: Workspace
    run: Run
    on_progress: OnProgress

    def execute(self, run: Run, on_progress: OnProgress, report: Report) -> Run:
        """Execute the run of the caller as that of the step."""

        def follow(event: RunEvent) -> None:
            on_progress(event)
            self.on_progress(event)

        self.run.by, self.run.dagster_run_id = run.by, run.dagster_run_id
        return execute_run(self.workspace, self.run, follow, report)


def materialize(workspace: Workspace, run: Run, on_progress: OnProgress) -> Run:
    """Execute a run over all tables as a run of Dagster, unless nothing has changed."""
    if is_fresh(workspace, run.partitions):
        return execute_run(workspace, run, on_progress, skips_unchanged=True)
    return execute_job(workspace, run, on_progress)


def execute_job(workspace: Workspace, run: Run, on_progress: OnProgress) -> Run:
    """Execute a run over all tables as a run of Dagster, if it offers their partitions."""
    _require_offered(workspace, run)
    of_caller = dg.ResourceDefinition.hardcoded_resource(_WorkspaceOfCaller(workspace, run, on_progress))
    job = define(workspace, of_caller).resolve_job_def(JOB)
    tags = tag_range(run.partitions[0], run.partitions[-1])
    with open_instance(workspace) as instance:
        try:
            job.execute_in_process(instance=instance, tags=tags, run_config=_QUIET)
        except dg.Failure:
            if not run.troubles:
                raise
    return run


def _require_offered(workspace: Workspace, run: Run) -> None:
    if workspace.settings.partitions.start is None and known_first_partition(workspace) is None:
        find_partitions(workspace)
    offered, first = partitions_of(workspace).get_first_partition_key(), run.partitions[0]
    if offered is not None and first < offered:
        # If no partition of the run is offered, a later first day would only raise another error.
        otherwise = f", or give --from {offered[:_DAY]}" if offered <= run.partitions[-1] else ""
        raise SettingsError(
            f"partitions.start offers Dagster days from {offered[:_DAY]}, and this run begins on {first[:_DAY]}; set "
            f"it to {first[:_DAY]} or earlier in {workspace.root / SETTINGS_FILE}{otherwise}"
        )
