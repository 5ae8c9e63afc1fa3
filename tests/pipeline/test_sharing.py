"""Machines that share a database and a store: their tables are those of one machine, whatever happens between them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from pydantic import SecretStr

from backstory import Library, run_pipeline
from backstory.base.errors import InputError, StateError, WorkspaceError
from backstory.operations.backup import restore_backup, restore_from_store, write_to_store
from backstory.operations.forgetting import forget
from backstory.operations.inspection.doctor import examine
from backstory.operations.moving import LOCAL, copy_workspace
from backstory.pipeline import sharing
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.run.run import Run, RunEvent
from backstory.pipeline.run.runner import execute_run, may_divide_days
from backstory.pipeline.stages.windows import WindowsStage
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.state import close_idle
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.tables import Made
from backstory.storage.turns import running
from tests.bucket import Bucket, Fault
from tests.errors import raises
from tests.long_tests import each_of
from tests.postgres import PostgresServer
from tests.started_python import StartedPython, run_python
from tests.workspaces import SETTINGS

EARLIER, LATER = ["2025-03-13", "2025-03-14"], ["2025-03-15", "2025-03-16"]
RUN = [
    "-c",
    """import json, logging, sys
from pathlib import Path
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import execute_run
from backstory.pipeline.workspace import open_workspace

class Say(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("waiting for"):
            print("waits", flush=True)

logging.getLogger("backstory.storage.turns").addHandler(Say())
assert execute_run(open_workspace(Path(sys.argv[1])), Run(json.loads(sys.argv[2]))).finished
print("ended")
""",
]
MakeMachine = Callable[[str], Workspace]


def list_files(workspace: Workspace) -> dict[str, dict[str, str]]:
    files = workspace.tables.list_files()
    return {table: files.get(table, {}) for table in TABLES}


@pytest.fixture
def make_machine(
    made_workspace: Workspace, tmp_path: Path, postgres_server: PostgresServer, bucket: Bucket
) -> Iterator[MakeMachine]:
    """Give a function that makes machines with the inputs of the small workspace; its tables are not made."""
    database, files = postgres_server.make_address(), f"{bucket.root}/{tmp_path.name}"
    settings = f"{SETTINGS}storage: {{database: '{database}', files: '{files}'}}\n"

    def make(name: str) -> Workspace:
        root = tmp_path / name
        root.mkdir()
        (root / "backstory.yaml").write_text(settings, encoding="utf-8")
        for folder in ("chats", "posts"):
            shutil.copytree(made_workspace.root / folder, root / folder)
        (root / ".backstory").mkdir()
        shutil.copy(made_workspace.secret, root / ".backstory" / "secret.key")
        return open_workspace(root)

    yield make
    close_idle(database)


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

    assert execute_run(one, Run(first), run_the_rest).finished
    assert ended == ["ended\n"]
    days = find_wanted(one, None, None)
    run_pipeline(one, days)
    assert list_files(one) == list_files(two)
    assert list_files(one) == {
        table: {
            key: name for key, name in files.items() if key in (*days, "all", "documents", "conversations")
        }
        for table, files in list_files(made_workspace).items()
    }
    assert sum(report.computed for report in run_pipeline(two, days)) == 0
    assert {path.name for path in one.tables_dir.rglob("*")} == set()


def test_days_that_overlap_and_posts_that_are_documents_wait(make_machine: MakeMachine) -> None:
    one = make_machine("one")
    assert may_divide_days(one)
    with running(one.catalog.state, "another machine", days=["2025-03-14", "2025-03-15"]):
        waits = StartedPython([*RUN, str(one.root), json.dumps(LATER)], stdout=subprocess.PIPE)
        assert waits.stdout is not None
        assert waits.stdout.readline() == "waits\n"
        with running(one.catalog.state, "a third one", days=["2025-03-13"]):
            pass
    assert waits.communicate()[0] == "ended\n"

    chained = one.root / "backstory.yaml"
    text = chained.read_text(encoding="utf-8")
    for writers in ("{provider: digest, feedback: 'on'}", "{provider: digest, grain: week}"):
        chained.write_text(f"{text}writers: {writers}\n", encoding="utf-8")
        assert not may_divide_days(open_workspace(one.root))


def test_a_partition_that_another_run_has_written_is_made_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_pipeline(workspace)
    expected = list_files(workspace)
    other, compute, calls = open_workspace(workspace.root), WindowsStage.compute, list[list[str]]()
    workspace.catalog.outdate("windows", ["2025-03-13", "2025-03-15"])

    def compute_late(self: WindowsStage, partitions: list[str], *tables: pl.DataFrame) -> object:
        rows = compute(self, partitions, *tables)
        if not calls:
            made = other.tables.read("windows", ["2025-03-15"]).head(0)
            other.tables.commit({("windows", "2025-03-15"): Made(made, "of the other run")})
        calls.append(partitions)
        return rows

    monkeypatch.setattr(WindowsStage, "compute", compute_late)
    run_pipeline(workspace)
    assert calls == [["2025-03-13", "2025-03-15"]] * 2
    assert list_files(workspace) == expected


def test_a_machine_without_anything_searches_what_others_have_made(
    make_machine: MakeMachine, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_machine("one")
    run_pipeline(one)
    two = make_machine("two")
    with Library(two) as library:
        assert "sourdough.md" in {hit.uri for hit in library.search("sourdough").hits}
    assert (two.index / "CURRENT").read_bytes() == (one.index / "CURRENT").read_bytes()
    monkeypatch.setattr(sharing, "LOOK_SECONDS", 3600.0)
    follower = sharing.Follower(two, two.tables)
    follower.follow()
    (one.documents_dir / "new.md").write_text("# New\n\nA greenhouse.\n", encoding="utf-8")
    run_pipeline(one)
    follower.follow()
    assert (two.index / "CURRENT").read_bytes() != (one.index / "CURRENT").read_bytes()
    monkeypatch.setattr(sharing, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(sharing, "AWAY_SECONDS", 0.0)
    follower = sharing.Follower(two, two.tables)
    bucket.fault = lambda _method, _path: "refused"
    follower.follow()
    assert getattr(follower.error, "code", "") == "refused_by_store"
    with Library(make_machine("three")) as library, raises(StateError, "refused_by_store"):
        library.search("sourdough")
    bucket.fault = lambda _method, _path: None
    follower.follow()
    assert follower.error is None
    assert (two.index / "CURRENT").read_bytes() == (one.index / "CURRENT").read_bytes()
    one.tables.collect(timedelta(0))
    kept = {name.split("/")[1] for name in one.tables.store.list_names("index")}
    assert kept == {(one.index / "CURRENT").read_text().strip()}
    [lost, *_] = (name for name in one.tables.store.list_names("index") if name.endswith("texts.npy"))
    one.tables.store.delete([lost])
    shutil.rmtree(one.index)
    run_pipeline(open_workspace(one.root))
    assert (two.index / "CURRENT").read_bytes() == (one.index / "CURRENT").read_bytes()
    assert lost in one.tables.store.list_names("index")


@pytest.mark.parametrize("fault", each_of(["cut", "busy", "answer lost"], 3))
def test_a_store_that_is_away_for_a_while_is_waited_for(
    make_machine: MakeMachine, made_workspace: Workspace, bucket: Bucket, fault: Fault
) -> None:
    workspace = make_machine("one")
    calls = iter([fault] * 12)
    bucket.fault = lambda _method, _path: next(calls, None)
    run_pipeline(workspace)
    assert list_files(workspace) == list_files(made_workspace)


def test_a_run_whose_store_stays_away_goes_on_later(
    make_machine: MakeMachine, made_workspace: Workspace, bucket: Bucket
) -> None:
    workspace = make_machine("one")
    object.__setattr__(workspace.tables.store, "patience", timedelta(seconds=1))

    def go_away(event: RunEvent) -> None:
        if isinstance(event, StageResult) and event.table == "windows":
            bucket.fault = lambda *_: "cut"

    with pytest.raises(StateError) as error:
        execute_run(
            workspace,
            Run(find_wanted(workspace, None, None), isolates_failures=False),
            go_away,
        )
    assert error.value.code == "unreachable_store"
    bucket.fault = lambda *_: None
    run_pipeline(open_workspace(workspace.root))
    assert list_files(workspace) == list_files(made_workspace)


def test_keys_never_leave_a_machine_and_wrong_ones_are_told_before_they_are_taken(
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = make_machine("one"), make_machine("two")
    run_pipeline(one)
    forget(one, "document", "unrelated.md")
    assert not [name for name in one.tables.store.list_names("") if name.endswith(".key")]
    key = two.secret.read_text().strip()
    two.secret.unlink()
    with raises(WorkspaceError, "no_key"):
        run_pipeline(two)
    for wrong, code in (("abcde", "other_secret"), ("5e" * 32, "other_secret")):
        monkeypatch.setenv("BACKSTORY_PSEUDONYM_KEY", wrong)
        with raises(WorkspaceError, code):
            run_pipeline(two)
        assert not two.secret.exists()
    tenant = open_workspace(two.root, keys={"BACKSTORY_PSEUDONYM_KEY": SecretStr(key)})
    run_pipeline(tenant)
    assert tenant.secret.read_text().strip() == key
    assert tenant.secret.stat().st_mode & 0o777 == 0o600
    with raises(WorkspaceError, "other_secret"):
        run_pipeline(two)


def test_a_workspace_moves_onto_servers_and_back(
    made_workspace: Workspace, tmp_path: Path, postgres_server: PostgresServer, bucket: Bucket
) -> None:
    database, files = postgres_server.make_address(), f"{bucket.root}/{tmp_path.name}"
    before = list_files(made_workspace)
    count = sum(map(len, before.values())) + 1  # the history of runs
    assert copy_workspace(made_workspace, files).files == count
    assert copy_workspace(made_workspace, files).copied == 0
    rows = copy_workspace(made_workspace, database)
    assert rows.copied_rows == rows.rows > 0
    settings = made_workspace.root / "backstory.yaml"
    alone = settings.read_text(encoding="utf-8")
    settings.write_text(f"{alone}storage: {{database: '{database}', files: '{files}'}}\n", encoding="utf-8")
    shared = open_workspace(made_workspace.root)
    assert list_files(shared) == before
    assert {report.table for report in run_pipeline(shared) if report.computed} == set()
    shutil.rmtree(made_workspace.tables_dir)
    shutil.rmtree(made_workspace.index)
    assert copy_workspace(shared, LOCAL).files == count
    assert {one.name: one.detail for one in examine(shared.root) if not one.passed} == {}
    settings.write_text(alone, encoding="utf-8")
    back = open_workspace(made_workspace.root)
    assert list_files(back) == before
    assert {report.table for report in run_pipeline(back) if report.computed} == set()


def test_a_backup_in_a_store_is_one_file_without_keys(
    made_workspace: Workspace, tmp_path: Path, bucket: Bucket
) -> None:
    address = f"{bucket.root}/{tmp_path.name}"
    for day in ("2025-06-01", "2025-06-02", "2025-06-03"):
        (made_workspace.documents_dir / f"{day}.md").write_text(f"# {day}\n", encoding="utf-8")
        done = write_to_store(made_workspace, f"{address}/{day}", inputs=True, keep=2)
        assert (done.removed, done.place.startswith(f"{address}/{day}/backups/workspace/")) == (0, True)
    assert any("secret.key" in reason for reason in done.left_out)
    restored = restore_from_store(done.place, tmp_path / "again")
    assert not (restored.root / ".backstory" / "secret.key").exists()
    assert (restored.root / "posts" / "2025-06-03.md").is_file()
    shutil.copy(made_workspace.secret, restored.root / ".backstory" / "secret.key")
    again = open_workspace(restored.root)
    run_pipeline(again)
    assert again.tables.read("documents").height == 9
    with raises(InputError, "no_backup"):
        restore_from_store(f"{address}/nowhere")
    with raises(InputError, "absent_file"):
        restore_backup(tmp_path / "absent.tar.gz")
