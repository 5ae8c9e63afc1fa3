"""Dagster's runs as tasks of Celery: each waits in Dagster's queue for a worker, and is missed if that one has died."""

from typing import Any

from backstory.base.errors import SettingsError
from backstory.base.extras import require_extra

require_extra("celery", "A run as a task of Celery", "use the launcher of `dagster.yaml`")

import dagster as dg  # noqa: E402
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus  # noqa: E402
from dagster._core.run_coordinator.queued_run_coordinator import RunQueueConfig  # noqa: E402
from dagster_celery.launcher import CeleryRunLauncher  # noqa: E402
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG  # noqa: E402

LOST = "The worker of this run is gone, as after a loss of its machine."
"""Why a run without a worker is marked as failed."""

_ATTEMPTS = 3
_REPLY_SECONDS = 5.0
_COUNT_SECONDS = 2.0


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

    def count_processes(self) -> int:
        """Count the runs that the workers can execute at once; those that do not answer are left out."""
        answers: dict[str, Any] = self.celery.control.inspect(timeout=_COUNT_SECONDS).stats() or {}
        return sum(int(answer["pool"]["max-concurrency"]) for answer in answers.values())

    def _is_executing(self, task: str) -> bool:
        """Ask the worker that started a task whether it still executes it. One that does not answer is asked again."""
        started: dict[str, Any] = self.celery.AsyncResult(task).info or {}
        worker = started.get("hostname")
        if worker is None:
            return True  # the state has changed since
        for _ in range(_ATTEMPTS):
            inspection = self.celery.control.inspect(destination=[worker], timeout=_REPLY_SECONDS)
            answer = inspection.query_task(task)
            if answer is not None:
                return task in answer.get(worker, {})
        return False


class CeleryRunCoordinator(dg.QueuedRunCoordinator):
    """Launches at most as many runs as the workers can execute at once, so that no run waits in Celery's queue.

    There, Dagster takes a run for one that is starting, and marks it as failed if that takes long.
    """

    def get_run_queue_config(self) -> RunQueueConfig:
        """Return the limits of the queue; with them, how many runs may be under way.

        Raises:
            SettingsError: The instance has another launcher (code ``other_launcher``).
        """
        launcher = self._instance.run_launcher
        if not isinstance(launcher, WatchedCeleryRunLauncher):
            raise SettingsError(
                f"the run_launcher of dagster.yaml is {type(launcher).__name__}, which has no workers to count; name "
                "WatchedCeleryRunLauncher there, or leave run_coordinator out",
                code="other_launcher",
            )
        return super().get_run_queue_config()._replace(max_concurrent_runs=launcher.count_processes())
