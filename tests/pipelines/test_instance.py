"""The Dagster home: whose it is, what is written into it, and what becomes of runs that were lost."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import dagster as dg
import pytest
from dagster._core.launcher import WorkerStatus

from backstory.base.errors import InputError, WorkspaceError
from backstory.pipeline.workspace import Workspace
from pipelines.instance import open_instance, prepare_home
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


def test_a_run_is_lost_once_its_process_is_gone(workspace: Workspace) -> None:
    with open_instance(workspace) as instance:
        run = instance.create_run_for_job(IDLE)
        launcher = instance.run_launcher
        assert launcher.supports_check_run_worker_health
        held = f"""
import dagster as dg
from assets.workspace_resource import marking_as_alive
with dg.DagsterInstance.get() as instance, marking_as_alive(instance, {run.run_id!r}):
    print("held", flush=True)
    input()
"""
        process = subprocess.Popen(
            [sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
        process.kill()
        process.communicate()
        assert launcher.check_run_worker_health(run).status is WorkerStatus.NOT_FOUND
        # Nothing is known of the process of a run of others.
        other = instance.create_run_for_job(IDLE)
        assert launcher.check_run_worker_health(other).status is WorkerStatus.RUNNING


@pytest.mark.parametrize("name", ["garden [2025]", "all*"])
def test_a_path_that_is_a_pattern_is_refused_since_dagster_would_ignore_its_settings(
    make_workspace: Callable[..., Workspace], name: str
) -> None:
    workspace = make_workspace(name=name)
    with raises(WorkspaceError, "unusable_path", workspace.dagster_home):
        prepare_home(workspace)
    assert not workspace.dagster_home.exists()
