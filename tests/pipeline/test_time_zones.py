"""Days of a conversation follow its clock: where they end, which windows they hold, and what another zone changes."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from backstory.pipeline.workspace import open_workspace
from tests.long_tests import LONG_TESTS
from tests.world import (
    FreshWorkspaces,
    describe,
    feedback_inputs,
    first_inputs,
    run,
    write_inputs,
)

EVENINGS = (
    "2025-03-29T22:30:00Z", "2025-03-29T23:30:00Z", "2025-03-30T00:30:00Z", "2025-03-30T01:30:00Z",
    "2025-03-30T21:30:00Z", "2025-03-30T22:30:00Z", "2025-03-31T06:30:00Z", "2025-03-31T17:45:00Z",
    "2025-03-31T18:30:00Z",
)  # fmt: skip
"""Times around the ends of days in Berlin (whose 30 March has 23 hours), Los Angeles and Kathmandu."""
ZONES = (
    "timezone: UTC",
    "timezone: Europe/Berlin, overrides: {hill: {timezone: America/Los_Angeles}}",
    "timezone: Asia/Kathmandu",
    "timezone: Europe/Berlin",
    "timezone: UTC",
)
TEXTS = ("The drip irrigation line broke", "A clicking backup disk", "Feed the sourdough starter")


def told(times: tuple[str, ...] = EVENINGS) -> str:
    """Write an export whose times state their zone."""
    rows = (
        {"timestamp": time, "author": ("Ada Lind", "Ben Okri")[place % 2], "message": TEXTS[place % 3]}
        for place, time in enumerate(times)
    )
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def make_inputs(conversations: str, inputs: dict[str, str], unit: str = "day") -> dict[str, str]:
    settings = inputs["backstory.yaml"].replace("folder: chats", f"folder: chats, {conversations}")
    settings = settings.replace("{unit: messages, size: 6, overlap: 2}", f"{{unit: {unit}}}")
    posts = {name: text for name, text in inputs.items() if name.startswith("posts/")}
    return {**posts, "backstory.yaml": settings, "chats/river.jsonl": told(), "chats/hill.jsonl": told()}


@pytest.mark.parametrize(
    "feedback",
    [*(pytest.param(scope, marks=pytest.mark.long) for scope in ("off", "workspace")), "conversation"],
)
def test_another_zone_makes_again_what_a_workspace_without_a_history_has(
    tmp_path: Path, feedback: str
) -> None:
    fresh, root = FreshWorkspaces(tmp_path), tmp_path / "workspace"
    before: dict[str, str] = {}
    base = first_inputs() if feedback == "off" else feedback_inputs()
    base["backstory.yaml"] = base["backstory.yaml"].replace("'on'", f"'on', feedback_scope: {feedback}")
    tried = len(ZONES) if LONG_TESTS else 2
    for zones in ZONES[:tried]:
        inputs = make_inputs(zones, base)
        write_inputs(root, inputs)
        assert run(root).success
        if before:  # at first, the workspace has no history
            found, expected = describe(root), fresh.describe(inputs)
            assert [name for name in expected if found[name] != expected[name]] == [], zones
        assert run(root).fresh
        workspace = open_workspace(root)
        messages, windows = (workspace.tables.read(name) for name in ("messages", "windows"))
        own = "overrides" in zones and feedback != "workspace"
        shared = zones.split()[1].rstrip(",")
        now = {"river": shared, "hill": "America/Los_Angeles" if own else shared}
        assert dict(messages.select("conversation_id", "timezone").unique().iter_rows()) == now
        before = now
        days = {
            key: {
                row["timestamp"].astimezone(ZoneInfo(row["timezone"])).date().isoformat()
                for row in workspace.tables.read("messages", [key]).iter_rows(named=True)
            }
            for key in workspace.tables.keys("messages")
        }
        assert all(days[key] <= {key} for key in days), "a message is in the partition of its local date"
        assert len(messages) == 2 * len(EVENINGS)
        for row in windows.iter_rows(named=True):
            zone = ZoneInfo(row["timezone"])
            ends = [row[name].astimezone(zone).date().isoformat() for name in ("started_at", "ended_at")]
            assert ends == [row["partition"]] * 2, "a day is one window"
        assert len(windows) == sum(
            workspace.tables.read("messages", [key])["conversation_id"].n_unique() for key in days
        )


@pytest.mark.parametrize(("day", "hours"), [("2025-03-30", 23), ("2025-10-26", 25)])
def test_a_day_on_which_the_clock_is_changed_is_one_window(tmp_path: Path, day: str, hours: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    midnight = datetime.fromisoformat(day).replace(tzinfo=zone).astimezone(ZoneInfo("UTC"))
    times = [(midnight + timedelta(hours=hour)).isoformat() for hour in range(-3, 30)]
    inputs = make_inputs("timezone: Europe/Berlin", first_inputs())
    del inputs["chats/hill.jsonl"]
    write_inputs(tmp_path / "workspace", {**inputs, "chats/river.jsonl": told(tuple(times))})
    assert run(tmp_path / "workspace").finished
    windows = open_workspace(tmp_path / "workspace").tables.read("windows")
    assert windows.filter(pl.col("partition") == day)["message_count"].to_list() == [hours]
    assert windows["message_count"].sum() == len(times)


def test_a_zone_under_the_id_of_the_tables_decides_the_last_day(tmp_path: Path) -> None:
    inputs = make_inputs("timezone: UTC", first_inputs())
    del inputs["chats/hill.jsonl"]
    inputs["chats/talk with Ben Okri.jsonl"] = inputs.pop("chats/river.jsonl").replace("T18:", "T22:")
    root = tmp_path / "workspace"
    write_inputs(root, inputs)
    assert run(root).finished
    [conversation] = open_workspace(root).tables.read("windows")["conversation_id"].unique()
    assert "Ben" not in conversation
    zones = f"timezone: UTC, overrides: {{{conversation}: {{timezone: Asia/Kathmandu}}}}"
    settings = inputs["backstory.yaml"].replace("timezone: UTC", zones)
    assert settings != inputs["backstory.yaml"]
    write_inputs(root, {**inputs, "backstory.yaml": settings})
    assert run(root).finished
    messages = open_workspace(root).tables.read("messages")
    assert messages["timezone"].unique().to_list() == ["Asia/Kathmandu"]
    assert open_workspace(root).tables.keys("messages")[-1] == "2025-04-01"
    assert len(messages) == len(EVENINGS)
