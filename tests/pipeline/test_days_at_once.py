"""Machines that share a database and a store make different days at the same time, and the tables of one machine."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.executor import RunEvent
from backstory.pipeline.run.runner import RunRequest, execute_run, may_divide_days
from backstory.pipeline.sharing import sharing
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.leases import Span, find_leases
from tests.pipeline.sharing.workers import hash_tables
from tests.postgres import PostgresServer, mounted
from tests.started_python import StartedPython, run_python
from tests.workspaces import SETTINGS

EARLIER, LATER = ["2025-03-13", "2025-03-14"], ["2025-03-15", "2025-03-16"]
RUN = [
    "-c",
    """import json, logging, sys
from pathlib import Path
from backstory.pipeline.run.runner import RunRequest, execute_run
from backstory.pipeline.workspace import open_workspace

class Say(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("waiting for"):
            print("waits", flush=True)

logging.getLogger("backstory.storage.tables.locks").addHandler(Say())
assert execute_run(open_workspace(Path(sys.argv[1])), RunRequest(partitions=json.loads(sys.argv[2]))).finished
print("ended")
""",
]
MakeMachine = Callable[[str], Workspace]


@pytest.fixture
def make_machine(
    made_workspace: Workspace, tmp_path: Path, postgres_server: PostgresServer
) -> Iterator[MakeMachine]:
    """Give a function that makes machines with the inputs of the small workspace; its tables are not made."""
    database, files = postgres_server.make_address(), f"file://{tmp_path}/store"
    settings = f"{SETTINGS}storage: {{database: '{database}', files: '{files}'}}\n"

    def make(name: str) -> Workspace:
        root = tmp_path / name
        root.mkdir()
        (root / "backstory.yaml").write_text(settings, encoding="utf-8")
        for folder in ("chats", "posts", ".backstory"):
            shutil.copytree(made_workspace.root / folder, root / folder)
        return open_workspace(root)

    with mounted(tmp_path / "one", database), mounted(tmp_path / "two", database):
        yield make


@pytest.mark.parametrize("first", [pytest.param(EARLIER, marks=pytest.mark.long), LATER])
def test_a_run_over_other_days_begins_and_ends_while_one_is_under_way(
    first: list[str], make_machine: MakeMachine, made_workspace: Workspace
) -> None:
    one, two = make_machine("one"), make_machine("two")
    ended = []

    def run_the_rest(event: RunEvent) -> None:
        if isinstance(event, StageResult) and event.table == "hits":
            rest = LATER if first == EARLIER else EARLIER
            ended.append(run_python([*RUN, str(two.root), json.dumps(rest)], check=True).stdout)

    assert execute_run(one, RunRequest(partitions=first), run_the_rest).finished
    assert ended == ["ended\n"]
    for machine in (one, two):  # a publication that is joined with another leaves that to the next fetch
        with sharing(machine):
            pass
    assert hash_tables(one) == hash_tables(two) == hash_tables(made_workspace)
    assert sum(report.computed for report in run_pipeline(two)) == 0


def test_days_that_overlap_and_posts_that_are_documents_wait(make_machine: MakeMachine) -> None:
    one = make_machine("one")
    assert may_divide_days(one)
    leases = find_leases(one.tables)
    assert leases is not None
    held = leases.take("run", Span("2025-03-14", "2025-03-20"), "another machine")
    waits = StartedPython([*RUN, str(one.root), json.dumps(LATER)], stdout=subprocess.PIPE)
    assert waits.stdout is not None
    assert waits.stdout.readline() == "waits\n"
    leases.release(held)
    assert waits.communicate()[0] == "ended\n"

    chained = one.root / "backstory.yaml"
    text = chained.read_text(encoding="utf-8")
    for writers in ("{provider: digest, feedback: 'on'}", "{provider: digest, grain: week}"):
        chained.write_text(f"{text}writers: {writers}\n", encoding="utf-8")
        assert not may_divide_days(open_workspace(one.root))
