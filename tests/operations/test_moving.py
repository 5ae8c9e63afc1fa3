"""A workspace moves into a store and out of it, whole, also if the copy is stopped in the middle."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backstory.base.errors import BackstoryError
from backstory.operations.backup.moving import copy_workspace
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.store.exchange import fetch_manifest
from backstory.storage.store.manifest import MANIFEST
from backstory.storage.store.objects import ObjectStore, name_content
from backstory.storage.tables.parquet import hash_partitions
from backstory.storage.tables.schemas import TABLES
from tests.bucket import Bucket
from tests.workspaces import SETTINGS

COPY = "from backstory.interfaces.cli.app import main; main()"


def use_store(root: Path, address: str) -> None:
    (root / "backstory.yaml").write_text(f"{SETTINGS}storage: {{files: '{address}'}}\n", encoding="utf-8")


def make_empty(root: Path, address: str) -> Path:
    root.mkdir()
    use_store(root, address)
    return root


def copy_killed(bucket: Bucket, root: Path, target: str, method: str, passed: int) -> None:
    """Copy in a process that is killed in the middle."""
    command = [sys.executable, "-c", COPY, "storage", "copy", "--to", target, "--workspace", str(root)]
    # Started without the fault, since the calls of a look at the store count, too.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        bucket.victim = process.pid
        bucket.fail_first("kill after", method, "objects/", passed=passed)
        assert process.wait() == -9
    bucket.fault = lambda _method, _path: None


def hash_tables(workspace: Workspace) -> list[dict[str, str]]:
    return [dict(hash_partitions(workspace.tables, table)) for table in TABLES]


def code_of_copy(workspace: Workspace, target: str) -> str:
    with pytest.raises(BackstoryError) as error:
        copy_workspace(workspace, target)
    return error.value.code


def test_a_copy_that_was_killed_goes_on_both_ways(
    made_workspace: Workspace, tmp_path: Path, bucket: Bucket
) -> None:
    address = f"{bucket.root}/{tmp_path.name}"
    store = ObjectStore(address)
    copy_killed(bucket, made_workspace.root, address, "PUT", 10)
    assert store.find(MANIFEST) is None
    done = copy_workspace(made_workspace, address)
    assert 0 < done.copied <= len(fetch_manifest(store)[0].objects) - 11
    again = copy_workspace(made_workspace, address)
    assert (again.copied, again.files) == (0, done.files)
    empty = make_empty(tmp_path / "empty", address)
    copy_killed(bucket, empty, "local", "GET", 10)
    back = copy_workspace(open_workspace(empty), "local")
    assert back.files == done.files
    assert hash_tables(open_workspace(empty)) == hash_tables(made_workspace)
    assert (empty / "chats" / "garden.txt").read_bytes() == (
        made_workspace.root / "chats/garden.txt"
    ).read_bytes()


def test_a_copy_mends_what_is_damaged_on_either_side(made_workspace: Workspace, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/store"
    copy_workspace(made_workspace, address)
    use_store(made_workspace.root, address)
    workspace = open_workspace(made_workspace.root)
    manifest, _ = fetch_manifest(ObjectStore(address))
    path = "data/windows/2025-03-13.parquet"
    stored = tmp_path / "store" / name_content(manifest.files[path].sha256)
    content = stored.read_bytes()
    stored.write_bytes(content[:-1] + b"?")
    assert copy_workspace(workspace, address).copied == 1
    assert stored.read_bytes() == content
    (workspace.root / path).write_bytes(content[:-1] + b"?")
    (workspace.root / "posts" / "moths.md").write_text("# Moths\n", encoding="utf-8")
    assert copy_workspace(workspace, "local").copied == 1
    assert (workspace.root / path).read_bytes() == content
    assert (workspace.root / "posts" / "moths.md").exists()


def test_a_store_of_another_workspace_is_not_written(made_workspace: Workspace, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/store"
    assert code_of_copy(made_workspace, "local") == "no_store"
    assert code_of_copy(made_workspace, "/mnt/disk") == "invalid_address"
    copy_workspace(made_workspace, address)
    other = tmp_path / "other"
    shutil.copytree(made_workspace.root, other)
    (other / ".backstory" / "replica.json").unlink()
    assert copy_workspace(open_workspace(other), address).copied == 0
    (other / ".backstory" / "replica.json").unlink()
    (other / "posts" / "moths.md").write_text("# Moths\n", encoding="utf-8")
    assert code_of_copy(open_workspace(other), address) == "already_there"
