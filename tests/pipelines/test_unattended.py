"""A workspace that Dagster's daemon serves unattended: backfills, a loss of power, a late export, a broken day."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionStatus
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    ScheduleInstigatorData,
    TickStatus,
)
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._time import get_current_timestamp

from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.partitions import partition_range
from pipelines.automation import JOB
from pipelines.instance import open_instance
from tests.pipelines.test_days import damage
from tests.pipelines.ui_process import UiProcess, run_ui, wait_for
from tests.workspaces import SETTINGS, write_workspace

DAYS = partition_range("2025-03-11", "2025-03-15", "day")
SCATTERED = [DAYS[0], DAYS[2], DAYS[4]]
LATE = "11/03/2025, 21:00 - Ada Lind: The sourdough starter smelled of a late export"
REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "backstory"}
TWO_DAYS = 2 * 24 * 3600
TABLES = [stage.table for stage in STAGES if stage.partitioned]

START_SENSOR = (
    "mutation($selector: SensorSelector!) { startSensor(sensorSelector: $selector) { __typename } }"
)
START_SCHEDULE = (
    "mutation($selector: ScheduleSelector!) { startSchedule(scheduleSelector: $selector) { __typename } }"
)
BACKFILL = """mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) { ... on LaunchBackfillSuccess { backfillId } }
}"""


def backfill(ui: UiProcess, days: Sequence[str]) -> str:
    """Launch a backfill of every asset, as the UI does."""
    nodes = ui.query("{ assetNodes { assetKey { path } isMaterializable } }")["assetNodes"]
    assets = [{"path": node["assetKey"]["path"]} for node in nodes if node["isMaterializable"]]
    params = {"assetSelection": assets, "partitionNames": list(days)}
    return str(ui.query(BACKFILL, params=params)["launchPartitionBackfill"]["backfillId"])


def backfill_by_job(ui: UiProcess, days: Sequence[str]) -> str:
    """Launch a backfill from the page of the job, as the UI does."""
    selector = {"repositorySelector": REPOSITORY, "partitionSetName": f"{JOB}_partition_set"}
    params = {"selector": selector, "partitionNames": list(days)}
    return str(ui.query(BACKFILL, params=params)["launchPartitionBackfill"]["backfillId"])


def find_daemon(ui: UiProcess) -> int:
    """Return the number of the daemon's process."""
    shown = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(ui.process.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    [line] = [line for line in shown.stdout.splitlines() if "pipelines.dagster_internals.dev run" in line]
    return int(line.split()[0])


def lose_everything(ui: UiProcess) -> None:
    ui.kill()


def lose_daemon(ui: UiProcess) -> None:
    """Kill the daemon; the UI ends by itself, and says why."""
    os.kill(find_daemon(ui), signal.SIGKILL)
    assert ui.process.wait(600) == 2


def lose_parent(ui: UiProcess) -> None:
    """Kill the process that started the daemon and the webserver; both end by themselves."""
    daemon = find_daemon(ui)
    os.kill(ui.process.pid, signal.SIGKILL)
    ui.process.wait()
    wait_for(lambda: not Path(f"/proc/{daemon}").exists(), "the end of the daemon")


@pytest.mark.long
@pytest.mark.parametrize("lose", [lose_everything, lose_daemon, lose_parent])
def test_a_backfill_of_the_job_is_built_although_its_run_is_lost(
    lose: Callable[[UiProcess], None], tmp_path: Path
) -> None:
    workspace = write_workspace(tmp_path / "workspace", SETTINGS.replace("overlap: 2", "overlap: 0"))
    with (workspace.chats_dir / "bakers.txt").open("w", encoding="utf-8") as chat:
        chat.writelines(f"{day}/03/2025, 10:00 - Ada Lind: Flour for day {day}\n" for day in range(11, 16))
    under_way = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
    with open_instance(workspace) as instance, run_ui(workspace.root) as ui:
        backfill_by_job(ui, DAYS)
        wait_for(lambda: bool(instance.get_runs(under_way)), "the run of the backfill")
        lose(ui)
    with open_instance(workspace) as instance, run_ui(workspace.root):
        contexts = dg.AssetKey("window_contexts")
        wait_for(lambda: instance.get_materialized_partitions(contexts) == set(DAYS), "all days")
        wait_for(lambda: is_idle(instance), "the end of all runs")
        assert {table: find_failed(instance, table, DAYS) for table in TABLES} == {
            key: set() for key in TABLES
        }


def status_of(instance: dg.DagsterInstance, backfill_id: str) -> BulkActionStatus:
    found = instance.get_backfill(backfill_id)
    assert found is not None
    return found.status


def is_idle(instance: dg.DagsterInstance) -> bool:
    return not instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))


def list_instigators(instance: dg.DagsterInstance) -> dict[str, InstigatorState]:
    return {state.instigator_name: state for state in instance.all_instigator_state()}


def find_ticks(instance: dg.DagsterInstance, name: str) -> list[TickStatus]:
    state = list_instigators(instance)[name]
    return [tick.status for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id)]


def make_due(instance: dg.DagsterInstance) -> None:
    """Let the last ticks of the sensor and the schedule lie two days back, as after a downtime."""
    for state in list_instigators(instance).values():
        data = state.instigator_data
        long_ago = get_current_timestamp() - TWO_DAYS
        if isinstance(data, ScheduleInstigatorData):
            due = ScheduleInstigatorData(data.cron_schedule, long_ago)
            instance.update_instigator_state(state.with_data(due))
        elif data is not None:
            earlier = data._replace(
                last_tick_timestamp=long_ago,
                last_tick_start_timestamp=long_ago,
                last_tick_success_timestamp=long_ago,
                last_sensor_start_timestamp=long_ago,
            )
            instance.update_instigator_state(state.with_data(earlier))


def stop_automation(instance: dg.DagsterInstance) -> None:
    """Stop the sensor and the schedule, as the UI does."""
    for state in list_instigators(instance).values():
        instance.update_instigator_state(state.with_status(InstigatorStatus.STOPPED))


def find_failed(instance: dg.DagsterInstance, table: str, days: Sequence[str]) -> set[str]:
    """Return the days that the asset page shows as failed."""
    attempts = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        dg.AssetKey(table)
    )
    return set(attempts) & set(days)


def texts_of(workspace: Workspace, day: str) -> str:
    return " ".join(workspace.tables.read("messages", [day])["text"])


@pytest.mark.long
def test_the_daemon_serves_a_workspace_through_loss_of_power_late_exports_and_broken_days(
    tmp_path: Path,
) -> None:
    workspace = write_workspace(tmp_path / "workspace", SETTINGS.replace("overlap: 2", "overlap: 0"))
    with (workspace.chats_dir / "bakers.txt").open("w", encoding="utf-8") as chat:
        chat.writelines(f"{day}/03/2025, 10:00 - Ada Lind: Flour for day {day}\n" for day in range(11, 16))
    with open_instance(workspace) as instance, run_ui(workspace.root) as ui:
        # The first tick of the sensor finds every day pending.
        ui.query(START_SENSOR, selector={**REPOSITORY, "sensorName": "changed_files"})
        ui.query(START_SCHEDULE, selector={**REPOSITORY, "scheduleName": "materialize_recent"})
        contexts = dg.AssetKey("window_contexts")
        wait_for(lambda: instance.get_materialized_partitions(contexts) == set(DAYS), "the sensor's run")
        wait_for(lambda: is_idle(instance), "its end")
        assert find_ticks(instance, "changed_files")[-1] is TickStatus.SUCCESS

        # The power fails while a backfill is under way.
        interrupted = backfill(ui, DAYS)
        wait_for(
            lambda: bool(instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))),
            "a run of the backfill",
        )
        ui.kill()
        [lost] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        assert status_of(instance, interrupted) is BulkActionStatus.REQUESTED

        # Meanwhile an old day gets a late message, and a tick of the schedule is missed.
        with (workspace.chats_dir / "bakers.txt").open("a", encoding="utf-8") as chat:
            chat.write(f"{LATE}\n")
        make_due(instance)
    with open_instance(workspace) as instance, run_ui(workspace.root) as ui:
        wait_for(lambda: "late export" in texts_of(workspace, DAYS[0]), "the run with the late message")
        # Dagster shows the backfill as failed if it looks at a lost run before its retry.
        wait_for(
            lambda: status_of(instance, interrupted) in BULK_ACTION_TERMINAL_STATUSES,
            "the end of the backfill",
        )
        wait_for(lambda: is_idle(instance), "the end of all runs")
        ended = instance.get_run_by_id(lost.run_id)
        assert ended is not None
        assert ended.status is dg.DagsterRunStatus.FAILURE
        wait_for(
            lambda: find_ticks(instance, "materialize_recent") == [TickStatus.SUCCESS], "the missed tick"
        )
        summary = workspace.tables.read("window_contexts", [DAYS[0]])
        assert summary["query_chunk_count"].sum() > 0
        assert {table: find_failed(instance, table, DAYS) for table in TABLES} == {
            key: set() for key in TABLES
        }

        # One broken day of a scattered backfill is red alone. A run that the sensor starts for it would hide that.
        stop_automation(instance)
        damage(workspace, SCATTERED[1])
        wait_for(lambda: is_idle(instance), "the end of all runs")
        scattered = backfill(ui, SCATTERED)
        wait_for(
            lambda: status_of(instance, scattered) is BulkActionStatus.COMPLETED_FAILED,
            "the end of the backfill",
        )
        assert find_failed(instance, "windows", DAYS) == {SCATTERED[1]}
        assert find_failed(instance, "messages", DAYS) == set()
