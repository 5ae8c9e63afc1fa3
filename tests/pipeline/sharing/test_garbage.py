"""What no manifest names any more leaves the store: by its age, and at once where it was forgotten."""

import os
import re
import signal
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from backstory.base.errors import StoreError
from backstory.operations.forgetting.forget import forget
from backstory.pipeline.sharing import open_replica
from backstory.pipeline.workspace import Workspace
from backstory.storage.store import garbage
from backstory.storage.store.backups import find_kept
from backstory.storage.store.exchange import fetch_manifest, publish_changes, remove_all
from backstory.storage.store.garbage import await_removals, collect_garbage, list_all, remove_backups
from backstory.storage.store.manifest import Manifest
from backstory.storage.store.objects import Found, ObjectStore, hash_content, name_content
from backstory.storage.tables.parquet import read_table
from tests.bucket import Bucket
from tests.pipeline.sharing.workers import MakeWorker, code_of, follow_now, publish_copy, store_of
from tests.started_python import StartedPython

KILLED = """
import os, signal, sys
from backstory.storage.store.garbage import collect_garbage
from backstory.storage.store.manifest import Manifest
from backstory.storage.store.objects import ObjectStore

ObjectStore.delete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store = ObjectStore(sys.argv[1])
collect_garbage(store, Manifest(), removed={store.upload_bytes(b"a content")})
"""
"""A removal that is killed at its first object."""


def _die(*_: object) -> None:
    raise KeyboardInterrupt


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
            deleted.wait(600)
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


def test_a_backup_that_cannot_be_read_stops_no_run(
    first: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    store, replica = store_of(first), open_replica(first)
    damaged, orphan = "backups/first-2026-01-01T00-00-00-000000Z.json.gz", store.upload_bytes(b"orphan")
    assert find_kept(store, [damaged]) == set()
    store.replace(damaged, b"damaged", None)
    (first.documents_dir / "first.md").write_text("# First\n", encoding="utf-8")
    assert publish_changes(replica, store, keeps=timedelta(microseconds=1)).changed
    assert store.find(name_content(orphan)) is not None
    assert store.locate(damaged) in caplog.text
    (first.documents_dir / "first.md").unlink()
    with pytest.raises(StoreError) as raised:
        publish_changes(replica, store, keeps=timedelta(0))
    assert (raised.value.code, raised.value.values["object"]) == ("damaged_backup", damaged)
    manifest, etag = fetch_manifest(store)
    assert (replica.read_in_step(store.address).etag, "posts/first.md" in manifest.files) == (etag, False)
    remove_backups(store, [damaged], manifest)
    assert collect_garbage(store, manifest, timedelta(microseconds=1)) > 1


def test_whoever_writes_a_backup_waits_for_those_who_delete(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, found = ObjectStore(address), list[Found | None]()
    content = store.upload_bytes(b"of a backup that was removed")
    find, delete, looked = ObjectStore.find, ObjectStore.delete, threading.Event()

    def look() -> None:
        await_removals(store)
        found.append(find(store, name_content(content)))
        looked.set()

    def note(self: ObjectStore, name: str) -> Found | None:
        if name.startswith("removals/"):
            looked.set()
        return find(self, name)

    writer = threading.Thread(target=look)

    def delete_late(self: ObjectStore, names: list[str]) -> None:
        if names == [name_content(content)]:
            monkeypatch.setattr(ObjectStore, "find", note)
            writer.start()
            assert looked.wait(60)
        delete(self, names)

    monkeypatch.setattr(ObjectStore, "delete", delete_late)
    assert collect_garbage(store, Manifest(), removed={content}) == 1
    writer.join()
    assert found == [None]
    # A mark of a process that was killed holds up nobody, and goes.
    store.replace("removals/killed", b"", None)
    os.utime(tmp_path / "store" / "removals" / "killed", (0, 0))
    await_removals(store)
    collect_garbage(store, Manifest(), removed={store.upload_bytes(b"another one")})
    assert list_all(store) == []


def test_whoever_writes_a_backup_hardly_waits_for_a_process_of_this_machine_that_was_killed(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(address)
    with StartedPython(["-c", KILLED, address]) as process:
        assert process.wait() == -signal.SIGKILL
    assert [name.partition("/")[0] for name in list_all(store)] == ["objects", "removals"]
    monkeypatch.setattr(garbage, "_LAST_CALL_SECONDS", 0.0)
    await_removals(store)
    assert [name.partition("/")[0] for name in list_all(store)] == ["objects"]


def test_nothing_is_left_of_a_store_that_is_removed(address: str) -> None:
    store = ObjectStore(address)
    store.upload_bytes(b"a content")
    for name in ("mark", "backups/mine-2026-01-01T00-00-00-000000Z.json.gz", "removals/killed"):
        store.replace(name, b"", None)
    assert remove_all(store, "mark") == (3, [])
    assert [*store.list_names("backups"), *store.list_contents()] == []
    assert store.find("mark") is None
