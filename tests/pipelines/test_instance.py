"""The Dagster home: whose it is, what is written into it, and what becomes of runs that were lost."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent
from dagster._core.launcher import WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG

from backstory.base.errors import InputError, WorkspaceError
from backstory.pipeline.workspace import Workspace
from pipelines.dagster_internals.instance import (
    describe_lack_of_pools,
    end_lost_runs,
    open_instance,
    prepare_home,
)
from tests.errors import raises

# What becomes of a lost run does not depend on what it would have made, and the plan of the whole job is long.
IDLE: Final = dg.GraphDefinition("idle").to_job()


def test_settings_of_dagster_are_written_once_and_never_overwritten(workspace: Workspace) -> None:
    prepare_home(workspace)
    settings = workspace.dagster_home / "dagster.yaml"
    mine = settings.read_text(encoding="utf-8") + "# mine\n"
    settings.write_text(mine, encoding="utf-8")
    prepare_home(workspace)
    assert settings.read_text(encoding="utf-8") == mine


def test_settings_that_name_modules_of_an_earlier_release_are_named(workspace: Workspace) -> None:
    prepare_home(workspace)
    settings = workspace.dagster_home / "dagster.yaml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("pipelines.dagster_internals.event_log", "pipelines.event_log"))
    with raises(WorkspaceError, "absent_module", settings):
        prepare_home(workspace)


def test_the_home_of_an_operator_is_used_as_it_is(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "operator"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    assert prepare_home(workspace)["DAGSTER_HOME"] == str(home)
    assert list(home.iterdir()) == []
    assert not workspace.dagster_home.exists()
    monkeypatch.setenv("DAGSTER_HOME", str(workspace.dagster_home))
    assert prepare_home(workspace)["DAGSTER_HOME"] == str(workspace.dagster_home)
    assert (workspace.dagster_home / "dagster.yaml").is_file()
    monkeypatch.setenv("DAGSTER_HOME", "relative")
    with raises(InputError, "invalid_home", "DAGSTER_HOME", "relative"):
        prepare_home(workspace)


def test_settings_without_a_pool_of_runs_are_told(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_instance(workspace) as instance:
        assert describe_lack_of_pools(instance) is None
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    earlier = {"concurrency": {"runs": {"max_concurrent_runs": 2}}, "telemetry": {"enabled": False}}
    (tmp_path / "dagster.yaml").write_text(json.dumps(earlier), encoding="utf-8")
    with open_instance(workspace) as instance:
        told = describe_lack_of_pools(instance)
    assert told is not None
    assert told.startswith(f"{tmp_path}/dagster.yaml")


def start_run(instance: dg.DagsterInstance, process: int, age: float = 0) -> dg.DagsterRun:
    """Store a run that a process has started, some seconds ago."""
    run = instance.create_run_for_job(IDLE, tags={"dagster/partition": "2025-03-13"})
    started = DagsterEvent(dg.DagsterEventType.PIPELINE_START.value, job_name=run.job_name, pid=process)
    instance.report_dagster_event(started, run.run_id, timestamp=time.time() - age)
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status is dg.DagsterRunStatus.STARTED
    return found


def test_a_run_whose_process_is_gone_is_ended(workspace: Workspace) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with open_instance(workspace) as instance:
        lost = start_run(instance, gone.pid)
        alive = start_run(instance, os.getpid())
        # After a restart of the machine, another process has the number.
        reused = start_run(instance, os.getpid(), age=30 * 24 * 3600)
        launcher = instance.run_launcher
        assert launcher.supports_check_run_worker_health
        assert launcher.check_run_worker_health(alive).status is WorkerStatus.RUNNING
        assert launcher.check_run_worker_health(lost).status is WorkerStatus.NOT_FOUND
    assert set(end_lost_runs(workspace)) == {lost.run_id, reused.run_id}
    assert end_lost_runs(workspace) == []
    with open_instance(workspace) as instance:
        ended = instance.get_run_by_id(lost.run_id)
        assert ended is not None
        assert ended.status is dg.DagsterRunStatus.FAILURE


@pytest.mark.parametrize("name", ["garden [2025]", "all*"])
def test_a_path_that_is_a_pattern_is_refused_since_dagster_would_ignore_its_settings(
    make_workspace: Callable[..., Workspace], name: str
) -> None:
    workspace = make_workspace(name=name)
    with raises(WorkspaceError, "unusable_path", workspace.dagster_home):
        prepare_home(workspace)
    assert not workspace.dagster_home.exists()


def test_a_run_that_was_starting_is_ended_if_its_code_server_is_gone(
    workspace: Workspace, tmp_path: Path
) -> None:
    path = tmp_path / "code"
    with open_instance(workspace) as instance, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        run = instance.create_run_for_job(
            IDLE,
            tags={"dagster/partition": "2025-03-13", GRPC_INFO_TAG: json.dumps({"socket": str(path)})},
        )
        starting = DagsterEvent(dg.DagsterEventType.PIPELINE_STARTING.value, job_name=run.job_name)
        instance.report_dagster_event(starting, run.run_id)
        assert end_lost_runs(workspace) == []
    assert end_lost_runs(workspace) == [run.run_id]
