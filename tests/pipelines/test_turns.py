"""Runs of the command and of Dagster over one workspace: one at a time, and those that wait say for whom."""

import os
import random
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.launcher import WorkerStatus
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from assets.tables import specify_checks
from assets.tags import tag_range
from backstory import run_pipeline
from backstory.base.environment import WORKSPACE_VARIABLE
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import partition_range
from backstory.storage.tables.schemas import TABLES
from backstory.storage.turns import is_running
from pipelines.automation import JOB
from pipelines.instance import open_instance, prepare_home
from tests.long_tests import LONG_TESTS
from tests.pipelines.ui_process import UiProcess, run_ui, wait_for
from tests.started_python import StartedPython
from tests.world import describe, first_inputs, write_inputs

DAYS = ("2025-03-12", "2025-03-16")
FORTY = partition_range("2025-03-01", "2025-04-09", "day")
ROUNDS = 9
RIVALS = 3
REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "backstory"}

COMMAND = ["-c", "from backstory.interfaces.cli.app import main; main()", "run"]
ADD = [*COMMAND[:-1], "add"]
# The run that Dagster starts in a process of its own, from the UI or the daemon.
JOB_RUN = f"""
import dagster as dg
from pipelines.automation import JOB
from pipelines.definitions import define
from assets.tags import tag_range
from backstory.pipeline.workspace import open_workspace

job = define(open_workspace()).resolve_job_def(JOB)
with dg.DagsterInstance.get() as instance:
    assert job.execute_in_process(instance=instance, tags=tag_range(*{DAYS!r}), raise_on_error=False).success
"""
# Holds the turn until its input ends.
HOLDER = """
import sys
from backstory.storage.turns import running
from backstory.pipeline.workspace import open_workspace

with running(open_workspace().catalog.state, "a rival"):
    print("held", flush=True)
    sys.stdin.read()
"""
LAUNCH = """mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } } }
}"""
TERMINATE = "mutation($run: String!) { terminateRun(runId: $run) { __typename } }"


def environment_of(workspace: Workspace) -> dict[str, str]:
    return {**os.environ, **prepare_home(workspace), WORKSPACE_VARIABLE: str(workspace.root)}


def make_inputs(root: Path) -> Workspace:
    write_inputs(root, first_inputs())
    return open_workspace(root)


def describe_fresh(workspace: Workspace, root: Path) -> dict[str, Any]:
    """Describe a workspace without any history, with the inputs that this one has now."""
    inputs = [
        workspace.root / "backstory.yaml",
        *workspace.chats_dir.iterdir(),
        *workspace.documents_dir.iterdir(),
    ]
    write_inputs(
        root, {str(path.relative_to(workspace.root)): path.read_text(encoding="utf-8") for path in inputs}
    )
    run_pipeline(open_workspace(root))
    return describe(root)


def start_holder(workspace: Workspace) -> "subprocess.Popen[str]":
    holder = StartedPython(
        ["-c", HOLDER], env=environment_of(workspace), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def is_logged(workspace: Workspace, text: str) -> bool:
    with open_instance(workspace) as instance:
        logs = [instance.all_logs(run.run_id) for run in instance.get_runs()]
    return any(text in entry.user_message for entries in logs for entry in entries)


def test_runs_of_the_command_and_of_dagster_wait_for_their_turn_and_say_for_whom(
    tmp_path: Path, start_process: Callable[..., "subprocess.Popen[str]"]
) -> None:
    workspace = make_inputs(tmp_path / "workspace")
    holder = start_holder(workspace)
    for_whom = f":{holder.pid}, "
    command = start_process(COMMAND, environment_of(workspace))
    dagster = start_process(["-c", JOB_RUN], environment_of(workspace), with_dagster=True)
    doomed = [start_process(COMMAND, environment_of(workspace))] if LONG_TESTS else []
    for one in (command, dagster, *doomed):
        assert one.stdout is not None
        assert any(for_whom in line for line in one.stdout)
    # One that is killed while it waits leaves nothing.
    for one in doomed:
        one.kill()
        one.wait()
    assert workspace.runs.read() == []
    assert not any(workspace.tables.keys(table) for table in TABLES)

    # The turn of a killed holder is free.
    holder.kill()
    holder.communicate()
    said, _ = command.communicate(timeout=600)
    assert command.returncode == 0, said
    said, _ = dagster.communicate(timeout=600)
    assert dagster.returncode == 0, said
    assert not is_running(workspace.catalog.state)
    assert is_logged(workspace, for_whom)
    assert describe(workspace.root) == describe_fresh(workspace, tmp_path / "fresh")


def read_checks(workspace: Workspace, table: str) -> set[AssetCheckExecutionRecordStatus]:
    """Read how the latest executions of the checks of a table stand."""
    keys = [spec.key for spec in specify_checks(workspace) if spec.asset_key == dg.AssetKey(table)]
    with open_instance(workspace) as instance:
        storage = instance.event_log_storage
        return {record.status for record in storage.get_latest_asset_check_execution_by_key(keys).values()}


def test_a_run_that_dies_keeps_the_results_of_the_checks_that_it_made(
    workspace: Workspace, start_process: Callable[..., "subprocess.Popen[str]"]
) -> None:
    evaluated, planned = (
        AssetCheckExecutionRecordStatus.SUCCEEDED,
        AssetCheckExecutionRecordStatus.PLANNED,
    )
    with workspace.catalog.state.lock("making of documents"):  # where the run stands still
        dagster = start_process(["-c", JOB_RUN], environment_of(workspace), with_dagster=True)
        wait_for(
            lambda: (
                "window_chunks" in {record.stage for record in workspace.runs.read()}
                or dagster.poll() is not None
            ),
            "the last stage of the chats",
        )
        assert dagster.poll() is None
        dagster.kill()
        dagster.wait()
    with open_instance(workspace) as instance:
        [run] = instance.get_runs()
        assert instance.run_launcher.check_run_worker_health(run).status is WorkerStatus.NOT_FOUND
        instance.report_run_failed(run)
    for table in ("messages", "windows"):
        assert read_checks(workspace, table) == {evaluated}, table
    assert read_checks(workspace, "document_chunks") == {
        planned
    }  # which Dagster shows as failed with the run


def launch(ui: UiProcess) -> str:
    """Start a run over all days, as the launchpad of the job does."""
    tags = [{"key": name, "value": value} for name, value in tag_range(FORTY[0], FORTY[-1]).items()]
    params: dict[str, Any] = {
        "selector": {**REPOSITORY, "pipelineName": JOB},
        "mode": "default",
        "executionMetadata": {"tags": tags},
        "runConfigData": {},
    }
    return str(ui.query(LAUNCH, params=params)["launchRun"]["run"]["runId"])


def read_runs(instance: dg.DagsterInstance, run_ids: list[str]) -> list[dg.DagsterRun]:
    return list(instance.get_runs(dg.RunsFilter(run_ids=run_ids)))


def is_under_way(instance: dg.DagsterInstance, run_ids: list[str]) -> bool:
    return any(run.status is dg.DagsterRunStatus.STARTED for run in read_runs(instance, run_ids))


def have_ended(instance: dg.DagsterInstance, run_ids: list[str]) -> bool:
    return all(run.is_finished for run in read_runs(instance, run_ids))


def write_late_message(workspace: Workspace, choice: random.Random, number: int) -> None:
    key = choice.choice(FORTY)
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write(f"{key[8:]}/{key[5:7]}/2025, 21:00 - Ada Lind: The late sourdough message {number}\n")


@pytest.mark.long
def test_overlapping_runs_of_the_daemon_and_the_command_end_in_the_tables_of_one_run(
    tmp_path: Path, start_process: Callable[..., "subprocess.Popen[str]"]
) -> None:
    workspace = make_inputs(tmp_path / "workspace")
    chats = workspace.chats_dir / "garden.txt"
    with chats.open("a", encoding="utf-8") as chat:
        chat.writelines(
            f"{key[8:]}/{key[5:7]}/2025, 1{hour}:00 - Ben Okri: The drip line of {key} froze at {hour}\n"
            for key in FORTY
            for hour in range(5)
        )
    choice = random.Random(20)
    overlaps = waited = 0
    with open_instance(workspace) as instance, run_ui(workspace.root) as ui:
        for number in range(ROUNDS):
            write_late_message(workspace, choice, number)
            runs = [launch(ui), launch(ui)]
            wait_for(partial(is_under_way, instance, runs), "a run")
            rivals = []
            for rival_number in range(RIVALS):
                write_late_message(workspace, choice, number)
                command = ADD if rival_number == 1 else COMMAND
                rivals.append(start_process(command, environment_of(workspace)))
                overlaps += not have_ended(instance, runs)
            for rival in rivals:
                said, _ = rival.communicate(timeout=900)
                assert rival.returncode == 0, said
                waited += "waiting for run" in said
            wait_for(partial(have_ended, instance, runs), "the end of the runs")
            ended = read_runs(instance, runs)
            assert [run.status for run in ended] == [dg.DagsterRunStatus.SUCCESS] * 2
            # The second run stands in the queue meanwhile, where it holds no slot of another workspace.
            records = instance.get_run_records(dg.RunsFilter(run_ids=runs))
            spans = sorted((record.start_time or 0.0, record.end_time or 0.0) for record in records)
            assert spans[0][1] <= spans[1][0]
        print(f"{overlaps} overlaps of a command and a run of the daemon; {waited} commands waited")
        assert overlaps == ROUNDS * RIVALS
        assert waited > 0

        # A run that waits is ended from the UI.
        holder = start_holder(workspace)
        waiting = launch(ui)
        wait_for(partial(is_logged, workspace, f":{holder.pid}, "), "the run waits")
        ui.query(TERMINATE, run=waiting)
        wait_for(partial(have_ended, instance, [waiting]), "its end")
        assert read_runs(instance, [waiting])[0].status is dg.DagsterRunStatus.CANCELED
        holder.kill()
        holder.communicate()
    run_pipeline(open_workspace(workspace.root))
    assert describe(workspace.root) == describe_fresh(workspace, tmp_path / "fresh")
