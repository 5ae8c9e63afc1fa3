"""Workers that share a database and a bucket: two at once, and what fails between them, end in the tables of one."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.errors import BackstoryError, RemovalError
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.executor import OnProgress, RunEvent
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.run.position import RunPosition
from backstory.pipeline.run.runner import RunRequest, execute_run, execute_stages, find_wanted
from backstory.pipeline.run.state import RunState
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.leases import EVERYTHING, Lease, find_leases
from backstory.storage.store import objects
from backstory.storage.store.manifest import MANIFEST
from backstory.storage.tables.parquet import hash_partitions, read_table
from backstory.storage.tables.schemas import TABLES
from tests.bucket import Bucket, Fault
from tests.long_tests import each_of
from tests.models.services.chat_server import run_chat_server
from tests.models.services.embedding_answers import embed
from tests.postgres import PostgresServer, mounted
from tests.started_python import StartedPython
from tests.workspaces import SETTINGS, write_workspace

RUN = "from backstory.interfaces.cli.app import main; main()"
MakeWorker = Callable[..., Path]


@pytest.fixture
def make_worker(postgres_server: PostgresServer, bucket: Bucket, tmp_path: Path) -> Iterator[MakeWorker]:
    """Give a function that makes a worker with the inputs of the small workspace, alone or beside others."""
    database = postgres_server.make_address()
    shared = f"storage: {{database: '{database}', files: '{bucket.root}/{tmp_path.name}'}}\n"
    with mounted(tmp_path / "first", database), mounted(tmp_path / "second", database):

        def make(name: str, settings: str = SETTINGS) -> Path:
            root = write_workspace(tmp_path / name, settings).root
            secret = root / ".backstory" / "secret.key"
            secret.parent.mkdir(exist_ok=True)
            secret.write_text("0" * 64, encoding="utf-8")
            secret.chmod(0o600)
            if name != "alone":
                (root / "backstory.yaml").write_text(settings + shared, encoding="utf-8")
            return root

        yield make


def hash_tables(workspace: Workspace) -> dict[str, object]:
    return {table: hash_partitions(workspace.tables, table) for table in TABLES}


@pytest.fixture
def expected(make_worker: MakeWorker) -> dict[str, object]:
    """The tables of one machine."""
    workspace = open_workspace(make_worker("alone"))
    run_pipeline(workspace)
    return hash_tables(workspace)


def run_disturbed(workspace: Workspace, table: str, disturb: Callable[[], object]) -> None:
    """Run, and do something when the run begins to make a table."""
    left = [table]

    def notice(event: RunEvent) -> None:
        if isinstance(event, RunPosition) and event.table in left:
            left.remove(event.table)
            disturb()

    result = execute_run(workspace, RunRequest(partitions=find_wanted(workspace, None, None)), notice)
    assert left == []
    assert result.state.describe_failures() == []


def test_two_runs_at_the_same_time_make_the_tables_of_one(make_worker: MakeWorker) -> None:
    with run_chat_server() as vectors:
        vectors.always = embed
        settings = SETTINGS.replace("hashing", "openai, model: tiny, dimension: 16") + (
            f"services: {{openai: {{base_url: '{vectors.url}', requests_per_minute: 10000}}}}\n"
        )
        roots = [make_worker(name, settings) for name in ("first", "second")]
        # Each has something that the other one lacks.
        (roots[0] / "posts" / "moth-lamp.md").write_text("# A lamp\n\nMoths fly to it.\n", encoding="utf-8")
        (roots[1] / "posts" / "bread.md").write_text("# Bread\n\nIt came out flat.\n", encoding="utf-8")
        runs = []
        for root in roots:
            homes = {
                "HOME": f"{root}-home",
                "BACKSTORY_CACHE_DIR": f"{root}-cache",
                "BACKSTORY_WORKSPACE": str(root),
            }
            (folder := Path(f"{root}-folder")).mkdir()
            runs.append(StartedPython(["-c", RUN, "run"], cwd=folder, env={**os.environ, **homes}))
        assert [process.wait() for process in runs] == [0, 0]
        sent = Counter(text for request in vectors.requests for text in request.body["input"])
        workspaces = [open_workspace(root) for root in roots]
        assert set(sent.values()) == {1}
        assert sum(workspaces[0].embeddings.count_by_owner().values()) == len(sent)

        alone = open_workspace(make_worker("alone", settings))
        for root, name in zip(roots, ("moth-lamp.md", "bread.md"), strict=True):
            (alone.documents_dir / name).write_bytes((root / "posts" / name).read_bytes())
        run_pipeline(alone)
    for workspace in workspaces:
        assert hash_tables(workspace) == hash_tables(alone)


def test_one_run_reads_the_chats_for_all_days(make_worker: MakeWorker, expected: dict[str, object]) -> None:
    first = open_workspace(make_worker("first"))
    days = find_wanted(first, None, None)
    execute_run(first, RunRequest(partitions=days[:1]))
    second = open_workspace(make_worker("second"))
    (messages,) = execute_run(second, RunRequest(partitions=days[1:])).state.reports["messages"]
    assert messages.counts == {}
    assert messages.computed == 1  # the day without a message
    assert hash_tables(second) == expected
    with (first.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write("14/03/2025, 08:00 - Ada Lind: The night train to Lisbon was late\n")
    assert execute_run(first, RunRequest(partitions=days[:1])).state.describe_failures() == []
    (messages,) = execute_run(second, RunRequest(partitions=days[1:])).state.reports["messages"]
    assert (messages.counts, messages.computed) == ({}, 0)
    assert messages.rows == 13


def test_a_run_begins_with_what_no_other_machine_makes(
    make_worker: MakeWorker, expected: dict[str, object]
) -> None:
    workspace = open_workspace(make_worker("first"))
    leases = find_leases(workspace.tables)
    assert leases is not None
    other = leases.try_to_take("chats", EVERYTHING, "another machine")
    assert isinstance(other, Lease)
    made = []

    def notice(event: RunEvent) -> None:
        if isinstance(event, StageResult):
            made.append(event.table)
            if event.table == "search_index":
                leases.release(other)

    execute_run(workspace, RunRequest(partitions=find_wanted(workspace, None, None)), notice)
    assert made[:4] == ["documents", "document_chunks", "search_index", "messages"]
    assert hash_tables(workspace) == expected


def test_what_another_machine_changes_between_two_parts_leaves_a_run_in_one_piece(
    make_worker: MakeWorker,
) -> None:
    overlapped = "14/03/2025, 08:00 - Ada Lind: The moths are back at the lamp\n"
    own = "15/03/2025, 18:01 - Ada Lind: Book the train reservation early\n"
    roots = [make_worker(name) for name in ("first", "second", "alone")]
    for root in roots:
        chat = root / "chats" / "garden.txt"
        chat.write_text(chat.read_text(encoding="utf-8").replace(own, overlapped + own), encoding="utf-8")
    first, second, alone = map(open_workspace, roots)
    days = find_wanted(first, None, None)
    execute_run(first, RunRequest(partitions=days))
    messages = hash_partitions(first.tables, "messages")

    def change(workspace: Workspace) -> None:
        chat = workspace.chats_dir / "garden.txt"
        text = chat.read_text(encoding="utf-8").replace("the lamp", "the red lamp").replace("early", "late")
        chat.write_text(text, encoding="utf-8")

    def execute(workspace: Workspace, request: RunRequest, on_progress: OnProgress) -> RunState:
        making = request.making
        assert making is not None

        def making_after_other(parts: Sequence[str]) -> AbstractContextManager[str]:
            if list(parts) == ["corpus"]:
                change(first)
                # In a thread, since what a run starts is a part of it.
                thread.submit(execute_run, first, RunRequest(partitions=days[:2])).result()
            return making(parts)

        return execute_stages(workspace, replace(request, making=making_after_other), on_progress)

    last = RunRequest(partitions=days[2:])
    with ThreadPoolExecutor(1) as thread:
        assert execute_run(second, last, execute=execute).state.describe_failures() == []
    changed = hash_partitions(second.tables, "messages")
    assert [changed[day] == messages[day] for day in days] == [True, False, True]
    assert {stage.table: stage.find_stale(second, days[2:]) for stage in STAGES[1:] if stage.partitioned} == {
        stage.table: [] for stage in STAGES[1:] if stage.partitioned
    }
    execute_run(second, last)
    change(alone)
    run_pipeline(alone)
    assert hash_tables(second) == hash_tables(alone)


def test_a_shared_run_removes_messages_of_its_own_days_only(make_worker: MakeWorker) -> None:
    root = make_worker("first")
    workspace, accepting = open_workspace(root), open_workspace(root, accept_removals=True)
    days = find_wanted(workspace, None, None)
    execute_run(workspace, RunRequest(partitions=days))
    chat = root / "chats" / "garden.txt"
    lines = chat.read_text(encoding="utf-8").splitlines(keepends=True)
    chat.write_text("".join(line for line in lines if "Book the train" not in line), encoding="utf-8")

    for asked in (workspace, accepting):
        assert execute_run(asked, RunRequest(partitions=days[:1])).state.describe_failures() == []
        assert len(read_table(workspace.tables, "messages", days[2:])) == 3
    with pytest.raises(RemovalError):
        execute_run(workspace, RunRequest(partitions=days[2:], isolates_failures=False))
    execute_run(accepting, RunRequest(partitions=days[2:]))
    assert len(read_table(workspace.tables, "messages", days[2:])) == 2


@pytest.mark.parametrize("table", each_of(sorted(stage.table for stage in STAGES), len(STAGES)))
def test_a_database_that_starts_again_is_waited_for(
    make_worker: MakeWorker, expected: dict[str, object], postgres_server: PostgresServer, table: str
) -> None:
    workspace = open_workspace(make_worker("first"))
    starting = threading.Thread(target=postgres_server.start)

    def restart() -> None:
        postgres_server.stop()
        starting.start()

    run_disturbed(workspace, table, restart)
    starting.join()
    assert hash_tables(workspace) == expected
    assert hash_tables(open_workspace(make_worker("second"))) == expected


@pytest.mark.parametrize("fault", each_of(["cut", "busy", "answer lost"], 3))
def test_a_store_that_is_away_for_a_while_is_waited_for(
    make_worker: MakeWorker, expected: dict[str, object], bucket: Bucket, fault: Fault
) -> None:
    workspace = open_workspace(make_worker("first"))
    calls = iter([fault] * 12)
    lock = threading.Lock()

    def be_away(_method: str, _path: str) -> Fault | None:
        with lock:
            return next(calls, None)

    run_disturbed(workspace, "windows", lambda: setattr(bucket, "fault", be_away))
    assert next(calls, None) is None
    assert hash_tables(open_workspace(make_worker("second"))) == expected


def test_a_run_whose_store_stays_away_is_published_by_the_next_one(
    make_worker: MakeWorker, expected: dict[str, object], bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = open_workspace(make_worker("first"))
    with monkeypatch.context() as short:
        short.setattr(objects, "PATIENCE", timedelta(seconds=1))
        with pytest.raises(BackstoryError) as error:
            run_disturbed(workspace, "contexts", lambda: setattr(bucket, "fault", lambda *_: "cut"))
    assert error.value.code == "unreachable_store"
    bucket.fault = lambda *_: None
    assert sum(report.computed for report in run_pipeline(workspace)) == 0
    assert hash_tables(open_workspace(make_worker("second"))) == expected


def test_a_call_that_is_not_answered_is_made_again(
    make_worker: MakeWorker, expected: dict[str, object], bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = open_workspace(make_worker("first"))
    with monkeypatch.context() as short:
        short.setattr(objects, "_CALL_SECONDS", 2)
        run_disturbed(workspace, "windows", lambda: bucket.fail_first("answer late", "PUT", MANIFEST))
    assert bucket.count("PUT", MANIFEST) >= 2
    assert hash_tables(open_workspace(make_worker("second"))) == expected
