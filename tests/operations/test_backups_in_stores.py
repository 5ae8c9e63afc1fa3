"""A backup in a store is whole, uploads only what has changed, and outlives what workers do to the same store."""

import gzip
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from backstory import run_pipeline
from backstory.base.errors import BackstoryError, InputError, SettingsError, StoreError
from backstory.operations.backup.row_parts import Part, join_rows, read_schema, split_rows
from backstory.operations.backup.stored import BackupInStore, restore_from_store, write_to_store
from backstory.operations.forgetting.forget import forget
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.store.backups import find_kept, list_backups, read_backup
from backstory.storage.store.exchange import fetch_manifest
from backstory.storage.store.garbage import collect_garbage
from backstory.storage.store.manifest import MANIFEST
from backstory.storage.store.objects import ObjectStore, name_content
from backstory.writing.draft import Draft
from tests.bucket import Bucket
from tests.errors import raises
from tests.interfaces.cli.invocation import run
from tests.operations.test_moving import COPY, read_rows
from tests.postgres import PostgresServer, mounted
from tests.started_python import StartedPython
from tests.workspaces import CHAT, DIGEST, write_workspace

DATABASES = (".sqlite", ".db")
SECRET = ".backstory/secret.key"
MARK = "removals/other"


@pytest.fixture
def servers(postgres_server: PostgresServer, bucket: Bucket, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of an empty database and of an empty store, for a workspace in the folder of the test."""
    database = postgres_server.make_address()
    with mounted(tmp_path / "workspace", database):
        yield database, f"{bucket.root}/{tmp_path.name}"


def back_up(workspace: Workspace, address: str, keep: int | None = None) -> BackupInStore:
    return write_to_store(workspace, address, keep=keep)


def read_files(root: Path) -> dict[str, bytes]:
    """Read what a backup is to hold byte by byte: inputs, tables, the snapshot, and the state that is no database."""
    found = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in (root / "backstory.yaml", *root.glob("[!.]*/**/*"), *root.glob(".backstory/[!.]*"))
        if path.is_file() and not path.name.startswith(".")
    }
    return {
        name: content
        for name, content in found.items()
        if name != SECRET and not name.endswith((*DATABASES, "-wal", "-shm", ".duckdb"))
    }


def set_aside(restored: Path, root: Path) -> Workspace:
    """Make a restored workspace one of one machine, with the key of the first one."""
    shutil.copy(root / SECRET, restored / SECRET)
    (restored / "backstory.yaml").write_text(DIGEST, encoding="utf-8")
    return open_workspace(restored)


def test_a_shared_workspace_is_backed_up_whole_and_then_by_what_has_changed(
    servers: tuple[str, str], bucket: Bucket, tmp_path: Path
) -> None:
    database, files = servers
    root, backups = tmp_path / "workspace", f"{files}/backups-of-it"
    shared = write_workspace(root, f"{DIGEST}storage: {{files: '{files}', database: '{database}'}}\n")
    run_pipeline(shared)
    keys = [number.to_bytes(16) for number in range(600)]
    shared.embeddings.put("test", keys, np.ones((len(keys), 8), np.float32))
    shared.drafts.put("request", "shown", Draft("Title", "Text"))
    first = back_up(shared, backups)
    restored = restore_from_store(backups, tmp_path / "restored").root
    assert read_files(restored) == read_files(root)
    assert read_rows(open_workspace(restored), None) == read_rows(shared, database)
    assert not (restored / SECRET).exists()
    told = run("restore", backups, "--into", str(tmp_path / "told")).stdout
    assert f"remove storage from {tmp_path / 'told' / 'backstory.yaml'}" in told
    alone = set_aside(restored, root)
    assert sum(report.computed for report in run_pipeline(alone)) == 0

    bucket.calls.clear()
    again = back_up(shared, backups)
    assert (again.files, again.uploaded) == (first.files, 0)
    assert bucket.count("PUT") == 1
    assert bucket.count("GET", "objects/") == 0
    assert bucket.count("HEAD", "objects/") == 0

    (root / "posts" / "moths.md").write_text("# Moths\n\nA lamp.\n", encoding="utf-8")
    run_pipeline(open_workspace(root))
    bucket.calls.clear()
    third = back_up(shared, backups)
    assert 0 < third.uploaded == bucket.count("PUT", "objects/") < first.uploaded
    assert set(restore_from_store(third.address, tmp_path / "third").root.glob("posts/moths.md"))
    assert not (restore_from_store(first.address, tmp_path / "first").root / "posts" / "moths.md").exists()


def test_a_workspace_of_one_machine_is_restored_by_the_command(
    made_workspace: Workspace, tmp_path: Path
) -> None:
    address, root = f"file://{tmp_path}/store", tmp_path / "again"
    (made_workspace.root / "posts" / "near.md").symlink_to("sourdough.md")
    written = run("backup", f"{address}/", "-w", str(made_workspace.root))
    assert f"Wrote {address}/backups/workspace-" in written.stdout
    assert f"left out: {SECRET}" in written.stdout
    assert run("restore", address, "--into", str(root)).exit_code == 0
    assert read_files(root) == read_files(made_workspace.root)
    assert (root / "posts" / "near.md").readlink() == Path("sourdough.md")
    chat = "chats/garden.txt"
    assert int((root / chat).stat().st_mtime) == int((made_workspace.root / chat).stat().st_mtime)
    assert root.stat().st_mode & 0o777 == 0o700
    assert run("restore", address, "--into", str(root)).exception.code == "not_empty"  # type: ignore[union-attr]
    store = ObjectStore(address)
    interrupted, under_way = store.upload_bytes(b"interrupted"), store.upload_bytes(b"under way")
    for sha256 in {interrupted, *find_kept(store)}:
        os.utime(tmp_path / "store" / name_content(sha256), (0, 0))
    kept = run("backup", address, "--keep", "1", "-w", str(made_workspace.root))
    assert "1 earlier backup was removed" in kept.stdout
    assert len(list_backups(store)) == 1
    assert {sha256 for sha256, _ in store.list_contents()} == find_kept(store) | {under_way}


def test_a_backup_with_settings_that_cannot_be_read_is_restored(
    made_workspace: Workspace, tmp_path: Path
) -> None:
    address, root = f"file://{tmp_path}/store", tmp_path / "again"
    (made_workspace.root / "backstory.yaml").write_text("of_a_later_release: 1\n", encoding="utf-8")
    back_up(made_workspace, address)
    assert run("restore", address, "--into", str(root)).exit_code == 0
    assert read_files(root) == read_files(made_workspace.root)
    with pytest.raises(SettingsError):
        open_workspace(root)


def test_a_backup_that_was_killed_goes_on(made_workspace: Workspace, bucket: Bucket, tmp_path: Path) -> None:
    address = f"{bucket.root}/{tmp_path.name}"
    command = ["-c", COPY, "backup", address, "--workspace", str(made_workspace.root)]
    with StartedPython(command, stdout=subprocess.DEVNULL) as process:
        bucket.victim = process.pid
        bucket.fail_first("kill after", "PUT", "objects/", passed=10)
        assert process.wait() == -9
    bucket.fault = lambda _method, _path: None
    store = ObjectStore(address)
    assert list_backups(store) == []
    there = {sha256 for sha256, _ in store.list_contents()}
    done = back_up(made_workspace, address)
    # What was on its way from the killed process may have come after the look.
    assert 0 < done.uploaded <= len(find_kept(store) - there) < len(find_kept(store))


def test_workers_keep_what_a_backup_in_their_store_names(made_workspace: Workspace, tmp_path: Path) -> None:
    address, root = f"file://{tmp_path}/store", made_workspace.root
    (root / "backstory.yaml").write_text(f"{DIGEST}storage: {{files: '{address}'}}\n", encoding="utf-8")
    (root / "chats" / "other.txt").write_text(CHAT.replace("garden", "other"), encoding="utf-8")
    shared, store = open_workspace(root), ObjectStore(address)
    run_pipeline(shared)
    first = back_up(shared, address)
    # The tables and the snapshot were there already.
    assert first.uploaded < len(fetch_manifest(store)[0].objects)
    forgotten = forget(shared, "document", "posts/unrelated.md")
    assert any(first.address in copy for copy in forgotten.copies)
    collect_garbage(store, fetch_manifest(store)[0], timedelta(0))
    restored = restore_from_store(address, tmp_path / "restored").root
    assert "moths" in (restored / "posts" / "unrelated.md").read_text(encoding="utf-8")
    (root / "posts" / "unrelated.md").unlink()
    run_pipeline(open_workspace(root))
    for sha256, _ in store.list_contents():
        os.utime(tmp_path / "store" / name_content(sha256), (0, 0))
    assert back_up(open_workspace(root), address, keep=1).removed == 1
    manifest, _ = fetch_manifest(store)
    # Readers may still fetch what was dropped within a day.
    assert {sha256 for sha256, _ in store.list_contents()} > manifest.dropped.keys() != set()
    collect_garbage(store, manifest, timedelta(microseconds=1))
    objects = [path for path in (tmp_path / "store" / "objects").rglob("*") if path.is_file()]
    assert [path for path in objects if b"moths" in path.read_bytes()] == []
    assert len(list_backups(store)) == 1
    restore_from_store(address, tmp_path / "latest")
    for path in objects:
        os.utime(path, (0, 0))
    store.delete([MANIFEST])
    # Whoever puts the manifest back finds what it names.
    assert back_up(open_workspace(root), address, keep=1).removed == 0
    assert all(store.verify(sha256) for sha256 in manifest.objects)


@pytest.mark.parametrize("moment", [("PUT", "/objects/"), ("HEAD", MARK)], ids=["before", "after"])
def test_contents_that_are_removed_during_a_backup_are_told(
    made_workspace: Workspace, bucket: Bucket, tmp_path: Path, moment: tuple[str, str]
) -> None:
    """Whoever removes them is done before the backup is written, or has begun before and goes on after."""
    address = f"{bucket.root}/{tmp_path.name}"
    store = ObjectStore(address)
    back_up(made_workspace, address)
    [name] = list_backups(store)
    gone = name_content(min(find_kept(store)))
    made_workspace.drafts.put("request", "shown", Draft("Title", "Text"))

    def remove(method: str, path: str) -> None:
        if method == moment[0] and moment[1] in path:
            bucket.fault = lambda _method, _path: None
            store.delete([gone, MARK])

    def begin(method: str, path: str) -> None:
        if method == "PUT" and "/backups/" in path:
            bucket.fault = lambda _method, _path: None
            store.replace(MARK, b"", None)
            bucket.fault = remove

    bucket.fault = remove if moment[0] == "PUT" else begin
    with raises(StoreError, "missing_object"):
        back_up(made_workspace, address)
    assert list_backups(store) == [name]


def test_workspaces_of_one_name_keep_their_backups_apart(
    made_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"file://{tmp_path}/store"
    other = open_workspace(Path(shutil.copytree(made_workspace.root, tmp_path / "deep" / "workspace")))
    (other.root / "posts" / "sourdough.md").unlink()
    first, second = back_up(made_workspace, address, keep=1), back_up(other, address, keep=1)
    assert second.removed == 0
    names = tuple(list_backups(ObjectStore(address)))
    assert {f"{address}/{name}" for name in names} == {first.address, second.address}
    with raises(InputError, "several_workspaces"):
        restore_from_store(address, tmp_path / "again")
    third = back_up(made_workspace, address, keep=1)
    assert (third.removed, len(list_backups(ObjectStore(address)))) == (1, 2)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    restored = restore_from_store(third.address).root
    assert restored == tmp_path / "elsewhere" / "workspace"
    assert (restored / "posts" / "sourdough.md").is_file()
    # What was restored goes on where the lost one ended.
    assert back_up(open_workspace(restored), address, keep=1).removed == 1


def test_what_must_not_leave_this_machine_is_in_no_backup_of_a_store(
    made_workspace: Workspace, tmp_path: Path
) -> None:
    address, root = f"file://{tmp_path}/store", made_workspace.root
    names = (
        "posts/.env",
        "posts/deep/id_rsa",
        "posts/.ssh/config",
        ".backstory/secret.key.old",
        "posts/deep/own.sealed",
    )
    (root / "backstory.yaml").write_text(f"{DIGEST}documents: {{secrets: ['*.sealed']}}\n", encoding="utf-8")
    for name in (*names, "posts/deep/open.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"What {name} holds", encoding="utf-8")
    done = back_up(open_workspace(root), address)
    assert [
        sum(name in left for left in done.left_out) for name in (*names[:2], "posts/.ssh/", *names[3:])
    ] == [1] * 5
    restored = restore_from_store(address, tmp_path / "restored").root
    assert (restored / "posts/deep/open.txt").is_file()
    assert [name for name in names if (restored / name).exists()] == []
    objects = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert [
        name for name in names if any(f"What {name} holds".encode() in content for content in objects)
    ] == []


def test_a_large_file_may_grow_while_it_is_uploaded(
    made_workspace: Workspace, bucket: Bucket, tmp_path: Path
) -> None:
    address, post = f"{bucket.root}/{tmp_path.name}", made_workspace.root / "posts" / "long.md"
    content = b"# Long\n\n" + b"A line.\n" * 300_000
    post.write_bytes(content)
    name = name_content(hashlib.sha256(content).hexdigest())

    def grow(method: str, path: str) -> None:
        if method == "PUT" and path.endswith(name):
            with post.open("ab") as file:
                file.write(b"More.\n")

    bucket.fault = grow
    done = back_up(made_workspace, address)
    bucket.fault = lambda _method, _path: None
    assert post.stat().st_size > len(content)
    restored = restore_from_store(done.address, tmp_path / "restored").root
    assert (restored / "posts" / "long.md").read_bytes() == content


def cut_manifest(store: ObjectStore, folder: Path) -> None:
    path = folder / list_backups(store)[0]
    path.write_bytes(path.read_bytes()[:-20])


def test_a_backup_that_cannot_be_read_is_passed_over_and_none_of_those_that_are_kept(
    made_workspace: Workspace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address, keys = f"file://{tmp_path}/store", [number.to_bytes(16) for number in range(600)]
    store, folder = ObjectStore(address), tmp_path / "store"
    made_workspace.embeddings.put("test", keys, np.ones((len(keys), 1000), np.float32))
    first, second = back_up(made_workspace, address), back_up(made_workspace, address)
    [kept, damaged] = list_backups(store)
    (folder / damaged).write_bytes(b"damaged")
    third = back_up(made_workspace, address, keep=2)
    assert (third.removed, third.uploaded, third.files) == (0, second.uploaded, first.files)
    assert [record.levelname for record in caplog.records if store.locate(damaged) in record.message]
    assert list_backups(store)[:2] == [kept, damaged]
    assert back_up(made_workspace, address, keep=2).removed == 2
    assert f"{address}/{list_backups(store)[0]}" == third.address
    (folder / list_backups(store)[-1]).write_bytes(b"damaged")
    assert back_up(made_workspace, address, keep=1).removed == 2
    restored = restore_from_store(address, tmp_path / "restored").root
    assert read_files(restored) == read_files(made_workspace.root)


def climb(store: ObjectStore, folder: Path) -> None:
    path = folder / list_backups(store)[0]
    content = json.loads(gzip.decompress(path.read_bytes()))
    content["files"]["posts/../../outside.md"] = content["files"]["posts/sourdough.md"]
    path.write_bytes(gzip.compress(json.dumps(content).encode()))


def find_post(store: ObjectStore, folder: Path) -> Path:
    [name] = list_backups(store)
    return folder / name_content(read_backup(store, name).files["posts/sourdough.md"].sha256)


def damage_object(store: ObjectStore, folder: Path) -> None:
    path = find_post(store, folder)
    path.write_bytes(path.read_bytes() + b"?")


def remove_object(store: ObjectStore, folder: Path) -> None:
    find_post(store, folder).unlink()


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (cut_manifest, "damaged_backup"),
        (climb, "damaged_backup"),
        (damage_object, "damaged_object"),
        (remove_object, "missing_object"),
    ],
)
def test_a_damaged_backup_in_a_store_restores_nothing(
    made_workspace: Workspace, tmp_path: Path, harm: Callable[[ObjectStore, Path], None], code: str
) -> None:
    address, target = f"file://{tmp_path}/store", tmp_path / "deep" / "workspace"
    back_up(made_workspace, address)
    harm(ObjectStore(address), tmp_path / "store")
    target.mkdir(parents=True)
    (target / "mine.txt").touch()
    with pytest.raises(StoreError) as raised:
        restore_from_store(address, target, replace=True)
    assert raised.value.code == code
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert [path.name for path in target.parent.iterdir()] == ["workspace"]
    assert not (tmp_path / "outside.md").exists()


def test_a_place_that_does_not_do_is_told(made_workspace: Workspace, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/store"
    with raises(InputError, "absent_file", path=address):
        restore_from_store(address, tmp_path / "again")
    with pytest.raises(BackstoryError) as held:
        back_up(made_workspace, "s3://key:hunter2@bucket/prefix")
    assert held.value.code == "secret_in_address"
    place = made_workspace.root / "posts" / "backups"
    with raises(InputError, "inside_workspace", path=place):
        back_up(made_workspace, f"file://{place}")
    assert not place.exists()
    done = run("backup", str(tmp_path), "--keep", "1", "-w", str(made_workspace.root))
    assert done.exception.code == "no_store"  # type: ignore[union-attr]


def split(path: Path, known: list[Part]) -> tuple[list[Part], list[Part]]:
    """Split a database, and give the parts of before that are still whole, and the other ones."""
    names = {name: number for number, part in enumerate(known) for name in part.names}
    made: list[Part] = []
    whole = split_rows(path, names, made.append, size=2000)
    return [part for number, part in enumerate(known) if number in whole], made


def test_rows_that_came_and_went_cost_their_own_parts_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "PRAGMA user_version = 3; PRAGMA application_id = 7; CREATE TABLE kept (key BLOB PRIMARY KEY, value REAL);"
            "CREATE TABLE numbers (number INTEGER PRIMARY KEY, text TEXT) STRICT; CREATE INDEX texts ON numbers (text);"
        )
        rows = [(bytes(range(20)) + bytes([number]), number / 3) for number in range(200)]
        connection.executemany("INSERT INTO kept VALUES (?, ?)", rows)
        connection.executemany("INSERT INTO numbers VALUES (?, ?)", [(5, "five"), (9, None)])
        connection.commit()
        whole, parts = split(path, [])
        assert whole == []
        assert sum(len(part.names) for part in parts) == 202
        assert split(path, parts) == (parts, [])
        connection.execute("INSERT INTO kept VALUES (x'00', 1.5)")
        connection.commit()
        whole, made = split(path, parts)
        assert whole == parts
        assert [len(part.names) for part in made] == [1]
        connection.execute("DELETE FROM kept WHERE key = ?", rows[0][:1])
        connection.commit()
        whole, made = split(path, parts)
        assert whole == parts[1:]
        assert sum(len(part.names) for part in (*whole, *made)) == 202
        files = []
        for number, part in enumerate((*whole, *made)):
            files.append(tmp_path / str(number))
            files[-1].write_bytes(part.content)
        assert join_rows(read_schema(path), files, tmp_path / "joined.sqlite") == 202
        with closing(sqlite3.connect(tmp_path / "joined.sqlite")) as joined:
            for query in (
                *(f"SELECT * FROM {table} ORDER BY 1" for table in ("kept", "numbers")),
                *(
                    "PRAGMA user_version",
                    "PRAGMA application_id",
                    "SELECT sql FROM sqlite_master ORDER BY name",
                ),
            ):
                assert joined.execute(query).fetchall() == connection.execute(query).fetchall()
