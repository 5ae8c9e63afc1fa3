"""Damage to a store, a manifest or a worker reaches no other worker."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.operations.backup.moving import copy_workspace
from backstory.operations.learning.learn import unlearn
from backstory.pipeline.sharing import Follower, open_replica, sharing
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.store.exchange import fetch_manifest, publish_changes, pull, upload
from backstory.storage.store.manifest import MANIFEST, SharedFile
from backstory.storage.store.objects import hash_content, name_content
from backstory.storage.tables.ledger import Entry
from tests.pipeline.sharing.workers import (
    MakeWorker,
    code_of,
    follow_now,
    hash_tables,
    publish_copy,
    publish_without_pulling,
    store_of,
)
from tests.privileges import NOBODY


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


def test_what_this_user_may_not_read_is_no_change_for_others(
    made_once: Path,
    open_folder: Path,
    shut: Callable[[Path, int], AbstractContextManager[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = publish_copy(made_once, open_folder / "first", f"file://{open_folder}/store")
    if os.geteuid() == 0:
        for path in (open_folder, *open_folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    store = store_of(first)
    files = set(fetch_manifest(store)[0].files)
    for place in ("posts/sourdough.md", "chats"):
        new = f"posts/beside {place.replace('/', ' ')}.md"
        (first.root / new).write_text(f"# Beside {place}\n", encoding="utf-8")
        with shut(first.root / place, 0):
            publish_without_pulling(first)
        assert repr(place) in caplog.text
        files.add(new)
        assert set(fetch_manifest(store)[0].files) == files
    (first.root / "posts" / "back\\slash.md").write_text("# Of another system\n", encoding="utf-8")
    publish_without_pulling(first)
    assert repr("posts/back\\slash.md") in caplog.text
    assert set(fetch_manifest(store)[0].files) == files


@pytest.mark.parametrize(("place", "mode"), [("posts/sourdough.md", 0), ("posts", 0), ("posts", 0o400)])
def test_what_others_change_meanwhile_of_what_this_user_may_not_read_stays(
    made_once: Path,
    open_folder: Path,
    shut: Callable[[Path, int], AbstractContextManager[None]],
    place: str,
    mode: int,
) -> None:
    first = publish_copy(made_once, open_folder / "first", f"file://{open_folder}/store")
    second = publish_copy(made_once, open_folder / "second", f"file://{open_folder}/store")
    changed = {name: f"# Of the first worker: {name}\n" for name in ("sourdough.md", "added.md")}
    for name, text in changed.items():
        (first.documents_dir / name).write_text(text, encoding="utf-8")
    publish_without_pulling(first)
    published = fetch_manifest(store_of(first))[0].files
    if os.geteuid() == 0:
        for path in (open_folder, *open_folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    with shut(second.root / place, mode):
        assert code_of(lambda: Follower(second).follow(before_run=True)) == "closed_file"
        reader = Follower(second)
        reader.follow()
        assert "closed_file" in reader.problem
    pull(open_replica(second), store_of(second))
    publish_without_pulling(second)
    assert fetch_manifest(store_of(first))[0].files == published
    assert {name: (second.documents_dir / name).read_text(encoding="utf-8") for name in changed} == changed


def test_a_manifest_that_is_gone_removes_nothing(
    first: Workspace, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    second = make_worker()
    store, tables = store_of(first), hash_tables(first)
    store.delete([MANIFEST])
    opened = open_workspace(second.root)
    assert opened.follower.problem
    caplog.clear()
    assert code_of(lambda: run_pipeline(second)) == "missing_manifest"
    told = [record.args for record in caplog.records if record.levelname == "WARNING"]
    assert told == [(second.follower.problem,)]
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
