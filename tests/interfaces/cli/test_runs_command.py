"""What ``backstory status``, its option ``--runs`` and ``doctor`` say of runs."""

import json
from pathlib import Path

import pytest

from backstory.base.errors import BudgetExhaustedError
from backstory.interfaces.cli.run import exit_code
from backstory.pipeline.history.history import BY_COMMAND
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import open_workspace
from tests.interfaces.cli.invocation import run

STOP = "the budget of a run is used up"


def stop_a_run(root: Path) -> None:
    with open_workspace(root).runs.record(BY_COMMAND, ["2025-03-13"]):
        raise BudgetExhaustedError(STOP)


def test_before_the_first_run_none_is_recorded(root: Path) -> None:
    assert "No run is recorded yet" in run("status", "--runs", "-w", str(root)).output
    assert "runs: none is recorded yet" in run("doctor", "-w", str(root)).output


def test_runs_are_shown_with_their_figures_the_latest_first(made: Path) -> None:
    with pytest.raises(BudgetExhaustedError):
        stop_a_run(made)
    shown = run("status", "--runs", "-w", str(made)).output.splitlines()
    assert [line.split()[1] for line in shown[1:3]] == ["backstory", "run_pipeline"]
    assert "succeeded" in shown[2]
    assert shown[3].endswith(f"stopped before its first stage: {STOP}")
    records = json.loads(run("status", "--runs", "--json", "--limit", "1", "-w", str(made)).output)
    assert [(record["status"], record["failure"]) for record in records] == [("stopped", STOP)]


def test_status_and_doctor_name_a_run_that_did_not_succeed(made: Path) -> None:
    assert "Runs:" not in run("status", "-w", str(made)).output
    assert "succeeded after" in run("doctor", "-w", str(made)).output
    with pytest.raises(BudgetExhaustedError):
        stop_a_run(made)
    for command in ("status", "doctor"):
        assert f"stopped before its first stage: {STOP}" in run(command, "-w", str(made)).output


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Run([]), 0),
        (Run([], stopped=STOP), 4),
        (Run([], errors=["hits: it failed"], stopped=STOP), 1),
    ],
)
def test_a_stop_has_an_exit_code_of_its_own(outcome: Run, code: int) -> None:
    assert exit_code(outcome) == code
