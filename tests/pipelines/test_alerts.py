"""Alerts of runs that Dagster's daemon starts: each sends its own, and the sensor those of killed runs."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterUserCodeExecutionError

from assets.tags import tag_range
from backstory.base.errors import ModelSetupError
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.automation import JOB, make_alert_sensors
from pipelines.definitions import define
from pipelines.instance import open_instance

pytestmark = pytest.mark.usefixtures("own_state_storage", "prepared_home")

DAYS = ("2025-03-13", "2025-03-15")
HOOK = f"""#!{sys.executable}
import sys
with open("told.jsonl", "a") as told:
    told.write(sys.stdin.read() + chr(10))
"""


@pytest.fixture
def alerted(workspace: Workspace) -> Workspace:
    hook = workspace.root / "hook"
    hook.write_text(HOOK, encoding="utf-8")
    hook.chmod(0o700)
    with (workspace.root / "backstory.yaml").open("a", encoding="utf-8") as settings:
        settings.write("alerts: {command: [./hook], timeout_seconds: 600}\n")
    return open_workspace(workspace.root)


@pytest.fixture
def instance(alerted: Workspace) -> Iterator[dg.DagsterInstance]:
    with open_instance(alerted) as opened:
        yield opened


def read_told(workspace: Workspace) -> list[dict[str, Any]]:
    lines = (workspace.root / "told.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def evaluate(workspace: Workspace, instance: dg.DagsterInstance, run_id: str) -> None:
    """Give a failed run to the sensor, as the daemon does."""
    run = instance.get_run_by_id(run_id)
    assert run is not None
    [sensor] = make_alert_sensors(workspace)
    [entry] = instance.all_logs(run_id, of_type={dg.DagsterEventType.RUN_FAILURE})
    assert entry.dagster_event is not None
    context = dg.build_run_status_sensor_context(sensor.name, entry.dagster_event, instance, run)
    sensor(context.for_run_failure())


def execute(workspace: Workspace, instance: dg.DagsterInstance) -> str:
    """Make the table of the messages and those beside it."""
    result = (
        define(workspace)
        .resolve_job_def(JOB)
        .execute_in_process(
            instance=instance,
            tags=tag_range(*DAYS),
            raise_on_error=False,
            asset_selection=[dg.AssetKey(table) for table in ("messages", "quarantine", "sources")],
        )
    )
    return str(result.run_id)


def test_without_a_hook_there_is_no_sensor(workspace: Workspace) -> None:
    assert make_alert_sensors(workspace) == []


def test_a_failed_run_is_told_and_so_is_what_a_later_one_finds_in_its_place(
    alerted: Workspace, instance: dg.DagsterInstance
) -> None:
    chat = alerted.chats_dir / "garden.txt"
    text = chat.read_text(encoding="utf-8")
    chat.write_text("no chat", encoding="utf-8")
    failed = execute(alerted, instance)
    evaluate(alerted, instance, failed)
    (told,) = read_told(alerted)
    assert (told["event"], told["status"], told["run_id"]) == ("problems", "failed", failed)
    assert told["partitions"] == {"first": DAYS[0], "last": DAYS[1], "count": 3}
    assert "no message could be read" in told["failures"][0]["sentence"]
    assert told["seconds"] > 0

    chat.write_text(text, encoding="utf-8")
    (alerted.chats_dir / "notes.txt").write_text("no chat", encoding="utf-8")
    ended_well = execute(alerted, instance)
    last = read_told(alerted)[-1]
    assert (last["event"], last["status"]) == ("problems", "warned")
    assert (last["failures"], last["files"]) == ([], [])
    assert [(found["check"], found["count"]) for found in last["findings"]] == [("unread_lines", 1)]
    assert last["cost"]["embedding_computed"] == 0
    assert last["resolved"] == [told["failures"][0]["sentence"]]

    messages = [entry.user_message for entry in instance.all_logs(ended_well)]
    assert any(message.startswith("materialized table=messages rows=12") for message in messages)
    assert any(message.startswith("checked table=quarantine check=") for message in messages)


@pytest.mark.parametrize(("grain", "count"), [("day", 3), ("month", 0)])
def test_a_run_whose_process_was_killed_is_told_whatever_its_grain(
    alerted: Workspace, instance: dg.DagsterInstance, grain: str, count: int
) -> None:
    run = instance.create_run_for_job(define(alerted).resolve_job_def(JOB), tags=tag_range(*DAYS))
    settings = alerted.root / "backstory.yaml"
    settings.write_text(settings.read_text("utf-8").replace("start:", f"grain: {grain}, start:"), "utf-8")
    instance.report_run_failed(run, "The process of this run is gone, as after a loss of the machine.")
    evaluate(alerted, instance, run.run_id)
    (told,) = read_told(alerted)
    assert told["failures"][0]["sentence"] == (
        "the run ended without a result: The process of this run is gone, as after a loss of the machine."
    )
    assert told["partitions"]["count"] == count


def test_a_key_with_which_no_run_can_be_planned_is_told(
    alerted: Workspace, instance: dg.DagsterInstance
) -> None:
    execute(alerted, instance)
    alerted.secret.chmod(0o600)
    alerted.secret.write_text("no key", encoding="utf-8")
    (alerted.chats_dir / "more.txt").write_text("15/03/2025, 19:00 - Ben: later\n", encoding="utf-8")
    context = dg.build_schedule_context(instance, scheduled_execution_time=datetime(2025, 3, 17, tzinfo=UTC))
    with pytest.raises(DagsterUserCodeExecutionError) as raised:
        define(alerted).resolve_schedule_def("materialize_recent").evaluate_tick(context)
    told = read_told(alerted)[-1]
    assert (told["event"], told["status"]) == ("problems", "failed")
    assert told["failures"][0]["sentence"] == str(raised.value.user_exception)


def test_an_absent_model_of_which_the_sensor_learns_is_told_once(
    alerted: Workspace, instance: dg.DagsterInstance
) -> None:
    settings = alerted.root / "backstory.yaml"
    settings.write_text(
        settings.read_text("utf-8").replace("provider: hashing", "model_dir: absent"), "utf-8"
    )
    context = dg.build_sensor_context(instance, definitions=define(alerted))
    for _ in range(2):
        with pytest.raises(ModelSetupError) as raised:
            define(alerted).resolve_sensor_def("changed_files").evaluate_tick(context)
    (told,) = read_told(alerted)
    assert told["failures"][0]["sentence"] == str(raised.value)
