"""Runs in batch mode: they stop and go on, are killed and go on, and end with the tables of a run by normal calls."""

import os
import signal
import subprocess
from collections.abc import Callable

import dagster as dg
import pytest

from backstory.interfaces.cli.run import exit_code
from backstory.operations.inspection.doctor import examine
from backstory.operations.inspection.status import read_status
from backstory.pipeline.run.runner import RunResult, execute_stages, find_wanted
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.parquet import hash_partitions, list_partitions
from backstory.storage.tables.schemas import TABLES
from pipelines.batches import make_batch_sensors
from pipelines.materialization import execute_job
from pipelines.run_plan import RANGE_END, RANGE_START
from tests.models.services.gemini_server import Answer, GeminiServer
from tests.started_python import StartedPython
from tests.workspaces import run_workspace

SETTINGS = """\
conversations: {{folder: chats}}
partitions: {{start: 2025-03-01}}
privacy: {{pseudonyms: false}}
windows: {{unit: messages, size: 6, overlap: 2}}
services: {{gemini: {{base_url: "{url}", texts_per_minute: 100000, tokens_per_minute: 10000000}}}}
embedding: {{provider: gemini, dimension: 16, {more}}}
rag: {{top_k: 3, min_similarity: -1}}
"""
BATCH = "batch: true, batch_min_texts: 1"
MAIN = "from backstory.interfaces.cli.app import main; main()"
WAITING = 4

Make = Callable[..., Workspace]

pytestmark = pytest.mark.usefixtures("api_key", "own_state_storage")


@pytest.fixture
def batched(make_workspace: Make, server: GeminiServer) -> Workspace:
    return make_workspace(SETTINGS.format(url=server.url, more=BATCH), "batched")


def run(workspace: Workspace) -> RunResult:
    opened = open_workspace(workspace.root)
    return run_workspace(opened, find_wanted(opened, None, None), lambda _: None, execute_stages)


def contents(workspace: Workspace) -> dict[str, dict[str, str]]:
    return {table: hash_partitions(workspace.tables, table) for table in TABLES}


def test_a_run_waits_once_and_then_equals_a_run_by_normal_calls(
    batched: Workspace, make_workspace: Make, server: GeminiServer
) -> None:
    first = run(batched)
    assert (first.success, exit_code(first)) == (True, WAITING)
    assert "2 batch jobs with " in first.waiting
    # Those of one moment have no order.
    assert sorted(job["texts"] for job in read_status(batched)["embedding_jobs"]) == sorted(
        len(job.texts) for job in server.jobs.all
    )
    [examined] = [found for found in examine(batched.root) if found.name == "batch jobs"]
    assert examined.passed
    assert "2 batch jobs with " in examined.detail
    assert exit_code(run(batched)) == WAITING
    assert len(server.jobs.all) == 2

    server.jobs.finish()
    done = run(batched)

    assert exit_code(done) == 0
    assert done.total("embedding_computed") == 0
    assert len(server.jobs.texts) == len(set(server.jobs.texts))
    assert run(batched).fresh
    plain = make_workspace(SETTINGS.format(url=server.url, more="batch: false"), "plain")
    assert exit_code(run(plain)) == 0
    assert contents(batched) == contents(plain)
    assert read_status(batched)["index_version"] == read_status(plain)["index_version"]


def test_a_run_that_is_killed_while_it_submits_goes_on_with_the_job_that_was_received(
    batched: Workspace, server: GeminiServer
) -> None:
    started: list[StartedPython] = []

    def kill(_: Answer) -> Answer | None:
        os.kill(started[0].pid, signal.SIGKILL)
        started[0].wait()
        return None

    server.batch_script.append(kill)
    words = ["-c", MAIN, "run", "--workspace", str(batched.root)]
    started.append(StartedPython(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    assert started[0].wait(600) == -signal.SIGKILL
    assert [job.name for job in batched.batch_job_store.list_jobs()] == [None]

    assert exit_code(run(batched)) == WAITING
    server.jobs.finish()
    assert exit_code(run(batched)) == 0

    assert len(server.jobs.all) == 2
    assert len(server.jobs.texts) == len(set(server.jobs.texts))


def tick(workspace: Workspace, cursor: str | None) -> tuple[list[dg.RunRequest], str | None, str | None]:
    [sensor] = make_batch_sensors(workspace, dg.define_asset_job("everything"))
    with dg.DagsterInstance.ephemeral() as instance:
        evaluated = sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=cursor))
    return list(evaluated.run_requests or []), evaluated.cursor or cursor, evaluated.skip_message


def test_dagster_waits_without_a_failure_and_its_sensor_requests_the_waiting_days(
    batched: Workspace, server: GeminiServer
) -> None:
    assert tick(batched, None)[2] == "no partition waits for batch jobs"
    opened = open_workspace(batched.root)
    outcome = run_workspace(opened, find_wanted(opened, None, None), lambda _: None, execute_job)
    assert (exit_code(outcome), list(outcome.failures)) == (WAITING, [])
    assert list_partitions(batched.tables, "window_chunks")
    assert list_partitions(batched.tables, "hits") == []
    requests, cursor, said = tick(batched, None)
    assert requests == []
    assert "2 batch jobs with " in str(said)

    server.jobs.finish()
    requests, cursor, _ = tick(batched, cursor)

    assert [(asked.tags[RANGE_START], asked.tags[RANGE_END]) for asked in requests] == [
        ("2025-03-13", "2025-03-13"),
        ("2025-03-15", "2025-03-15"),
    ]
    assert [asked.run_key for asked in tick(batched, cursor)[0]] == [asked.run_key for asked in requests]
    calls = len(server.batch_calls)
    assert exit_code(run(batched)) == 0
    assert tick(batched, cursor)[2] == "no partition waits for batch jobs"
    assert (len(server.batch_calls), server.requests) == (calls, [])


def test_without_batch_mode_there_is_no_sensor_for_it(make_workspace: Make, server: GeminiServer) -> None:
    plain = make_workspace(SETTINGS.format(url=server.url, more="batch: false"), "plain")

    assert make_batch_sensors(plain, dg.define_asset_job("everything")) == []
