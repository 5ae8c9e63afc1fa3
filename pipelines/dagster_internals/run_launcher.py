"""Dagster's launcher of local processes, changed to distinguish a lost run from a slow one."""

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus

from assets.workspace_resource import is_lost


class WatchedRunLauncher(DefaultRunLauncher):
    """Starts a process per run. Dagster's monitoring marks a started run as failed if its process is gone."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Whether Dagster may ask for the state of a run's process."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return whether the process of a run is there."""
        if is_lost(self._instance, run.run_id):
            return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "The process of this run is gone.")
        return CheckRunHealthResult(WorkerStatus.RUNNING)
