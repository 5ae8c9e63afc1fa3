"""A range is made in groups of partitions: whatever their size, and whatever kills them, the rows are the same."""

import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import run_pipeline
from backstory.pipeline.incremental.inputs import group_partitions
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.forms import Share
from tests.pipeline.test_run import hash_files
from tests.started_python import run_python
from tests.workspaces import write_workspace

DAYS = [f"2025-03-{day:02}" for day in range(11, 21)]
SETTINGS = """\
partitions: {start: 2025-03-01, rows_at_once: %d}
windows: {unit: messages, size: 6, overlap: 2}
embedding: {provider: hashing}
rag: {top_k: 3}
"""
KILLED_AFTER = """
import os, signal, sys
from pathlib import Path
from backstory import pipeline, run_pipeline
from backstory.storage.tables.tables import Tables
from backstory.pipeline.workspace import open_workspace

commit, calls = Tables.commit, []

def commit_or_die(self, made, **options):
    if any(table == sys.argv[2] for table, _ in made):
        calls.append(made)
        if len(calls) == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
    return commit(self, made, **options)

Tables.commit = commit_or_die
run_pipeline(open_workspace(Path(sys.argv[1])))
"""


Whole = tuple[Workspace, list[StageResult]]


def write_long_workspace(root: Path, rows_at_once: int) -> Workspace:
    """Write a workspace with ten days of chat, for any size of group."""
    workspace = write_workspace(root, SETTINGS % rows_at_once)
    topics = ["the drip irrigation line", "my backup disk", "the sourdough starter", "the night train"]
    lines = [
        f"{day[8:]}/03/2025, 09:{number:02} - {('Ada Lind', 'Ben Okri')[number % 2]}: "
        f"We talked about {topics[(number + place) % 4]} for the {number + 1}th time on day {place}"
        for place, day in enumerate(DAYS)
        for number in range(3 + 2 * (place % 4))
        if place != 6
    ]
    (workspace.chats_dir / "garden.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    workspace.secret.parent.mkdir()
    workspace.secret.write_text("ab" * 32, encoding="ascii")
    workspace.secret.chmod(0o600)
    return workspace


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A workspace that was made in one group, which no test changes, and the reports of its stages."""
    workspace = write_long_workspace(tmp_path_factory.mktemp("groups") / "whole", 50_000)
    return workspace, run_pipeline(workspace)


def count_figures(report: StageResult) -> dict[str, int | float | str]:
    """Give the figures that do not depend on time, nor on which texts a group shares with an earlier one."""
    passing = ("embedding_seconds", "embedding_unique", "embedding_cached")
    return {name: value for name, value in report.counts.items() if name not in passing}


@pytest.mark.parametrize(
    "rows_at_once", [*(pytest.param(rows, marks=pytest.mark.long) for rows in (1, 7)), 30]
)
def test_the_size_of_the_groups_changes_no_byte(whole: Whole, tmp_path: Path, rows_at_once: int) -> None:
    undivided, reports = whole
    grouped = write_long_workspace(tmp_path / "grouped", rows_at_once)
    grouped_reports = run_pipeline(grouped)
    assert len(undivided.tables.keys("contexts")) == len(DAYS) - 1
    assert hash_files(grouped.tables_dir) == hash_files(undivided.tables_dir)
    assert [count_figures(report) for report in grouped_reports] == [
        count_figures(report) for report in reports
    ]


@pytest.mark.parametrize(
    ("table", "group"),
    [
        pytest.param("messages", 3, marks=pytest.mark.long),
        pytest.param("hits", 2, marks=pytest.mark.long),
        ("contexts", 5),
    ],
)
def test_a_kill_between_groups_loses_one_group_at_most(
    whole: Whole, tmp_path: Path, table: str, group: int, share: Share
) -> None:
    undisturbed, _ = whole
    root = write_long_workspace(tmp_path / "killed", 1).root
    share(root)
    killed = open_workspace(root)
    process = run_python(["-c", KILLED_AFTER, str(killed.root), table, str(group)])
    assert process.returncode == -signal.SIGKILL
    done = killed.catalog.read(table)
    assert len(done) >= group - 1
    again = {report.table: report for report in run_pipeline(open_workspace(killed.root))}
    # Of several machines, each makes the messages of the day before, too.
    assert again[table].computed == len(again[table].keys) - len(done)
    assert hash_files(killed.tables_dir) == hash_files(undisturbed.tables_dir)


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 25))
def test_groups_are_runs_within_the_limit(weights: list[int], most: int) -> None:
    keys = [f"day {number:02}" for number in range(len(weights))]
    weight_of = dict(zip(keys, weights, strict=True))
    groups = group_partitions(keys, weight_of, most)
    sums = [sum(weight_of[key] for key in group) for group in groups]
    assert [key for group in groups for key in group] == keys
    assert all(total <= most or len(group) == 1 for total, group in zip(sums, groups, strict=True))
    assert all(
        total + weight_of[following[0]] > most for total, following in zip(sums[:-1], groups[1:], strict=True)
    )
