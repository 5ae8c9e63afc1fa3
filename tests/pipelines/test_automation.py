"""What the sensor and the schedule ask for, tick by tick, on a real workspace."""

import os
from datetime import UTC, datetime

import dagster as dg

from backstory.pipeline.changes import join_ranges
from backstory.tables.partitions import partition_range
from backstory.workspace import Workspace
from pipelines.automation import RANGE_END, RANGE_START
from pipelines.definitions import define


def tick(workspace: Workspace, cursor: str | None) -> tuple[list[tuple[str, str]], str | None]:
    definitions = define(workspace)
    sensor = definitions.resolve_sensor_def("changed_files")
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, cursor=cursor, definitions=definitions)
        evaluated = sensor.evaluate_tick(context)
    ranges = [
        (request.tags[RANGE_START], request.tags[RANGE_END]) for request in evaluated.run_requests or []
    ]
    return ranges, evaluated.cursor or cursor


def test_the_sensor_asks_for_changed_days_alone(workspace: Workspace) -> None:
    chat = workspace.exports / "garden.txt"
    ranges, cursor = tick(workspace, None)
    assert ranges == [("2025-03-13", "2025-03-13"), ("2025-03-15", "2025-03-15")]
    assert tick(workspace, cursor) == ([], cursor)
    os.utime(chat, (1, 1))
    assert tick(workspace, cursor) == ([], cursor)
    late = "14/03/2025, 22:00 - Ada Lind: A late one\n"
    chat.write_text(chat.read_text(encoding="utf-8") + late, encoding="utf-8")
    # Windows overlap here, so that the day after a late message has changed, too.
    ranges, cursor = tick(workspace, cursor)
    assert ranges == [("2025-03-14", "2025-03-15")]
    post = workspace.posts / "unrelated.md"
    post.write_text(post.read_text(encoding="utf-8") + "\nMore.\n", encoding="utf-8")
    ranges, cursor = tick(workspace, cursor)
    assert ranges == [("2025-03-13", "2025-03-15")]
    assert tick(workspace, cursor) == ([], cursor)


def test_scattered_days_are_joined_to_few_ranges_across_the_narrowest_gaps() -> None:
    calendar = partition_range("2025-01-01", "2025-12-31", "day")
    scattered = ["2025-01-01", "2025-01-02", "2025-03-01", "2025-03-05", "2025-09-01", "2025-12-31"]
    assert join_ranges(scattered, calendar, 3) == [
        ("2025-01-01", "2025-03-05"),
        ("2025-09-01", "2025-09-01"),
        ("2025-12-31", "2025-12-31"),
    ]
    assert join_ranges(scattered, calendar, 1) == [("2025-01-01", "2025-12-31")]
    assert join_ranges([], calendar, 3) == []


def test_the_schedule_asks_for_the_day_that_has_ended_and_some_before_it(workspace: Workspace) -> None:
    schedule = define(workspace).resolve_schedule_def("materialize_recent")
    context = dg.build_schedule_context(scheduled_execution_time=datetime(2025, 3, 14, 3, tzinfo=UTC))
    [request] = schedule.evaluate_tick(context).run_requests or []
    assert (request.tags[RANGE_START], request.tags[RANGE_END]) == ("2025-03-10", "2025-03-13")
