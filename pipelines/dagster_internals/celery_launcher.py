"""Dagster's runs as tasks of Celery: one whose worker has died is missed."""

from typing import Any

from backstory.base.extras import require_extra

require_extra("celery", "A run as a task of Celery", "use the launcher of `dagster.yaml`")

import dagster as dg  # noqa: E402
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus  # noqa: E402
from dagster_celery.launcher import CeleryRunLauncher  # noqa: E402
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG  # noqa: E402

_REPLY_SECONDS = 15.0


class WatchedCeleryRunLauncher(CeleryRunLauncher):
    """Starts each run as a task. Dagster's monitoring marks a started run as failed if its worker is gone."""

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Ask the worker of a started run whether it executes it: Celery keeps the state of a killed worker's task."""
        result = super().check_run_worker_health(run)
        if result.status is not WorkerStatus.RUNNING:
            return result
        task = run.tags[DAGSTER_CELERY_TASK_ID_TAG]
        started: dict[str, Any] = self.celery.AsyncResult(task).info or {}
        if worker := started.get("hostname"):
            answer = self.celery.control.inspect([worker], timeout=_REPLY_SECONDS).query_task(task) or {}
            if task not in answer.get(worker, {}):
                return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "The worker of this run is gone.")
        return result
