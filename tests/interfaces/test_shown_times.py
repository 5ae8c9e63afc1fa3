"""Times are shown by the clock of the conversation, with its zone named once; tables keep those of UTC."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.local_times import localize, write_span
from backstory.interfaces.library.library import Library
from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.interfaces.pages.site.build import build_site
from backstory.operations.inspection.windows import find_window, list_windows
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.views import read_writer_inputs
from tests.interfaces.cli.invocation import run
from tests.world import first_inputs, write_inputs

LATE = "2025-03-15T23:30:00Z"
"""In Berlin, this is half past midnight of the next day."""


@pytest.fixture(scope="module")
def berlin(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace in Berlin, with a conversation in Los Angeles, after a run that wrote posts."""
    inputs = {name: text for name, text in first_inputs().items() if not name.startswith("chats/")}
    settings = inputs["backstory.yaml"].replace(
        "folder: chats",
        "folder: chats, timezone: Europe/Berlin, overrides: {hill: {timezone: America/Los_Angeles}}",
    )
    row = {"timestamp": LATE, "author": "Ada Lind", "message": "The sourdough starter is sluggish"}
    root = tmp_path_factory.mktemp("berlin") / "workspace"
    write_inputs(
        root,
        {
            **inputs,
            "backstory.yaml": f"{settings}writers: {{provider: digest}}\n",
            "chats/river.jsonl": json.dumps(row),
            "chats/hill.jsonl": json.dumps(row),
        },
    )
    run_pipeline(open_workspace(root))
    return open_workspace(root)


def test_a_span_names_its_zone_once_and_the_distance_from_utc_where_the_clock_was_changed() -> None:
    first, last = datetime(2025, 10, 25, 23, 30, tzinfo=UTC), datetime(2025, 10, 26, 3, 30, tzinfo=UTC)
    assert write_span(first, last) == "2025-10-25 23:30 to 2025-10-26 03:30 UTC"
    kathmandu = [localize(moment, "Asia/Kathmandu") for moment in (first, last)]
    assert write_span(*kathmandu) == "2025-10-26 05:15 to 09:15 Asia/Kathmandu"
    berlin = [localize(moment, "Europe/Berlin") for moment in (first, last)]
    assert write_span(*berlin) == "2025-10-26 01:30 (+0200) to 04:30 (+0100) Europe/Berlin"


def test_a_window_is_found_and_listed_by_its_local_day(berlin: Workspace) -> None:
    shown = {row["conversation_id"]: row for row in list_windows(berlin)}
    assert {name: f"{row['started_at']:%Y-%m-%d %H:%M}" for name, row in shown.items()} == {
        "river": "2025-03-16 00:30",
        "hill": "2025-03-15 16:30",
    }
    assert {name: row["partition"] for name, row in shown.items()} == {
        "river": "2025-03-16",
        "hill": "2025-03-15",
    }
    assert find_window(berlin, "2025-03-16")["conversation_id"] == "river"
    [listed] = list_windows(berlin, first=date(2025, 3, 15), last=date(2025, 3, 15))
    assert listed["conversation_id"] == "hill"
    assert {row["started_at"] for row in shown.values()} == {datetime.fromisoformat(LATE)}
    told = run("windows", "-w", str(berlin.root)).output
    assert "2025-03-16 00:30 to 00:30 Europe/Berlin" in told
    assert "2025-03-15 16:30 to 16:30 America/Los_Angeles" in told


def test_posts_reports_and_the_site_show_the_clock_of_the_conversation(
    berlin: Workspace, tmp_path: Path
) -> None:
    [hill, river] = [path.read_text("utf-8") for path in sorted(berlin.posts_dir.glob("*.md"))]
    assert [path.name[:15] for path in sorted(berlin.posts_dir.glob("*.md"))] == [
        "2025-03-15-hill",
        "2025-03-16-rive",
    ]
    assert "16 March 2025 00:30 to 00:30 Europe/Berlin" in river
    assert 'date: "2025-03-16T00:30:00+01:00"' in river
    assert "15 March 2025 16:30 to 16:30 America/Los_Angeles" in hill
    assert 'date: "2025-03-15T16:30:00-07:00"' in hill
    assert set(berlin.tables.read("posts")["published_at"]) == {datetime.fromisoformat(LATE)}
    page = write_window_page(berlin, "2025-03-16", tmp_path / "page.html").read_text("utf-8")
    assert "2025-03-16 00:30 to 00:30 Europe/Berlin" in page
    assert "UTC" not in page
    build_site(berlin, tmp_path / "site")
    pages = "".join(path.read_text("utf-8") for path in (tmp_path / "site").rglob("*.html"))
    assert "2025-03-16 00:30 to 00:30 Europe/Berlin" in pages


def test_a_date_without_a_time_is_a_day_of_the_workspace_wherever_it_is_shown(berlin: Workspace) -> None:
    midnight = datetime(2024, 6, 30, 22, tzinfo=UTC)  # sourdough.md is of the first of July
    rows = berlin.tables.read("contexts").filter(slug="sourdough")
    assert set(rows["published_at"]) == {midnight}
    texts = berlin.tables.read("window_contexts").select("text", "cited_text").rows()
    assert all("2024-07-01" in text and "2024-06-30" not in text for row in texts for text in row)
    posts = [path.read_text("utf-8") for path in berlin.posts_dir.glob("*.md")]
    assert all("1 July 2024" in text for text in posts)
    with Library.open(berlin.root) as library:
        hits = library.search("sluggish sourdough starter").hits
        assert {f"{hit.date:%Y-%m-%d}" for hit in hits if hit.slug == "sourdough"} == {"2024-07-01"}
        told = library.context("The sourdough starter is sluggish")
        assert {f"{one.date:%Y-%m-%d}" for one in told.documents if one.uri == "sourdough.md"} == {
            "2024-07-01"
        }
        assert "2024-07-01" in told.text
        assert {
            f"{one.date:%Y-%m-%d}" for one in library.documents().documents if one.slug == "sourdough"
        } == {"2024-07-01"}
    for command in (("documents",), ("search", "sourdough"), ("context", "2025-03-16"), ("check",)):
        shown = run(*command, "-w", str(berlin.root)).output
        assert "2024-07-01" in shown, command
        assert "2024-06-30" not in shown, command
    of_day = run("search", "sourdough", "--as-of", "2024-07-01", "-w", str(berlin.root)).output
    of_day_before = run("search", "sourdough", "--as-of", "2024-06-30", "-w", str(berlin.root)).output
    assert ("2024-07-01" in of_day, "2024-07-01" in of_day_before) == (True, False)


def test_runs_are_listed_by_the_clock_of_the_workspace(berlin: Workspace) -> None:
    [record] = berlin.runs.read(1)
    told = run("status", "--runs", "-w", str(berlin.root)).output
    assert "started (Europe/Berlin)" in told
    assert f"{localize(record.as_row()['started_at'], 'Europe/Berlin'):%Y-%m-%d %H:%M:%S}" in told


def test_the_input_of_a_writer_has_local_times_and_their_zone_beside_those_of_utc(berlin: Workspace) -> None:
    rows = {row["conversation_id"]: row for row in read_writer_inputs(berlin.tables).iter_rows(named=True)}
    assert "2025-03-16 00:30 **" in rows["river"]["messages"]
    assert "2025-03-15 16:30 **" in rows["hill"]["messages"]
    assert {name: row["timezone"] for name, row in rows.items()} == {
        "river": "Europe/Berlin",
        "hill": "America/Los_Angeles",
    }
    assert {row["started_at"] for row in rows.values()} == {datetime.fromisoformat(LATE)}
    local = {name: f"{row['local_started_at']:%Y-%m-%d %H:%M}" for name, row in rows.items()}
    assert local == {"river": "2025-03-16 00:30", "hill": "2025-03-15 16:30"}
