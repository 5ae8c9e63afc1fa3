"""Readers of a shared workspace follow what is published, and go on without the store."""

import json
import logging
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.environment import cache_folder
from backstory.base.errors import StoreError
from backstory.operations.inspection.audit import audit
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.sharing import AWAY_SECONDS, LOOK_SECONDS, Follower
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.store.exchange import fetch_manifest
from backstory.storage.store.replica import InStep, Replica
from backstory.storage.tables.parquet import read_table
from tests.bucket import BUCKET, Bucket
from tests.interfaces.cli.invocation import run
from tests.pipeline.sharing.workers import (
    MakeWorker,
    code_of,
    follow_now,
    hash_tables,
    publish_copy,
    publish_without_pulling,
    store_of,
)
from tests.postgres import mounted
from tests.workspaces import SETTINGS


def test_a_reader_looks_now_and_then(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker(key=False)
    now = [0.0]
    follower = Follower(second, lambda: now[0])
    follower.follow()
    (first.documents_dir / "new.md").write_text("# New\n\nA greenhouse.\n", encoding="utf-8")
    run_pipeline(first)
    follower.follow()
    assert "new.md" not in set(read_table(second.tables, "documents")["uri"])
    now[0] += LOOK_SECONDS
    follower.follow()
    assert "new.md" in set(read_table(second.tables, "documents")["uri"])
    assert (second.index / "CURRENT").read_bytes() == (first.index / "CURRENT").read_bytes()


def test_a_run_tells_once_what_it_has_fetched(first: Workspace, make_worker: MakeWorker) -> None:
    second = str(make_worker().root)
    (first.documents_dir / "new.md").write_text("# New\n\nA greenhouse.\n", encoding="utf-8")
    run_pipeline(first)
    counts = [json.loads(run("run", "-w", second, "--json").stdout)["fetched"] for _ in range(2)]
    assert counts[0] > 0 == counts[1]
    (first.documents_dir / "new.md").unlink()
    run_pipeline(first)
    told = [run("run", "-w", second).stdout.startswith("Fetched ") for _ in range(2)]
    assert told == [True, False]


def test_readers_go_on_in_a_conflict_and_say_it(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    tables = hash_tables(second)
    for workspace in (first, second):
        (workspace.documents_dir / "sourdough.md").write_text(
            f"# By {workspace.root.name}\n", encoding="utf-8"
        )
    publish_without_pulling(first)
    opened = open_workspace(second.root)
    assert "conflicting_files" in opened.follower.problem
    assert hash_tables(opened) == tables
    found = {each.name: each for each in examine(second.root)}
    assert found["settings"].passed
    assert not found["store of files"].passed
    assert "posts/sourdough.md" in found["store of files"].detail


def test_readers_go_on_if_a_file_cannot_be_written_and_say_what_it_is(
    first: Workspace, make_worker: MakeWorker
) -> None:
    second = make_worker()
    tables = hash_tables(second)
    (first.documents_dir / "sub").mkdir()
    (first.documents_dir / "sub" / "new.md").write_text("# New\n", encoding="utf-8")
    publish_without_pulling(first)
    (second.documents_dir / "sub").write_text("a file where a folder should be", encoding="utf-8")
    opened = open_workspace(second.root)
    assert "unwritable_file" in opened.follower.problem
    assert hash_tables(opened) == tables
    assert code_of(lambda: run_pipeline(opened)) == "unwritable_file"


@pytest.mark.parametrize("times", [1, 2])
def test_what_a_killed_reader_has_fetched_is_no_change_of_its_own(
    first: Workspace, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    second = make_worker()
    edited, gone, new = (first.documents_dir / f"{name}.md" for name in ("sourdough", "unrelated", "new"))
    before, record = gone.read_bytes(), Replica.write_in_step

    def die_before_the_record(self: Replica, state: InStep) -> None:
        if not state.arriving:
            raise KeyboardInterrupt
        record(self, state)

    for number in range(times):
        edited.write_text(f"# Edited {number}\n", encoding="utf-8")
        new.write_text(f"# New {number}\n", encoding="utf-8")
        gone.unlink(missing_ok=True)
        publish_without_pulling(first)
        with monkeypatch.context() as patched:
            patched.setattr(Replica, "write_in_step", die_before_the_record)
            with pytest.raises(KeyboardInterrupt):
                follow_now(second)
        assert (second.documents_dir / "new.md").read_bytes() == new.read_bytes()
        assert not (second.documents_dir / "unrelated.md").exists()
    edited.write_text("# Edited again\n", encoding="utf-8")
    new.unlink()
    gone.write_bytes(before)
    publish_without_pulling(first)
    Follower(second).follow(before_run=True)
    assert [path.read_bytes() for path in sorted(second.documents_dir.iterdir())] == [
        path.read_bytes() for path in sorted(first.documents_dir.iterdir())
    ]
    manifest = fetch_manifest(store_of(first))[0]
    publish_without_pulling(second)
    assert fetch_manifest(store_of(first))[0].has_same_content(manifest)


def test_a_reader_goes_on_with_what_it_has(
    made_once: Path,
    tmp_path: Path,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = publish_copy(made_once, tmp_path / "first", f"s3://{BUCKET}/{tmp_path.name}")
    monkeypatch.setattr("backstory.pipeline.sharing._READER_PATIENCE", timedelta(seconds=0.2))
    bucket.fault = lambda _method, _path: "busy"
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        problem = open_workspace(first.root).follower.problem
        shown = run("search", "sourdough", "-w", str(first.root))
    assert problem
    assert shown.exit_code == 0
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == [problem] * 2
    assert shown.stderr.count(problem) <= 1  # by the log, where a command has set it up
    caplog.clear()
    monkeypatch.setattr("backstory.storage.store.objects.PATIENCE", timedelta(seconds=0.2))
    for command, times in ((["run"], 1), (["storage", "copy", "--to", f"file://{tmp_path}/other"], 0)):
        failed = run(*command, "-w", str(first.root))
        assert isinstance(failed.exception, StoreError)
        # A run says it before it waits for the store; what fails at once says it by its error alone.
        assert [problem in record.getMessage() for record in caplog.records].count(True) == times
        caplog.clear()
    now = [0.0]
    follower = Follower(first, lambda: now[0])
    follower.follow()
    calls = len(bucket.calls)
    now[0] += LOOK_SECONDS
    follower.follow()
    assert len(bucket.calls) == calls
    now[0] += AWAY_SECONDS
    follower.follow()
    assert len(bucket.calls) > calls
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(first.root / "backstory.yaml", empty)
    with pytest.raises(StoreError) as error:
        open_workspace(empty)
    assert error.value.code == "unreachable_store"


@pytest.mark.usefixtures("bucket")
def test_a_bucket_that_is_absent_is_said_at_once(tmp_path: Path) -> None:
    written = f"{SETTINGS}storage: {{files: 's3://absent/prefix'}}\n"
    (tmp_path / "backstory.yaml").write_text(written, encoding="utf-8")
    assert code_of(lambda: open_workspace(tmp_path)) == "no_bucket"


def test_the_doctor_tries_the_store(first: Workspace, make_worker: MakeWorker) -> None:
    def look(workspace: Workspace) -> tuple[bool, str]:
        found = {each.name: each for each in examine(workspace.root)}
        return found["store of files"].passed, found["store of files"].detail

    passed, detail = look(first)
    assert passed
    assert first.settings.storage.files is not None
    assert first.settings.storage.files in detail
    without_key = make_worker(key=False)
    passed, detail = look(without_key)
    assert not passed
    assert str(without_key.secret) in detail


def test_the_doctor_goes_on_without_store_and_database(made_workspace: Workspace, bucket: Bucket) -> None:
    root = made_workspace.root
    healthy = {each.name for each in examine(root)}
    for storage, failed in (
        ({"files": "s3://absent/prefix"}, "store of files"),
        ({"database": f"postgresql://nobody@/absent?host={root}"}, "database"),
    ):
        (root / "backstory.yaml").write_text(f"{SETTINGS}storage: {json.dumps(storage)}\n", encoding="utf-8")
        with mounted(root, None), mounted(cache_folder(), None):
            found = examine(root)
            audited = [each.name for each in audit(root) if not each.passed]
        assert audited == [failed]
        assert [each.name for each in found if not each.passed] == [failed]
        unknown = {"cache", "history of runs", "runs"} if failed == "database" else set()
        assert healthy - {each.name for each in found} == unknown
    assert not bucket.count("PUT", "objects/")
