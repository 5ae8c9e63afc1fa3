"""``init``, ``status`` with its runs, and ``doctor``."""

import json
from pathlib import Path

import polars as pl
import pytest

from backstory.base.errors import BudgetExhaustedError
from backstory.interfaces.cli.run import exit_code as exit_code_of
from backstory.pipeline.history.history import BY_COMMAND
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import open_workspace
from tests.interfaces.cli.invocation import exit_code, run
from tests.workspaces import replace_recorded


def test_init_makes_a_workspace_and_never_overwrites_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(monkeypatch, "init", str(tmp_path / "new")) == 0
    settings = tmp_path / "new" / "backstory.yaml"
    settings.write_text("rag: {top_k: 7}\n", encoding="utf-8")
    assert exit_code(monkeypatch, "init", str(tmp_path / "new")) == 2
    assert settings.read_text(encoding="utf-8") == "rag: {top_k: 7}\n"


def test_status_counts_the_tables_beside_a_damaged_index(made: Path) -> None:
    [manifest] = (made / "index").glob("*/manifest.json")
    manifest.unlink()
    shown = json.loads(run("status", "-w", str(made), "--json").stdout)
    assert "manifest.json" in shown["index_error"]
    assert shown["tables"]["messages"]["rows"] > 0
    assert "manifest.json" in " ".join(run("status", "-w", str(made)).stdout.split())


def test_doctor_finds_nothing_wrong_then_what_is_wrong(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code(monkeypatch, "doctor", "-w", str(made)) == 0
    (made / ".backstory" / "secret.key").chmod(0o644)
    assert exit_code(monkeypatch, "doctor", "-w", str(made)) == 1
    assert "chmod 600" in run("doctor", "-w", str(made)).stdout


def test_doctor_counts_the_checks_of_machinery_that_passed_and_lists_them_if_asked(made: Path) -> None:
    def list_names(*words: str) -> list[str]:
        lines = run("doctor", *words, "-w", str(made)).stdout.splitlines()
        return [line[5:].partition(":")[0] for line in lines if line.startswith(("ok ", "FAIL"))]

    every = [row["name"] for row in json.loads(run("doctor", "--json", "-w", str(made)).stdout)]
    assert list_names("-v") == every
    short = list_names()
    assert {"documents", "search index", "real names"} < set(short) < set(every)
    assert "table messages" not in short
    next((made / "data" / "messages").glob("*.parquet")).write_bytes(b"")
    assert "table messages" in list_names()


def test_doctor_finds_rows_that_refer_to_nothing(made: Path) -> None:
    table = next((made / "data" / "window_chunks").glob("*.parquet"))
    rows = pl.read_parquet(table).with_columns(window_id=pl.lit("gone"))
    replace_recorded(open_workspace(made), "window_chunks", table.name.split(".")[0], rows)
    result = run("doctor", "--files", "-w", str(made))
    assert result.exit_code == 1
    assert "window_chunks, unknown_windows" in result.stdout
    assert "window_id gone" in result.stdout


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
    assert f"stopped before its first stage: {STOP}" in shown[3]
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
    assert exit_code_of(outcome) == code
