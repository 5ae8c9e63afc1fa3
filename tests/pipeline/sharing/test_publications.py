"""Workers that share nothing but a store make the tables of one machine, and a power cut loses nothing."""

import shutil
import subprocess
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.pipeline.run.executor import OnProgress
from backstory.pipeline.run.runner import RunRequest, execute_run, execute_stages, find_wanted
from backstory.pipeline.run.state import RunState
from backstory.pipeline.sharing import open_replica, open_store
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.store.exchange import fetch_manifest, publish_changes
from backstory.storage.store.manifest import MANIFEST
from backstory.storage.store.replica import Replica
from backstory.storage.tables.schemas import TABLES
from tests.bucket import BUCKET, Bucket, Fault
from tests.long_tests import each_of
from tests.pipeline.sharing.workers import (
    LATER,
    SECRET,
    MakeWorker,
    follow_now,
    hash_tables,
    publish_copy,
    store_of,
)
from tests.started_python import StartedPython

PUBLISH = (
    "from pathlib import Path; from datetime import timedelta; import sys\n"
    "from backstory.pipeline.sharing import open_replica, open_store\n"
    "from backstory.pipeline.workspace import open_workspace\n"
    "from backstory.storage.store.exchange import publish_changes\n"
    "workspace = open_workspace(Path(sys.argv[1])); print('ready', flush=True); sys.stdin.readline()\n"
    "publish_changes(open_replica(workspace), open_store(workspace))\n"
)
LARGE = 40_000
"""Lines of a document that is worth a look whether the store holds it."""
PUTS: tuple[tuple[str, int], ...] = (*(("objects/", number) for number in range(4)), (MANIFEST, 0))
"""The calls that write, of a publication of four files: what the path holds, and how many such calls come before."""
KILLS: tuple[tuple[Fault, str, int], ...] = tuple(
    (fault, *put) for put in PUTS for fault in ("kill before", "kill after")
)


def known_objects(replica: Replica, address: str) -> set[str]:
    return replica.read_in_step(address).manifest.objects


def test_an_empty_folder_becomes_the_workspace(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    assert hash_tables(second) == hash_tables(first)
    assert all(second.ledger.read(table) == first.ledger.read(table) for table in TABLES)
    assert sum(report.computed for report in run_pipeline(second)) == 0
    chat = "chats/garden.txt"
    assert (second.root / chat).stat().st_mtime_ns == (first.root / chat).stat().st_mtime_ns
    assert (second.root / SECRET).read_bytes() == (first.root / SECRET).read_bytes()


def test_two_workers_make_the_tables_of_one(
    first: Workspace, make_worker: MakeWorker, made_workspace: Workspace
) -> None:
    second = make_worker()
    for chatting, writing in ((second, first), (made_workspace, made_workspace)):
        with (chatting.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
            chat.write(LATER)
        run_pipeline(chatting)
        (writing.documents_dir / "sourdough.md").write_text("# Sourdough\n\nFlat bread.\n", encoding="utf-8")
        run_pipeline(writing)
    assert hash_tables(first) == hash_tables(made_workspace)
    follow_now(second)
    assert hash_tables(second) == hash_tables(made_workspace)
    assert all(second.ledger.read(table) == made_workspace.ledger.read(table) for table in TABLES)


def test_what_a_dead_worker_left_is_joined_with_what_others_made(
    first: Workspace, make_worker: MakeWorker, made_workspace: Workspace
) -> None:
    second = make_worker()

    def die(workspace: Workspace, request: RunRequest, on_progress: OnProgress) -> RunState:
        execute_stages(workspace, request, on_progress)
        raise KeyboardInterrupt

    for chatting, writing in ((first, second), (made_workspace, made_workspace)):
        with (chatting.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
            chat.write(LATER)
        request = RunRequest(partitions=find_wanted(chatting, None, None))
        if chatting is first:
            with pytest.raises(KeyboardInterrupt):
                execute_run(chatting, request, execute=die)
        else:
            execute_run(chatting, request)
        (writing.documents_dir / "sourdough.md").write_text("# Sourdough\n\nFlat bread.\n", encoding="utf-8")
        run_pipeline(writing)
    assert hash_tables(second)["messages"] != hash_tables(made_workspace)["messages"]
    run_pipeline(first)
    assert hash_tables(first) == hash_tables(made_workspace)


def test_nothing_is_published_if_nothing_changed(first: Workspace) -> None:
    before = fetch_manifest(store_of(first))
    run_pipeline(first)
    assert fetch_manifest(store_of(first))[0].has_same_content(before[0])


def test_each_content_is_fetched_once(made_once: Path, tmp_path: Path, bucket: Bucket) -> None:
    address = f"{bucket.root}/{tmp_path.name}"
    first = publish_copy(made_once, tmp_path / "first", address)
    second = tmp_path / "second"
    second.mkdir()
    shutil.copy(first.root / "backstory.yaml", second)
    open_workspace(second)
    assert bucket.count("GET", "objects/") == len(fetch_manifest(store_of(first))[0].objects)
    (first.documents_dir / "new.md").write_text("# New\n\nA greenhouse.\n", encoding="utf-8")
    run_pipeline(first)
    before, after = (
        known_objects(open_replica(open_workspace(second)), address),
        fetch_manifest(store_of(first))[0].objects,
    )
    assert before == after
    bucket.calls.clear()
    assert (second / "index" / "CURRENT").read_bytes() == (first.index / "CURRENT").read_bytes()
    open_workspace(second)
    assert bucket.count("GET") == 0


def test_a_workspace_of_one_machine_is_left_alone(made_workspace: Workspace) -> None:
    run_pipeline(made_workspace)
    assert not (made_workspace.root / ".backstory" / "replica.json").exists()
    assert open_store(made_workspace) is None


@pytest.mark.parametrize(("fault", "holding", "passed"), [*each_of(KILLS[:-2], 5), *KILLS[-2:]])
def test_a_power_cut_leaves_the_state_before_or_after(
    made_once: Path, tmp_path: Path, bucket: Bucket, fault: Fault, holding: str, passed: int
) -> None:
    address = f"s3://{BUCKET}/{tmp_path.name}"
    first = publish_copy(made_once, tmp_path / "first", address)
    store, before = store_of(first), fetch_manifest(store_of(first))[0]
    for number in range(4):
        (first.documents_dir / f"new-{number}.md").write_text(f"# {number}\n" * LARGE, encoding="utf-8")
    worker = StartedPython(["-c", PUBLISH, str(first.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    bucket.victim = worker.pid
    bucket.calls.clear()
    bucket.fail_first(fault, "PUT", holding, passed=passed)
    worker.communicate("go\n")
    assert worker.returncode == -9
    bucket.fault = lambda _method, _path: None
    is_done = fetch_manifest(store)[0]
    new = {f"posts/new-{number}.md" for number in range(4)}
    assert is_done.files.keys() - before.files.keys() == (
        new if (fault, holding) == ("kill after", MANIFEST) else set()
    )
    assert bucket.count("PUT") == len(PUTS) or holding != MANIFEST
    # What was on its way when the process died may still arrive.
    assert publish_changes(open_replica(first), store).uploaded <= 4 - passed
    after = fetch_manifest(store)[0]
    assert new <= after.files.keys()
    assert all(store.verify(sha256) for sha256 in after.objects)


def test_small_contents_are_uploaded_without_a_look(made_once: Path, tmp_path: Path, bucket: Bucket) -> None:
    first = publish_copy(made_once, tmp_path / "first", f"s3://{BUCKET}/{tmp_path.name}")
    sizes = {file.sha256: file.size for file in fetch_manifest(store_of(first))[0].files.values()}
    assert bucket.count("PUT", "objects/") == len(sizes)
    assert bucket.count("HEAD", "objects/") == sum(size > 2**17 for size in sizes.values()) < len(sizes) / 2


def test_a_publication_whose_answer_is_lost_counts_once(
    made_once: Path, tmp_path: Path, bucket: Bucket
) -> None:
    first = publish_copy(made_once, tmp_path / "first", f"s3://{BUCKET}/{tmp_path.name}")
    (first.documents_dir / "new.md").write_text("# New\n", encoding="utf-8")
    bucket.fail_first("answer lost", "PUT", MANIFEST)
    assert publish_changes(open_replica(first), store_of(first)).changed
    assert not publish_changes(open_replica(first), store_of(first)).changed
