"""A workspace whose files are in a store: workers that share nothing else make the tables of one machine."""

import hashlib
import json
import logging
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.environment import cache_folder
from backstory.base.errors import BackstoryError, StoreError
from backstory.operations.backup.moving import copy_workspace
from backstory.operations.forgetting.forget import forget
from backstory.operations.inspection.audit import audit
from backstory.operations.inspection.doctor import examine
from backstory.operations.learning.learn import unlearn
from backstory.pipeline.run.executor import OnProgress
from backstory.pipeline.run.runner import RunRequest, execute_run, execute_stages, find_wanted
from backstory.pipeline.run.state import RunState
from backstory.pipeline.sharing import AWAY_SECONDS, LOOK_SECONDS, Follower, open_replica, open_store, sharing
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.leases import EVERYTHING, Lease, Leases, find_leases
from backstory.storage.store.exchange import collect_garbage, fetch_manifest, publish_changes, pull, upload
from backstory.storage.store.manifest import MANIFEST, SharedFile
from backstory.storage.store.objects import Found, ObjectStore, hash_content, name_content
from backstory.storage.store.replica import Replica
from backstory.storage.tables.ledger import Entry
from backstory.storage.tables.locks import require_token, running
from backstory.storage.tables.parquet import hash_partitions, read_table
from backstory.storage.tables.schemas import TABLES
from backstory.writing.post_files import inspect_file
from tests.bucket import BUCKET, Bucket, Fault
from tests.interfaces.cli.invocation import run
from tests.long_tests import each_of
from tests.postgres import PostgresServer, mounted
from tests.workspaces import SETTINGS

LATER = "16/03/2025, 08:00 - Ada Lind: The night train to Lisbon was late\n"
SECRET = ".backstory/secret.key"
MakeWorker = Callable[..., Workspace]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


@pytest.fixture
def first(made_once: Path, tmp_path: Path, address: str) -> Workspace:
    """A worker that has published the small workspace."""
    return publish_copy(made_once, tmp_path / "first", address)


@pytest.fixture
def make_worker(first: Workspace, tmp_path: Path) -> MakeWorker:
    """Give a function that makes another worker, on an empty folder with the settings and the key."""

    def make(name: str = "second", settings: str | None = None, *, key: bool = True) -> Workspace:
        root = tmp_path / name
        (root / ".backstory").mkdir(parents=True)
        written = (first.root / "backstory.yaml").read_text(encoding="utf-8")
        (root / "backstory.yaml").write_text(settings or written, encoding="utf-8")
        if key:
            shutil.copy(first.root / SECRET, root / SECRET)
        return open_workspace(root)

    return make


def publish_copy(made: Path, root: Path, address: str) -> Workspace:
    shutil.copytree(made, root)
    (root / "backstory.yaml").write_text(f"{SETTINGS}storage: {{files: '{address}'}}\n", encoding="utf-8")
    workspace = open_workspace(root)
    with sharing(workspace):
        pass
    return workspace


def store_of(workspace: Workspace) -> ObjectStore:
    store = open_store(workspace, patience=timedelta(seconds=3))
    assert store is not None
    return store


def hash_tables(workspace: Workspace) -> dict[str, Mapping[str, str]]:
    return {table: hash_partitions(workspace.tables, table) for table in TABLES}


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(BackstoryError) as error:
        call()
    return error.value.code


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


def follow_now(workspace: Workspace) -> None:
    Follower(workspace).follow()


def test_nothing_is_published_if_nothing_changed(first: Workspace) -> None:
    before = fetch_manifest(store_of(first))
    run_pipeline(first)
    assert fetch_manifest(store_of(first))[0].has_same_content(before[0])


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


def test_keys_never_leave_a_worker(
    first: Workspace, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first.documents_dir / "id_rsa").write_text("a key", encoding="utf-8")
    publish_without_pulling(first)
    (first.documents_dir / "id_rsa").unlink()
    forget(first, "document", "unrelated.md")
    manifest, _ = fetch_manifest(store_of(first))
    assert ".backstory/forgotten.json" in manifest.files
    assert not [path for path in manifest.files if path.endswith((".key", "id_rsa"))]
    assert not [path for path in manifest.files if path.endswith((".sqlite", ".db"))]
    second = make_worker(key=False)
    assert code_of(lambda: run_pipeline(second)) == "no_pseudonym_key"
    monkeypatch.setenv("BACKSTORY_PSEUDONYM_KEY", (first.root / SECRET).read_text().strip())
    assert code_of(lambda: run_pipeline(second)) == "no_forgotten_key"
    monkeypatch.setenv(
        "BACKSTORY_FORGOTTEN_KEY", (first.root / ".backstory/forgotten.key").read_text().strip()
    )
    run_pipeline(second)
    assert hash_tables(second)["messages"].items() >= hash_tables(first)["messages"].items()
    assert (second.root / SECRET).stat().st_mode & 0o777 == 0o600


def test_a_wrong_key_is_told_before_it_is_taken(
    first: Workspace, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(first, "document", "unrelated.md")
    kept = first.root / ".backstory" / "forgotten.key"
    second = make_worker(key=False)
    files = (second.secret, second.root / ".backstory" / "forgotten.key")
    right = (first.secret.read_text().strip(), kept.read_text().strip())
    for number, variable in enumerate(("BACKSTORY_PSEUDONYM_KEY", "BACKSTORY_FORGOTTEN_KEY")):
        for wrong, code in (("abcde", "no_secret"), ("5e" * 32, "other_secret")):
            monkeypatch.setenv(variable, wrong)
            assert code_of(lambda: run_pipeline(second)) == code
            assert not files[number].exists()
        monkeypatch.setenv(variable, right[number])
    run_pipeline(second)
    for number, variable in enumerate(("BACKSTORY_PSEUDONYM_KEY", "BACKSTORY_FORGOTTEN_KEY")):
        monkeypatch.setenv(variable, "5e" * 32)
        assert code_of(lambda: run_pipeline(second)) == "differing_keys"
        monkeypatch.delenv(variable)
        files[number].write_text("5e" * 32, encoding="ascii")
        assert code_of(lambda: run_pipeline(second)) == "other_secret"
        files[number].write_text(right[number], encoding="ascii")
    second.secret.write_text("5e" * 32, encoding="ascii")
    told = [each.detail for each in examine(second.root) if not each.passed]
    assert any("from another worker" in detail for detail in told)
    assert not any("embeddings.sqlite" in detail for detail in told)


def test_what_is_forgotten_leaves_the_store_at_once(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    document = first.documents_dir / "unrelated.md"
    text = fetch_manifest(store_of(first))[0].files["posts/unrelated.md"].sha256
    document.unlink()
    forget(first, "document", "unrelated.md")
    assert store_of(first).find(name_content(text)) is None
    assert {sha256 for sha256, _ in store_of(first).list_contents()} == fetch_manifest(store_of(first))[
        0
    ].objects
    follow_now(second)
    assert not (second.documents_dir / "unrelated.md").exists()
    assert "unrelated.md" not in set(read_table(second.tables, "documents")["uri"])


def test_garbage_goes_by_its_age(first: Workspace) -> None:
    store = store_of(first)
    orphan = first.root / "orphan"
    orphan.write_bytes(b"of an upload that was interrupted")
    store.upload(orphan, hash_content(orphan))
    manifest, _ = fetch_manifest(store)
    assert collect_garbage(store, manifest) == 0
    assert collect_garbage(store, manifest, timedelta(microseconds=1)) == 1
    assert {sha256 for sha256, _ in store.list_contents()} == manifest.objects


def test_garbage_that_is_uploaded_again_meanwhile_stays(
    first: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, orphans, deleted = store_of(first), [first.root / name for name in "ab"], threading.Event()
    for orphan in orphans:
        orphan.write_text(orphan.name, encoding="utf-8")
        store.upload(orphan, hash_content(orphan))
    again, late = map(hash_content, orphans)
    find, delete = ObjectStore.find, ObjectStore.delete

    def find_late(self: ObjectStore, name: str) -> Found | None:
        if name == name_content(late):
            deleted.wait(5)
            store.upload(orphans[0], again)
        return find(self, name)

    def note(self: ObjectStore, names: list[str]) -> None:
        delete(self, names)
        deleted.set()

    monkeypatch.setattr(ObjectStore, "find", find_late)
    monkeypatch.setattr(ObjectStore, "delete", note)
    assert collect_garbage(store, fetch_manifest(store)[0], timedelta(microseconds=1)) == 2
    assert store.find(name_content(again)) is not None


def test_a_stale_list_deletes_nothing_that_is_needed(made_once: Path, tmp_path: Path, bucket: Bucket) -> None:
    first = publish_copy(made_once, tmp_path / "first", f"{bucket.root}/{tmp_path.name}")
    store, manifest = store_of(first), fetch_manifest(store_of(first))[0]
    orphan = tmp_path / "orphan"
    orphan.write_bytes(b"of an upload that was interrupted")
    store.upload(orphan, hash_content(orphan))
    assert hash_content(orphan) in dict(store.list_contents())
    # The list is of a time when another upload of the same content was old.
    bucket.stale_list = re.sub(rb"<LastModified>\d{4}", b"<LastModified>2020", bucket.last_list)
    assert {found.changed_at.year for _, found in store.list_contents()} == {2020}
    assert collect_garbage(store, manifest) == 0
    store.delete([name_content(hash_content(orphan))])
    assert collect_garbage(store, manifest, timedelta(microseconds=1)) == 0
    assert all(store.verify(sha256) for sha256 in manifest.objects)


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


def known_objects(replica: Replica, address: str) -> set[str]:
    return replica.read_in_step(address).manifest.objects


def test_publications_of_other_files_are_joined(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    (second.documents_dir / "second.md").write_text("# Second\n", encoding="utf-8")
    (first.documents_dir / "first.md").write_text("# First\n", encoding="utf-8")
    publish_without_pulling(first)
    publish_without_pulling(second)
    manifest, _ = fetch_manifest(store_of(first))
    assert {"posts/first.md", "posts/second.md"} <= manifest.files.keys()
    assert (second.documents_dir / "first.md").read_text(encoding="utf-8") == "# First\n"


def publish_without_pulling(workspace: Workspace) -> None:
    """Publish as a worker does while which another one published."""
    publish_changes(open_replica(workspace), store_of(workspace))


def test_publications_of_the_same_file_are_refused(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    for workspace in (first, second):
        (workspace.documents_dir / "sourdough.md").write_text(
            f"# By {workspace.root.name}\n", encoding="utf-8"
        )
    publish_without_pulling(first)
    assert code_of(lambda: publish_without_pulling(second)) == "conflicting_publication"
    assert code_of(lambda: run_pipeline(second)) == "conflicting_files"
    (second.documents_dir / "sourdough.md").rename(second.root / "mine.md")
    run_pipeline(second)
    assert (second.documents_dir / "sourdough.md").read_text(encoding="utf-8") == "# By first\n"


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


def test_a_folder_that_forgot_what_it_was_in_step_with_conflicts_in_edited_files_only(
    first: Workspace, make_worker: MakeWorker
) -> None:
    second = make_worker()
    post = "written/as-written.md"
    for workspace in (first, second):
        head, body = b"---\n", f"---\n\nBy {workspace.root.name}.\n".encode()
        checksum = hashlib.sha256(head + body).hexdigest().encode()
        (workspace.root / post).parent.mkdir(exist_ok=True)
        (workspace.root / post).write_bytes(head + b"checksum: " + checksum + b"\n" + body)
    assert inspect_file(second.root / post) == "ours"
    (first.documents_dir / "sourdough.md").write_text("# By first\n", encoding="utf-8")
    run_pipeline(first)
    (second.root / ".backstory" / "replica.json").unlink()
    edited = second.documents_dir / "unrelated.md"
    edited.write_text("# Mine\n", encoding="utf-8")
    with pytest.raises(StoreError) as error:
        run_pipeline(second)
    assert error.value.code == "conflicting_files"
    assert error.value.values["changed"] == ("posts/sourdough.md", "posts/unrelated.md")
    for name in ("unrelated.md", "sourdough.md"):
        (second.documents_dir / name).unlink()
    run_pipeline(second)
    assert hash_tables(second) == hash_tables(first)
    assert (second.root / post).read_bytes() == (first.root / post).read_bytes()


def test_who_lost_the_lease_publishes_nothing(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    (first.documents_dir / "first.md").write_text("# First\n", encoding="utf-8")
    publish_changes(open_replica(first), store_of(first), lambda: {"run": 7})
    (second.documents_dir / "second.md").write_text("# Second\n", encoding="utf-8")
    late = partial(publish_changes, open_replica(second), store_of(second), lambda: {"run": 6})
    assert code_of(late) == "stale_lease"
    assert "posts/second.md" not in fetch_manifest(store_of(first))[0].files


def test_who_loses_the_lease_during_the_upload_publishes_nothing(
    first: Workspace, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_whole = ObjectStore.upload

    def upload_late(store: ObjectStore, path: Path, sha256: str) -> None:
        upload_whole(store, path, sha256)
        leases = find_leases(first.tables)
        assert leases is not None
        monkeypatch.setattr(leases, "_seconds", 0.0)
        require_token(first.tables)  # the last renewal before it falls asleep
        assert isinstance(Leases(first.tables, 60.0).try_to_take("run", EVERYTHING, "rival"), Lease)

    def publish() -> None:
        with running(first.tables, "a run"), sharing(first):
            (first.documents_dir / "first.md").write_text("# First\n", encoding="utf-8")

    monkeypatch.setattr(ObjectStore, "upload", upload_late)
    with mounted(first.root, postgres_server.make_address()):
        assert code_of(publish) == "stale_lease"
    assert "posts/first.md" not in fetch_manifest(store_of(first))[0].files


def test_other_settings_are_refused_until_both_have_them(
    first: Workspace, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    text = (first.root / "backstory.yaml").read_text(encoding="utf-8")
    second = make_worker()
    other = make_worker("other", text.replace("top_k: 3", "top_k: 2"))
    assert code_of(lambda: run_pipeline(other)) == "other_settings"
    run_pipeline(second)
    (first.root / "backstory.yaml").write_text(text.replace("top_k: 3", "top_k: 2"), encoding="utf-8")
    assert "rag.top_k" not in caplog.text
    run_pipeline(open_workspace(first.root))
    assert "rag.top_k" in caplog.text
    caplog.clear()
    with pytest.raises(StoreError) as error:
        run_pipeline(second)
    told = error.value.values
    assert (error.value.code, told["settings"]) == ("other_settings", ("rag.top_k",))
    assert str(told["worker"]).endswith(f":{first.root}")
    assert datetime.fromisoformat(str(told["at"])) <= datetime.now(UTC)
    (other.documents_dir / "more.md").write_text("# More\n", encoding="utf-8")
    run_pipeline(other)
    assert fetch_manifest(store_of(first))[0].change.worker == told["worker"]
    assert "rag.top_k" not in caplog.text


def test_a_manifest_writes_nowhere_else(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    store = store_of(first)
    manifest, etag = fetch_manifest(store)
    for path in (
        "../outside",
        ".backstory/secret.key",
        "backstory.yaml",
        "data/../../x",
        "posts/.git/config",
    ):
        content = manifest.encode().replace(b'"posts/sourdough.md"', f'"{path}"'.encode())
        etag = store.replace(MANIFEST, content, etag)
        assert code_of(lambda: pull(open_replica(second), store)) == "foreign_file"
    outside = second.root / "outside.parquet"
    outside.write_bytes(b"of another program")
    entries = {**manifest.ledger, "windows": {"../../outside": Entry("", "", 0)}}
    snapshot = SharedFile(hash_content(first.root / "chats" / "garden.txt"), 1)
    for foreign in (
        replace(manifest, ledger=entries),
        replace(manifest, files={**manifest.files, "index/CURRENT": snapshot}),
    ):
        etag = store.replace(MANIFEST, foreign.encode(), etag)
        assert code_of(lambda: pull(open_replica(second), store)) == "foreign_file"
    assert outside.exists()
    assert (second.index / "CURRENT").read_bytes() == (first.index / "CURRENT").read_bytes()


def test_damage_here_is_no_change_for_others(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    tables, windows = hash_tables(second), first.tables / "windows"
    (windows / "2025-03-13.parquet").write_bytes(b"damaged")
    (windows / "2025-03-15.parquet").unlink()
    (first.documents_dir / "new.md").write_text("# New\n", encoding="utf-8")
    with sharing(first):
        pass
    follow_now(second)
    assert (second.documents_dir / "new.md").exists()
    assert hash_tables(second) == tables
    run_pipeline(first)
    assert hash_tables(first)["windows"] == tables["windows"]


def test_forgetting_that_was_killed_is_made_good_at_once(
    first: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(first)
    text = fetch_manifest(store)[0].files["posts/unrelated.md"].sha256
    (first.documents_dir / "unrelated.md").unlink()
    with monkeypatch.context() as killed:
        killed.setattr(ObjectStore, "delete", _die)
        with pytest.raises(KeyboardInterrupt):
            forget(first, "document", "unrelated.md")
    assert store.find(name_content(text)) is not None
    assert code_of(lambda: forget(first, "document", "unrelated.md")) == "unknown_document"
    assert store.find(name_content(text)) is None


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_manifest_that_is_gone_removes_nothing(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    store, tables = store_of(first), hash_tables(first)
    store.delete([MANIFEST])
    opened = open_workspace(second.root)
    assert opened.follower.problem
    assert code_of(lambda: run_pipeline(second)) == "missing_manifest"
    (second.documents_dir / "new.md").write_text("# New\n", encoding="utf-8")
    assert code_of(lambda: publish_changes(open_replica(second), store)) == "missing_manifest"
    assert hash_tables(second) == tables
    assert (second.chats_dir / "garden.txt").exists()
    assert store.find(MANIFEST) is None
    copy_workspace(open_workspace(first.root), store.address)
    assert hash_tables(make_worker("third")) == tables
    run_pipeline(second)
    assert "posts/new.md" in fetch_manifest(store)[0].files


def test_a_damaged_ledger_empties_no_other_worker(first: Workspace, make_worker: MakeWorker) -> None:
    second = make_worker()
    tables, ledger = hash_tables(first), first.tables / "ledger.sqlite"
    for repair in (
        lambda: unlearn(open_workspace(first.root)),
        lambda: copy_workspace(open_workspace(first.root), store_of(first).address),
        lambda: copy_workspace(open_workspace(first.root), "local"),
    ):
        ledger.write_bytes(b"damaged" * 1000)
        repair()
        assert hash_tables(first) == tables
        follow_now(second)
        assert hash_tables(second) == tables


@pytest.mark.parametrize("object_of", ["data/windows/2025-03-13.parquet", "index/CURRENT"])
def test_damage_in_the_store_is_named_and_mended_by_a_copy(
    first: Workspace, make_worker: MakeWorker, tmp_path: Path, object_of: str
) -> None:
    store = store_of(first)
    name = name_content(fetch_manifest(store)[0].files[object_of].sha256)
    (tmp_path / "store" / name).write_bytes(b"damaged")
    assert code_of(make_worker) == "damaged_object"
    (tmp_path / "store" / name).unlink()
    assert code_of(lambda: make_worker("third")) == "missing_object"
    upload(first.root, store, fetch_manifest(store)[0])
    assert hash_tables(open_workspace(tmp_path / "second")) == hash_tables(first)


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
        unknown = (
            {"embedding cache", "history of runs", "batch jobs", "runs"} if failed == "database" else set()
        )
        assert healthy - {each.name for each in found} == unknown
    assert not bucket.count("PUT", "objects/")


def test_a_workspace_of_one_machine_is_left_alone(made_workspace: Workspace) -> None:
    run_pipeline(made_workspace)
    assert not (made_workspace.root / ".backstory" / "replica.json").exists()
    assert open_store(made_workspace) is None


PUBLISH = (
    "from pathlib import Path; from datetime import timedelta; import sys\n"
    "from backstory.pipeline.sharing import open_replica, open_store\n"
    "from backstory.pipeline.workspace import open_workspace\n"
    "from backstory.storage.store.exchange import publish_changes\n"
    "workspace = open_workspace(Path(sys.argv[1])); print('ready', flush=True); sys.stdin.readline()\n"
    "publish_changes(open_replica(workspace), open_store(workspace))\n"
)


PUTS: tuple[tuple[str, int], ...] = (*(("objects/", number) for number in range(4)), (MANIFEST, 0))
"""The calls that write, of a publication of four files: what the path holds, and how many such calls come before."""
KILLS: tuple[tuple[Fault, str, int], ...] = tuple(
    (fault, *put) for put in PUTS for fault in ("kill before", "kill after")
)


@pytest.mark.parametrize(("fault", "holding", "passed"), [*each_of(KILLS[:-2], 5), *KILLS[-2:]])
def test_a_power_cut_leaves_the_state_before_or_after(
    made_once: Path, tmp_path: Path, bucket: Bucket, fault: Fault, holding: str, passed: int
) -> None:
    address = f"s3://{BUCKET}/{tmp_path.name}"
    first = publish_copy(made_once, tmp_path / "first", address)
    store, before = store_of(first), fetch_manifest(store_of(first))[0]
    for number in range(4):
        (first.documents_dir / f"new-{number}.md").write_text(f"# {number}\n", encoding="utf-8")
    worker = subprocess.Popen(
        [sys.executable, "-c", PUBLISH, str(first.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
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


def test_a_publication_whose_answer_is_lost_counts_once(
    made_once: Path, tmp_path: Path, bucket: Bucket
) -> None:
    first = publish_copy(made_once, tmp_path / "first", f"s3://{BUCKET}/{tmp_path.name}")
    (first.documents_dir / "new.md").write_text("# New\n", encoding="utf-8")
    bucket.fail_first("answer lost", "PUT", MANIFEST)
    assert publish_changes(open_replica(first), store_of(first)).changed
    assert not publish_changes(open_replica(first), store_of(first)).changed


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
    for command in (["run"], ["storage", "copy", "--to", f"file://{tmp_path}/other"]):
        failed = run(*command, "-w", str(first.root))
        assert isinstance(failed.exception, StoreError)
    assert not [record for record in caplog.records if problem in record.getMessage()]
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
