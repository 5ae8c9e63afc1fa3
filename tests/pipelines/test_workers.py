"""Workers of several machines make the tables that one machine makes, and what kills one of them changes nothing."""

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from backstory import run_pipeline
from backstory.base.environment import PSEUDONYM_KEY_VARIABLE
from backstory.pipeline.sharing import sharing
from backstory.pipeline.workspace import open_workspace
from benchmarks.workers import hash_tables
from tests.bucket import Bucket
from tests.pipelines.machines import KEY, Machines, share
from tests.pipelines.ui_process import wait_for
from tests.postgres import PostgresServer
from tests.workspaces import POSTS, SETTINGS

pytestmark = pytest.mark.long

DAYS = [date(2025, 3, 1) + timedelta(days=place) for place in range(40)]
RANGES = [("2025-03-01", "2025-03-13"), ("2025-03-14", "2025-03-26"), ("2025-03-27", "2025-04-09")]
WORKERS = ("one", "two")
SUBJECTS = (
    "the drip line",
    "a clicking disk",
    "the sourdough",
    "the night train",
    "the wheel of the trolley",
)
ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def write_inputs(root: Path) -> None:
    """Write a chat of forty days, and documents."""
    for folder in ("chats", "posts"):
        (root / folder).mkdir(parents=True)
    lines = [
        f"{day:%d/%m/%Y}, {9 + place}:00 - {('Ada Lind', 'Ben Okri')[place % 2]}: "
        f"On day {number} somebody asks about {SUBJECTS[(number + place) % len(SUBJECTS)]}"
        for number, day in enumerate(DAYS)
        for place in range(6)
    ]
    (root / "chats" / "garden.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for file, (title, day, text) in POSTS.items():
        (root / "posts" / file).write_text(
            f"---\ntitle: {title}\ndate: {day}\n---\n\n{text}\n", encoding="utf-8"
        )


@pytest.fixture(name="alone")
def make_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make the tables on one machine, and give their hashes."""
    monkeypatch.setenv(PSEUDONYM_KEY_VARIABLE, KEY)
    root = tmp_path / "alone"
    write_inputs(root)
    (root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    (root / ".backstory").mkdir()
    (root / ".backstory" / "secret.key").write_text(f"{KEY}\n", encoding="ascii")
    run_pipeline(open_workspace(root))
    return hash_tables(root)


@pytest.fixture(name="machines")
def start_machines(
    tmp_path: Path, postgres_server: PostgresServer, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    """Give machines over a workspace whose inputs the first worker has published; none runs yet."""
    with share(tmp_path / "machines", SETTINGS, postgres_server, bucket) as machines:
        for name, value in machines.shared.items():
            monkeypatch.setenv(name, value)
        write_inputs(machines.workspace("one"))
        with sharing(open_workspace(machines.workspace("one"))):
            pass
        yield machines


def start(machines: Machines) -> None:
    """Start two workers, and the daemon that gives them the runs that wait."""
    for name in WORKERS:
        machines.start_worker(name)
    machines.start_daemon()


def wait_for_success(machines: Machines) -> None:
    """Wait until every run has succeeded, or a later attempt at it has."""
    wait_for(lambda: all(run.dagster_run.status in ENDED for run in machines.runs()), "all runs have ended")
    runs = [record.dagster_run for record in reversed(machines.runs())]
    last = {run.root_run_id or run.run_id: run.status for run in runs}
    assert set(last.values()) == {dg.DagsterRunStatus.SUCCESS}


def fetch_tables(machines: Machines) -> dict[str, str]:
    """Read the tables as a further machine does, which begins with the settings alone."""
    workspace = open_workspace(machines.workspace("reader"))
    with sharing(workspace):
        return hash_tables(workspace.root)


def test_two_workers_make_what_one_machine_makes(machines: Machines, alone: dict[str, str]) -> None:
    for first, last in RANGES:
        machines.launch(first, last)
    start(machines)
    wait_for_success(machines)
    times = sorted((record.start_time or 0, record.end_time or 0) for record in machines.runs())
    assert any(begin < end for (_, end), (begin, _) in pairwise(times))  # at the same time
    assert fetch_tables(machines) == alone


def test_the_run_of_a_killed_worker_is_done_by_another(machines: Machines, alone: dict[str, str]) -> None:
    machines.launch(str(DAYS[0]), str(DAYS[-1]))
    start(machines)
    wait_for(lambda: any(map(machines.is_executing, WORKERS)), "a worker executes the run")
    [busy] = filter(machines.is_executing, WORKERS)
    machines.kill(busy)
    wait_for_success(machines)
    assert fetch_tables(machines) == alone
