"""Dagster's runs as tasks of Celery: one whose worker has died is missed."""

from typing import Any

from backstory.base.extras import require_extra

require_extra("celery", "A run as a task of Celery", "use the launcher of `dagster.yaml`")

import dagster as dg  # noqa: E402
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus  # noqa: E402
from dagster_celery.launcher import CeleryRunLauncher  # noqa: E402
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG  # noqa: E402

LOST = "The worker of this run is gone, as after a loss of its machine."
"""Why a run without a worker is marked as failed."""

_REPLY_SECONDS = 15.0


class WatchedCeleryRunLauncher(CeleryRunLauncher):
    """Starts each run as a task. Dagster's monitoring marks a started run as failed if its worker is gone.

    Celery keeps the state ``STARTED`` of a task whose worker was killed, so the worker is asked.
    """

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return whether a worker executes the run."""
        result = super().check_run_worker_health(run)
        if result.status is not WorkerStatus.RUNNING or self._is_executing(
            run.tags[DAGSTER_CELERY_TASK_ID_TAG]
        ):
            return result
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, LOST)

    def _is_executing(self, task: str) -> bool:
        """Ask the worker that started a task whether it still executes it; one that does not answer is gone."""
        started: dict[str, Any] = self.celery.AsyncResult(task).info or {}
        worker = started.get("hostname")
        if worker is None:
            return True  # the state has changed since
        answer = self.celery.control.inspect([worker], timeout=_REPLY_SECONDS).query_task(task) or {}
        return task in answer.get(worker, {})
