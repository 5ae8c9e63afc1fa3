"""What the daemon retries after a loss of power: lost runs, also of a backfill that Dagster has ended."""

from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.tags import BACKFILL_ID_TAG, PARENT_RUN_ID_TAG, ROOT_RUN_ID_TAG
from dagster._daemon import controller
from dagster._daemon.auto_run_reexecution import auto_run_reexecution
from dagster._time import get_current_timestamp

from assets.tags import tag_range
from backstory.pipeline.workspace import Workspace
from pipelines.dagster_internals.dev import adapt_daemon
from pipelines.instance import open_instance
from tests.pipelines.test_instance import IDLE

pytestmark = pytest.mark.usefixtures("prepared_home")


@pytest.fixture
def instance(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """Open the instance of a workspace as the daemon does; afterwards Dagster is as it was."""
    for module, name in (
        (controller, "DEFAULT_DAEMON_INTERVAL_SECONDS"),
        (auto_run_reexecution, "BULK_ACTION_TERMINAL_STATUSES"),
    ):
        monkeypatch.setattr(module, name, vars(module)[name])
    adapt_daemon()
    with open_instance(workspace) as opened:
        yield opened


def lose_run(instance: dg.DagsterInstance, status: BulkActionStatus, retries: int = 0) -> dg.DagsterRun:
    """Store a run of a backfill as a loss of power leaves it, and the backfill as Dagster ends it then."""
    backfill = f"{status.value}, {retries} retries"
    instance.add_backfill(
        PartitionBackfill(
            backfill, status=status, from_failure=False, tags={}, backfill_timestamp=get_current_timestamp()
        )
    )
    tags = {**tag_range("2025-03-13", "2025-03-15"), BACKFILL_ID_TAG: backfill}
    run = instance.create_run_for_job(IDLE, tags=tags)
    for _ in range(retries):
        parent = run
        root = parent.root_run_id or parent.run_id
        kin = {PARENT_RUN_ID_TAG: parent.run_id, ROOT_RUN_ID_TAG: root}
        run = instance.create_run_for_job(
            IDLE, tags={**tags, **kin}, parent_run_id=parent.run_id, root_run_id=root
        )
    instance.report_run_failed(run, "Its process is gone.")
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found


def test_a_lost_run_is_retried_unless_a_person_has_canceled_its_backfill(
    instance: dg.DagsterInstance,
) -> None:
    expected = {
        BulkActionStatus.REQUESTED: True,
        BulkActionStatus.COMPLETED_FAILED: True,
        BulkActionStatus.COMPLETED: True,
        BulkActionStatus.CANCELING: False,
        BulkActionStatus.CANCELED: False,
    }
    retried = {
        status: auto_run_reexecution.should_retry(lose_run(instance, status), instance) for status in expected
    }
    assert retried == expected


def test_a_run_that_is_lost_every_time_is_retried_twice(instance: dg.DagsterInstance) -> None:
    again = [
        auto_run_reexecution.should_retry(
            lose_run(instance, BulkActionStatus.COMPLETED_FAILED, retries), instance
        )
        for retries in range(3)
    ]
    assert again == [True, True, False]
