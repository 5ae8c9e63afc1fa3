"""What two workers publish at the same time is joined, or refused with a way out."""

import hashlib
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.errors import StoreError
from backstory.operations.backup.moving import copy_workspace
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.sharing import open_replica, sharing
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.leases import EVERYTHING, Lease, Leases, find_leases
from backstory.storage.store.exchange import fetch_manifest, publish_changes
from backstory.storage.store.manifest import MANIFEST
from backstory.storage.store.objects import ObjectStore
from backstory.storage.tables.locks import require_token, running
from backstory.writing.post_files import inspect_file
from tests.pipeline.sharing.workers import (
    MakeWorker,
    code_of,
    hash_tables,
    publish_without_pulling,
    store_of,
)
from tests.postgres import PostgresServer, mounted


def test_publications_of_other_files_are_joined(
    first: Workspace, make_worker: MakeWorker, address: str, tmp_path: Path
) -> None:
    second = make_worker()
    (second.documents_dir / "second.md").write_text("# Second\n", encoding="utf-8")
    (first.documents_dir / "first.md").write_text("# First\n", encoding="utf-8")
    publish_without_pulling(first)
    publish_without_pulling(second)
    manifest, _ = fetch_manifest(store_of(first))
    assert {"posts/first.md", "posts/second.md"} <= manifest.files.keys()
    assert not (second.documents_dir / "first.md").exists()
    (second.documents_dir / "more.md").write_text("# More\n", encoding="utf-8")
    publish_without_pulling(second)  # joined once more
    manifest, _ = fetch_manifest(store_of(first))
    assert {"posts/first.md", "posts/second.md", "posts/more.md"} <= manifest.files.keys()
    # A folder without the work of others is not to become what all have.
    path = tmp_path / "store" / MANIFEST
    published = path.read_bytes()
    path.unlink()
    assert code_of(lambda: copy_workspace(second, address)) == "not_in_step"
    path.write_bytes(published)
    with sharing(second):
        pass
    assert (second.documents_dir / "first.md").read_text(encoding="utf-8") == "# First\n"


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
    assert str(error.value) in {one.detail for one in examine(second.root) if not one.passed}
    assert (error.value.code, told["settings"]) == ("other_settings", ("rag.top_k",))
    assert str(told["worker"]).endswith(f":{first.root}")
    assert datetime.fromisoformat(str(told["at"])) <= datetime.now(UTC)
    (other.documents_dir / "more.md").write_text("# More\n", encoding="utf-8")
    run_pipeline(other)
    assert fetch_manifest(store_of(first))[0].change.worker == told["worker"]
    assert "rag.top_k" not in caplog.text
