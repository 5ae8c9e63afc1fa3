"""State over SQLite and over a real Postgres: transactions, upserts, locks, copies, damage, forks and readers."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from backstory.base.errors import StateError
from backstory.storage.schema import Part, Table
from backstory.storage.state import State, copy_state
from backstory.storage.state_places import open_state
from backstory.storage.state_postgres import PostgresState
from backstory.storage.state_sqlite import SqliteState
from backstory.storage.turns import running
from tests.errors import raises
from tests.postgres import PostgresServer
from tests.privileges import NOBODY, run_forked

NOTES = Table(
    "notes",
    "name TEXT, number INTEGER, share REAL?, content BLOB?",
    key="name",
    unique=("number",),
    index="share, number",
)
PART = Part("notes", "the list of notes", "delete it", (NOTES,))

HOLDER = """
import sys
from pathlib import Path
from backstory.storage.schema import CATALOG
from backstory.storage.state_places import open_state
state = open_state(Path(sys.argv[1]), sys.argv[2] or None, CATALOG)
with state.lock("run", "2024-01-01", by="the holder"):
    print("held", flush=True)
    input()
"""


WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError as error:
    print(error)
"""

Note: TypeAlias = tuple[str, int, float | None, bytes | None]


def note(name: str, number: int, share: float | None = None, content: bytes | None = None) -> Note:
    return name, number, share, content


def read_all(state: State) -> list[Note]:
    with state.reading() as session:
        return list(session.execute("SELECT * FROM notes ORDER BY name"))


def fill(state: State, *rows: Note, replace: bool = True) -> None:
    with state.begin() as session:
        state.upsert(session, NOTES, rows, replace=replace)


@pytest.fixture
def state(tmp_path: Path, storage_address: str | None) -> State:
    return open_state(tmp_path, storage_address, PART)


def test_rows_are_replaced_or_kept(state: State) -> None:
    assert not state.exists()
    assert read_all(state) == []
    fill(state, note("b", 1 << 40, 0.5, b"\0\xff"), note("é", 2), note("a\0", 3))
    fill(state, note("b", 4), note("c", 5), replace=False)
    fill(state, note("é", 2, 1.0))
    found = [("a", 3, None, None), ("b", 1 << 40, 0.5, b"\0\xff"), ("c", 5, None, None), ("é", 2, 1.0, None)]
    assert [
        (str(name).strip("\0\N{REPLACEMENT CHARACTER}"), *rest) for name, *rest in read_all(state)
    ] == found
    with state.begin() as session:
        query = "UPDATE notes SET number = 6 WHERE name = ? AND number = ?"
        changed = [session.execute(query, ("é", number)).rowcount for number in (0, 2)]
        assert (changed, session.execute("SELECT sum(number) FROM notes").fetchone()) == (
            [0, 1],
            ((1 << 40) + 14,),
        )
    state.examine()
    state.compact()
    assert (state.exists(), len(read_all(state))) == (True, 4)


def test_an_error_undoes_a_transaction(state: State) -> None:
    fill(state, note("a", 1))

    def fail() -> None:
        with state.begin() as session:
            session.execute("UPDATE notes SET number = 2")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with raises(StateError, "unusable_state"):
        fill(state, note("b", 3), note("c", 1))
    assert read_all(state) == [("a", 1, None, None)]


def test_writers_exclude_each_other_and_readers_see_one_moment(state: State) -> None:
    fill(state, note("count", 0))

    def count(_: int) -> None:
        with state.begin() as session:
            [(number,)] = session.execute("SELECT number FROM notes").fetchall()
            session.execute("UPDATE notes SET number = ? WHERE name = ?", (number + 1, "count"))

    with state.reading() as session:
        [(before,)] = session.execute("SELECT number FROM notes").fetchall()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(count, range(20)))
        assert session.execute("SELECT number FROM notes").fetchall() == [(before,)]
    assert read_all(state) == [("count", 20, None, None)]


def test_a_lock_excludes_others_and_names_its_holder(state: State, tmp_path: Path) -> None:
    got = threading.Event()

    def wait() -> None:
        with state.lock("run"):
            got.set()

    assert state.find_holder("run") is None
    with state.lock("run", by="run 1") as held:
        assert held
        assert state.find_holder("run") == "run 1"
        with state.lock("run", wait=False) as again, state.lock("other", wait=False) as other:
            assert (again, other) == (False, True)
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not got.is_set()
    waiting.join()
    assert got.is_set()
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".lock")]
    with state.lock("day", shared=True), state.lock("day", shared=True, wait=False) as shared:
        assert shared
        with state.lock("day", wait=False) as alone:
            assert not alone


def test_a_killed_holder_leaves_its_locks(tmp_path: Path, storage_address: str | None) -> None:
    from backstory.storage.schema import CATALOG

    state = open_state(tmp_path, storage_address, CATALOG)
    command = [sys.executable, "-c", HOLDER, str(tmp_path), storage_address or ""]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert state.find_holder("2024-01-01") == "the holder"
        process.kill()
    with state.lock("run", "2024-01-01") as held:
        assert held
    assert state.find_holder("run") is None


def test_the_holder_of_a_run_is_named_with_its_process_and_the_time(state: State) -> None:
    with running(state, "library (documents only)"):
        holder = state.find_holder("run") or ""
    assert f":{os.getpid()}, " in holder
    assert holder.startswith("library (documents only), ")
    assert holder.endswith(" UTC")


def test_probing_a_lock_does_not_take_it(state: State) -> None:
    ended = threading.Event()

    def probe() -> None:
        while not ended.is_set():
            state.find_holder("run")

    probing = [threading.Thread(target=probe) for _ in range(2)]
    for one in probing:
        one.start()
    taken = []
    for _ in range(200):
        with state.lock("run", wait=False) as held:
            taken.append(held)
    ended.set()
    for one in probing:
        one.join()
    assert all(taken)


def test_state_moves_both_ways(tmp_path: Path, postgres_server: PostgresServer) -> None:
    here, there = (open_state(tmp_path / name, None, PART) for name in ("here", "there"))
    server = open_state(tmp_path, postgres_server.make_address(), PART)
    (tmp_path / "here").mkdir()
    rows = [note(f"{number:05}", number, number / 3, bytes([number % 256])) for number in range(2500)]
    fill(here, *rows)
    fill(server, note("00007", -7))
    assert copy_state(here, server) == (2500, 2499)
    (tmp_path / "there").mkdir()
    assert copy_state(server, there) == (2500, 2500)
    assert [row for row in read_all(there) if row[0] == "00007"] == [("00007", -7, None, None)]
    assert [row for row in read_all(there) if row[0] != "00007"] == [
        row for row in read_all(here) if row[0] != "00007"
    ]


def test_a_forked_process_has_connections_of_its_own(state: State) -> None:
    fill(state, note("a", 1))
    run_forked(lambda: fill(state, note("b", 2)))
    fill(state, note("c", 3))
    assert [row[0] for row in read_all(state)] == ["a", "b", "c"]


def test_a_removed_or_replaced_file_is_made_or_opened_again(tmp_path: Path) -> None:
    state, other = open_state(tmp_path, None, PART), open_state(tmp_path / "other", None, PART)
    fill(state, note("a", 1))
    (tmp_path / "other").mkdir()
    fill(other, note("b", 2))
    other.close()
    for log in tmp_path.glob("notes.sqlite-*"):
        log.unlink()
    (tmp_path / "other" / "notes.sqlite").replace(tmp_path / "notes.sqlite")
    assert [row[0] for row in read_all(state)] == ["b"]
    fill(state, note("d", 4))
    (tmp_path / "notes.sqlite").unlink()  # its log stays
    fill(state, note("c", 3))
    assert [row[0] for row in read_all(state)] == ["c"]


def damage_page(content: bytes) -> bytes:
    return content[:8192] + b"\xff" * 8192 + content[16384:]


@pytest.mark.parametrize(
    ("damage", "codes"),
    [
        (lambda _: b"no database at all" * 100, {"damaged_file"}),
        (lambda _: b"", {"other_format"}),
        (damage_page, {"damaged_file"}),
    ],
    ids=["other", "empty", "page"],
)
def test_a_damaged_file_stays_and_is_named(
    tmp_path: Path, damage: Callable[[bytes], bytes], codes: set[str]
) -> None:
    state = SqliteState(tmp_path / "notes.sqlite", PART)
    fill(state, *(note(str(number), number, content=bytes(500)) for number in range(500)))
    state.close()
    assert state.path.stat().st_mode & 0o777 == 0o600
    content = damage(state.path.read_bytes())
    state.path.write_bytes(content)
    for act in (read_all, SqliteState.examine):
        with pytest.raises(StateError, match=str(state.path)) as found:
            act(state)
        assert found.value.code in codes
    assert state.path.read_bytes() == content


def test_another_format_is_refused(tmp_path: Path, postgres_server: PostgresServer) -> None:
    state = open_state(tmp_path, None, PART)
    fill(state)
    state.close()
    with sqlite3.connect(tmp_path / "notes.sqlite") as file:
        file.execute("PRAGMA user_version = 99")
    file.close()
    server = open_state(tmp_path, postgres_server.make_address(), PART)
    fill(server)
    with postgres_server.connect() as connection:
        [(schema,)] = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'workspace%_notes' ORDER BY oid DESC LIMIT 1"
        ).fetchall()
        connection.execute(f"COMMENT ON SCHEMA {schema} IS 'of somebody else'")
    for refused in (state, server):
        with raises(StateError, "other_format"):
            read_all(refused)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_whoever_may_only_read_reads_and_is_told_what_writing_needs(tmp_path: Path) -> None:
    state = open_state(tmp_path, None, replace(PART, is_private=False))
    fill(state, note("a", 1))
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)

    def read_and_write() -> None:
        assert [row[0] for row in read_all(state)] == ["a"]
        with pytest.raises(StateError) as found:
            fill(state, note("b", 2))
        assert found.value.code == "unwritable"

    for closes in (False, True):  # with and without a log beside the file
        if closes:
            state.close()
        run_forked(read_and_write, NOBODY)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    state = open_state(tmp_path, None, PART)
    fill(state, note("a", 1))

    def overfill() -> None:
        with state.begin() as session:
            [(pages,)] = session.execute("PRAGMA page_count").fetchall()
            session.execute(f"PRAGMA max_page_count = {pages}")
            state.upsert(session, NOTES, [note("b", 2, content=bytes(100_000))])

    with raises(StateError, "disk_full"):
        overfill()
    fill(state, note("b", 2, content=bytes(100_000)))
    assert [row[0] for row in read_all(state)] == ["a", "b"]


def test_a_server_that_starts_again_is_waited_for(tmp_path: Path, postgres_server: PostgresServer) -> None:
    state = open_state(tmp_path, postgres_server.make_address(), PART)
    fill(state, note("a", 1))
    with state.lock("run"):  # which the server gives up, and its connection
        postgres_server.stop()
        starting = threading.Thread(target=postgres_server.start)
        starting.start()
        fill(state, note("b", 2))
        starting.join()
    fill(state, note("c", 3))
    assert [row[0] for row in read_all(state)] == ["a", "b", "c"]


def test_what_is_wrong_with_a_server_is_said(tmp_path: Path, postgres_server: PostgresServer) -> None:
    socket, loopback = postgres_server.socket_address, postgres_server.loopback_address
    wrong = {
        f"{socket}&options=-csearch_path%3Dnowhere": "unusable_schema",
        socket.replace("/postgres?", "/other?"): "refused_connection",
        loopback: "refused_connection",
        loopback.replace("backstory@", "backstory:wrong@"): "refused_connection",
        loopback.replace("backstory@", "backstory:right@") + "?sslmode=require": "refused_connection",
        "postgresql://backstory@127.0.0.1:1/postgres": "unreachable_database",
    }
    for address, code in wrong.items():
        with raises(StateError, code):
            read_all(open_state(tmp_path, address, PART))


def test_parts_of_a_server_share_its_schema(tmp_path: Path, postgres_server: PostgresServer) -> None:
    address = postgres_server.make_address()
    fill(open_state(tmp_path, address, PART), note("a", 1))
    assert [row[0] for row in read_all(open_state(tmp_path, address, PART))] == ["a"]
    with postgres_server.connect() as connection:
        schema = f"{address.rpartition('%3D')[2]}_notes"
        assert connection.execute(f"SELECT name FROM {schema}.notes").fetchall() == [("a",)]
    server, other = PostgresState(postgres_server.make_address(), PART), schema.removesuffix("_notes")
    assert (server.drop_namespace(other), server.drop_namespace(other)) == (1, 0)
    server.make_namespace(other)
    assert read_all(open_state(tmp_path, address, PART)) == []


def test_deleted_rows_are_on_the_disk_until_the_file_is_compacted(tmp_path: Path) -> None:
    state, path = open_state(tmp_path, None, PART), tmp_path / "notes.sqlite"
    with state.begin() as session:
        session.execute("PRAGMA secure_delete = OFF")
        state.upsert(session, NOTES, [note("old", 1, content=b"an old text" * 100)])
        session.execute("DELETE FROM notes")
    state.compact()
    assert b"an old text" not in path.read_bytes()
