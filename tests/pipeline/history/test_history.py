"""What the history keeps of a run, however it ends, and how the table follows."""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from backstory import run_pipeline
from backstory.base.errors import ReadError, StoppedError
from backstory.pipeline.history.history import (
    BY_COMMAND,
    STALLED_SECONDS,
    RunEnd,
    RunHistory,
    find_trouble,
)
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import execute_run
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.models import Settings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Runs
from backstory.storage.tables.views import VIEWS_FILE, connect
from tests.caches import open_own_state
from tests.errors import raises
from tests.pipeline.history.slow_run import DAYS
from tests.postgres import ON_FILES
from tests.workspaces import open_tables, run_workspace

pytestmark = pytest.mark.usefixtures("either_storage")


def open_history(root: Path, **settings: Any) -> RunHistory:
    return RunHistory(open_own_state(root), open_tables(root / "data"), Settings.model_validate(settings))


def run_once(history: RunHistory, end: RunEnd, days: Sequence[str] = DAYS) -> None:
    with history.record(BY_COMMAND, days) as finish:
        history.enter("messages")
        finish(end)


def age(history: RunHistory, seconds: float) -> None:
    """Move the latest run into the past."""
    [latest, *_] = history.read()
    with history.state.begin() as session:
        session.execute(
            "UPDATE runs SET started_at = started_at - ?, heartbeat_at = heartbeat_at - ? WHERE run_id = ?",
            (seconds, seconds, latest.run_id),
        )


def test_a_run_is_a_row_of_the_table_and_one_that_changed_nothing_is_none(workspace: Workspace) -> None:
    run_pipeline(workspace)
    again = open_workspace(workspace.root)
    outcome = run_workspace(again, [DAYS[0], DAYS[-1]])
    assert not outcome.fresh
    assert outcome.computed == 0
    table = validate(workspace.tables.read("runs"), Runs)
    [row] = table.to_dicts()
    assert (row["by"], row["status"], row["stage"]) == ("run_pipeline", "succeeded", "posts")
    assert (row["first_partition"], row["last_partition"], row["partitions"]) == (DAYS[0], DAYS[-1], 2)
    assert row["embedding_model"] == workspace.embedder.id
    assert row["embedding_texts"] > 0
    assert (row["embedding_calls"], row["cost"], row["currency"]) == (0, 0.0, "USD")
    with duckdb.connect(workspace.tables_dir / VIEWS_FILE, read_only=True) as views:
        assert views.execute("SELECT run_id FROM runs").fetchall() == [(row["run_id"],)]
    assert connect(workspace.tables).table("runs").to_polars()["run_id"].to_list() == [row["run_id"]]


@pytest.mark.parametrize(
    ("end", "days"),
    [
        (RunEnd(changed=True), DAYS),
        (RunEnd(changed=True), []),
        (RunEnd("failed", "hits: ModelError", 2), DAYS),
        (RunEnd("stopped", "the budget"), DAYS),
    ],
)
def test_the_end_of_a_run_is_kept(tmp_path: Path, end: RunEnd, days: Sequence[str]) -> None:
    history = open_history(tmp_path)
    run_once(history, end, days)
    [record] = history.read()
    assert (record.status, record.failures, record.failure) == (end.status, end.failures, end.failure)
    wanted = (record.first_partition, record.last_partition, record.partitions)
    assert wanted == ((DAYS[0], DAYS[-1], len(DAYS)) if days else (None, None, 0))
    assert bool(find_trouble([record])) == (end.status != "succeeded")
    assert not list((tmp_path / ".backstory").glob("*.lock"))
    assert replace(record, started_at=record.heartbeat_at + 100).seconds == 0.0  # the clock went backwards


def test_a_success_without_anything_to_do_clears_a_failure(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    run_once(history, RunEnd())
    assert history.read() == []
    run_once(history, RunEnd("failed", "hits: ModelError", 1))
    [failed] = find_trouble(history.read())
    assert "`backstory run`" in failed.describe()
    run_once(history, RunEnd())
    assert find_trouble(history.read()) == []
    run_once(history, RunEnd())
    assert len(history.read()) == 2


def test_a_run_that_finds_nothing_to_do_clears_a_failure(workspace: Workspace) -> None:
    wanted = find_wanted(workspace, None, None)
    execute_run(workspace, Run(wanted))
    with pytest.raises(ReadError), workspace.runs.record(BY_COMMAND, DAYS):
        raise ReadError("a chat cannot be read")
    assert find_trouble(workspace.runs.read())
    assert execute_run(workspace, Run(wanted), skips_unchanged=True).fresh
    assert find_trouble(workspace.runs.read()) == []


def test_an_error_is_kept_without_its_text_which_may_name_people(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    with pytest.raises(ReadError), history.record(BY_COMMAND, DAYS):
        raise ReadError("WhatsApp Chat with Ada Lind.txt cannot be read")
    [record] = history.read()
    assert record.failure == "ReadError; the output of the run says what and where"
    assert not any(b"Ada" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_killed_run_is_lost_and_where_it_stood_is_told(
    workspace: Workspace, start_process: Callable[..., Any], either_storage: str | None
) -> None:
    with (workspace.root / "backstory.yaml").open("a", encoding="utf-8") as settings:
        settings.write(f"storage: {{database: {json.dumps(either_storage)}}}\n")
    workspace = open_workspace(workspace.root)
    process = start_process(
        ["-m", "tests.pipeline.history.slow_run", str(workspace.root)],
        os.environ,
    )
    assert process.stdout.readline() == "there\n"
    [running] = workspace.runs.read()
    assert (running.status, running.process) == ("running", process.pid)
    standing = "at hits, 2025-03-14, 1 of 3 partitions done"
    assert f"is {standing}, last progress" in running.describe()
    late = replace(running, heartbeat_at=time.time() - STALLED_SECONDS - 120)
    assert "no progress for 12 min" in late.describe()
    assert find_trouble([running, late]) == [late]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    [lost] = workspace.runs.read()
    assert lost.status == "lost"
    assert f"was {standing}, no progress for" in lost.describe()
    assert "`backstory run` resumes" in lost.describe()
    run_pipeline(workspace)
    assert sorted(workspace.tables.read("runs")["status"]) == ["lost", "succeeded"]
    assert find_trouble(workspace.runs.read()) == []
    assert not list((workspace.root / ".backstory").glob("*.lock"))


def test_a_run_beyond_its_limit_stops_before_the_next_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = open_history(tmp_path, runs={"max_minutes": 1})

    def run_for_a_minute() -> None:
        with history.record(BY_COMMAND, DAYS):
            history.advance("hits", DAYS[0], 0, 3)
            later = time.monotonic() + 61
            monkeypatch.setattr(time, "monotonic", lambda: later)
            history.advance("hits", DAYS[1], 1, 3)

    with raises(StoppedError, None, "runs.max_minutes"):
        run_for_a_minute()
    [record] = history.read()
    assert (record.status, record.stage, record.partition, record.done) == ("stopped", "hits", DAYS[1], 1)


def test_old_runs_are_dropped_from_history_and_table(tmp_path: Path) -> None:
    history = open_history(tmp_path, runs={"keep_months": 1})
    run_once(history, RunEnd(changed=True))
    age(history, timedelta(days=62).total_seconds())
    history.publish()
    assert open_tables(tmp_path / "data").read("runs").height == 1
    run_once(history, RunEnd(changed=True))
    assert len(history.read()) == 1
    assert open_tables(tmp_path / "data").read("runs")["run_id"].to_list() == [history.read()[0].run_id]


def test_a_damaged_or_foreign_file_of_the_table_is_found_and_written_again(tmp_path: Path) -> None:
    history = open_history(tmp_path)
    run_once(history, RunEnd(changed=True))
    [path] = (tmp_path / "data" / "runs").iterdir()
    intact = path.read_bytes()
    path.write_bytes(intact[:-9])
    history.publish()
    assert path.read_bytes() == intact


def test_two_runs_at_once_are_two_rows(tmp_path: Path) -> None:
    one, two = open_history(tmp_path), open_history(tmp_path)
    with one.record(BY_COMMAND, DAYS) as finish_one:
        with two.record(BY_COMMAND, DAYS[:1]) as finish_two:
            assert [record.status for record in one.read()] == ["running", "running"]
            finish_two(RunEnd(changed=True))
        finish_one(RunEnd(changed=True))
    assert open_tables(tmp_path / "data").read("runs")["status"].to_list() == ["succeeded", "succeeded"]


@ON_FILES
@pytest.mark.parametrize("seconds", [1.0, pytest.param(20.0, marks=pytest.mark.long)])
def test_processes_that_read_the_history_disturb_no_process_that_writes_it(
    tmp_path: Path, start_process: Callable[..., Any], seconds: float
) -> None:
    state = open_history(tmp_path).state
    with state.begin() as session:
        session.execute("INSERT INTO usage VALUES ('run', 'day', '', '', '', 0, 0, 1, 1, 1, 1, 1, 0)")
    rivals = [
        start_process(
            ["-m", "tests.pipeline.history.rival", str(tmp_path), kind, str(seconds)],
            os.environ,
        )
        for kind in ("write", "read", "read")
    ]
    told = [rival.communicate()[0].split(maxsplit=1) for rival in rivals]
    assert all(int(acts) > 0 for acts, *_ in told)
    assert [errors for _, *errors in told] == [[], [], []]
    state.examine()
