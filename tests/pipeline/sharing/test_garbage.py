"""What no manifest names any more leaves the store: by its age, and at once where it was forgotten."""

import re
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from backstory.operations.forgetting.forget import forget
from backstory.pipeline.workspace import Workspace
from backstory.storage.store.exchange import collect_garbage, fetch_manifest
from backstory.storage.store.objects import Found, ObjectStore, hash_content, name_content
from backstory.storage.tables.parquet import read_table
from tests.bucket import Bucket
from tests.pipeline.sharing.workers import MakeWorker, code_of, follow_now, publish_copy, store_of


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
