"""A workspace moves onto servers and back, whole, also if the copy is stopped in the middle."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from backstory import run_pipeline
from backstory.base.errors import BackstoryError, SettingsError, StateError
from backstory.base.mounts import mount
from backstory.interfaces.library.job_store import JobStore
from backstory.operations.backup.moving import copy_workspace
from backstory.pipeline.sharing import open_replica
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.conversations import ConversationStore
from backstory.storage.schema import WORKSPACE_PARTS
from backstory.storage.store.exchange import fetch_manifest
from backstory.storage.store.manifest import MANIFEST
from backstory.storage.store.objects import ObjectStore, name_content
from backstory.storage.tables.parquet import hash_partitions
from backstory.storage.tables.schemas import TABLES
from backstory.writing.draft import Draft
from tests.bucket import Bucket
from tests.caches import open_own_state
from tests.interfaces.cli.invocation import run
from tests.postgres import PostgresServer, mounted
from tests.started_python import StartedPython
from tests.workspaces import DIGEST, SETTINGS, write_workspace

COPY = "from backstory.interfaces.cli.app import main; main()"


def use_store(root: Path, address: str) -> None:
    (root / "backstory.yaml").write_text(f"{SETTINGS}storage: {{files: '{address}'}}\n", encoding="utf-8")


def make_empty(root: Path, address: str) -> Path:
    root.mkdir()
    use_store(root, address)
    return root


def copy_killed(bucket: Bucket, root: Path, target: str, method: str, passed: int) -> None:
    """Copy in a process that is killed in the middle."""
    command = ["-c", COPY, "storage", "copy", "--to", target, "--workspace", str(root)]
    # Started without the fault, since the calls of a look at the store count, too.
    with StartedPython(command, stdout=subprocess.DEVNULL) as process:
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
    assert code_of_copy(made_workspace, "s3://key:hunter2@bucket/prefix") == "secret_in_address"
    with pytest.raises(SettingsError, match="--to") as wrong:
        copy_workspace(made_workspace, "s4://key:hunter2@bucket/prefix")
    assert "hunter2" not in str(wrong.value)
    with pytest.raises(StateError, match="--to") as away:
        copy_workspace(made_workspace, f"postgresql://nobody@/absent?host={tmp_path}")
    assert away.value.code == "unreachable_database"
    copied = run("storage", "copy", "--to", f"{address}/", "-w", str(made_workspace.root))
    assert f"storage.files to {address}/ in" in copied.stdout
    assert f"{made_workspace.root / '.backstory'}/*.key" in copied.stdout, "others need them, too"
    assert open_replica(made_workspace).read_in_step(address).etag
    other = tmp_path / "other"
    shutil.copytree(made_workspace.root, other)
    (other / ".backstory" / "replica.json").unlink()
    assert copy_workspace(open_workspace(other), address).copied == 0
    (other / ".backstory" / "replica.json").unlink()
    (other / "posts" / "moths.md").write_text("# Moths\n", encoding="utf-8")
    assert code_of_copy(open_workspace(other), address) == "already_there"


@pytest.fixture(scope="module")
def used_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of one machine with state of every kind, which no test changes."""
    workspace = write_workspace(tmp_path_factory.mktemp("used") / "workspace", DIGEST)
    run_pipeline(workspace)
    keys = [number.to_bytes(16) for number in range(1200)]
    workspace.embeddings.put("test", keys, np.ones((len(keys), 8), np.float32))
    ConversationStore(workspace.state).begin("ada", "Where is the\0spare elbow?", 1.5)
    workspace.drafts.put("a\0", "b", Draft("Title", "Text"))
    JobStore(open_own_state(workspace.root)).request("ada")
    return workspace.root


@pytest.fixture
def used(used_once: Path, tmp_path: Path, database: str) -> Workspace:
    assert database
    return open_workspace(Path(shutil.copytree(used_once, tmp_path / "used")))


@pytest.fixture
def database(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[str]:
    """An empty database, to which no folder of the test leads afterwards."""
    address = postgres_server.make_address()
    with mounted(tmp_path / "used", address), mounted(tmp_path / "empty", address):
        yield address


def read_rows(workspace: Workspace, address: str | None) -> dict[str, list[tuple[object, ...]]]:
    """Read all rows of all tables of state, as Postgres stores them."""
    found = {}
    for part in WORKSPACE_PARTS:
        state = workspace.open_state(part, address)
        with state.reading() as session:
            for table in part.tables:
                rows = session.execute(f"SELECT {', '.join(table.columns)} FROM {table.name}").fetchall()
                found[f"{part.name}.{table.name}"] = sorted(
                    (
                        tuple(v.replace("\0", "\ufffd") if isinstance(v, str) else v for v in row)
                        for row in rows
                    ),
                    key=repr,
                )
    return found


def copy_state(workspace: Workspace, target: str) -> tuple[int, int]:
    done = copy_workspace(workspace, target)
    return done.rows, done.copied_rows


def test_state_moves_to_a_database_and_back(used: Workspace, database: str, tmp_path: Path) -> None:
    rows = read_rows(used, None)
    assert {name for name, found in rows.items() if found} >= {
        *("cache.kv", "state.runs", "state.conversations", "state.jobs")
    }
    total = sum(map(len, rows.values()))
    assert copy_state(used, database) == (total, total)
    assert copy_state(used, database) == (total, 0)
    assert read_rows(used, database) == read_rows(used, None)

    there = write_workspace(tmp_path / "empty", f"{DIGEST}storage: {{database: '{database}'}}\n")
    assert not list(there.root.rglob("*.db"))
    assert copy_state(there, "local") == (total, total)
    assert read_rows(there, None) == rows
    # Numbers go on on either side: a row that is added has the key of no other one.
    there.embeddings.put("another", [b"key"], np.ones((1, 8), np.float32))
    assert copy_state(there, "local") == (total + 1, 1)
    assert code_of_copy(used, "local") == "no_store"


def test_a_machine_with_state_of_its_own_brings_it_into_a_database(
    used: Workspace, database: str, tmp_path: Path
) -> None:
    used.drafts.put("asked by both", "shown", Draft("Ours", "The text here"))
    copy_state(used, database)
    root = write_workspace(tmp_path / "empty", DIGEST).root
    mount(root, None)
    other = open_workspace(root)
    run_pipeline(other)
    keys = [number.to_bytes(16) for number in range(600, 1800)]
    other.embeddings.put("theirs", [b"key", *keys], np.full((1201, 8), 2, np.float32))
    other.drafts.put("asked by both", "shown", Draft("Theirs", "Another text"))
    other.drafts.put("asked there", "shown", Draft("Title", "Text"))
    JobStore(open_own_state(root)).request("bob")
    before, brought = read_rows(used, database), read_rows(other, None)
    done = copy_workspace(other, database)
    again = copy_workspace(other, database)
    assert (again.rows, again.copied_rows) == (done.rows, 0)
    after = read_rows(other, database)
    assert all(set(before[name]) <= set(rows) for name, rows in after.items())
    assert len(after["state.runs"]) == len(before["state.runs"]) + len(brought["state.runs"])
    (root / "backstory.yaml").write_text(f"{DIGEST}storage: {{database: '{database}'}}\n", encoding="utf-8")
    joined = open_workspace(root)
    assert joined.embeddings.count_by_owner()["theirs"] == 601
    assert joined.drafts.get("asked by both") == Draft("Ours", "The text here")
    assert joined.drafts.get("asked there") == Draft("Title", "Text")
    assert joined.embeddings.get([b"key"], 8)[1].tolist() == [[2.0] * 8]
    assert joined.embeddings.get(keys[:1], 8)[1].tolist() == [[1.0] * 8]


def test_a_copy_is_the_backup_of_a_shared_workspace(
    used: Workspace, database: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    places = f"file://{tmp_path}/store", f"file://{tmp_path}/backup"
    backup, settings = postgres_server.make_address(), used.root / "backstory.yaml"
    copy_state(used, database)
    copy_workspace(used, places[0])
    settings.write_text(
        f"{DIGEST}storage: {{files: '{places[0]}', database: '{database}'}}\n", encoding="utf-8"
    )
    (used.root / "posts" / "moths.md").write_text("# Moths\n\nA lamp.\n", encoding="utf-8")
    shared = open_workspace(used.root)
    run_pipeline(shared)
    copy_workspace(shared, places[1])
    copy_state(shared, backup)

    root = tmp_path / "empty"
    (root / ".backstory").mkdir(parents=True)
    shutil.copy(used.root / ".backstory" / "secret.key", root / ".backstory")
    (root / "backstory.yaml").write_text(
        f"{DIGEST}storage: {{files: '{places[1]}', database: '{backup}'}}\n", encoding="utf-8"
    )
    copy_state(open_workspace(root), "local")
    (root / "backstory.yaml").write_text(DIGEST, encoding="utf-8")
    restored = open_workspace(root)
    assert hash_tables(restored) == hash_tables(shared)
    assert read_rows(restored, None) == read_rows(shared, database)
    assert sum(report.computed for report in run_pipeline(restored)) == 0
