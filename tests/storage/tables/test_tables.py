"""The tables: what a commit, a reader and a killed or rival process see of each other."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from backstory.base.errors import (
    ConflictError,
    ContractError,
    InputError,
    StateError,
    WorkspaceError,
    naming_faults_of_system,
)
from backstory.storage.schema import CATALOG
from backstory.storage.state import copy_state
from backstory.storage.state_places import open_state
from backstory.storage.stores import Folder, open_store
from backstory.storage.tables import schemas
from backstory.storage.tables.catalog import Catalog, Entry
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import SERVED_TABLES
from backstory.storage.tables.tables import CURRENT, SNAPSHOTS, WHOLE, Made, Tables, copy_files
from backstory.storage.tables.views import (
    VIEWS,
    VIEWS_FILE,
    connect,
    find_views_damage,
    query_views,
    write_views,
)
from tests.bucket import Bucket
from tests.builders.windows import make_windows
from tests.errors import raises
from tests.started_python import run_python
from tests.workspaces import open_tables

TABLE = "quarantine"
# Ibis 12 calls a method that DuckDB 1.5 has renamed.
IBIS_ON_DUCKDB = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
WRITER = """
import sys
from pathlib import Path
from tests.storage.tables.test_tables import TABLE, make_rows
from tests.workspaces import open_tables
from backstory.storage.tables.tables import Made
tables = open_tables(Path(sys.argv[1]))
while True:
    for lines in (1_000, 2_000):
        tables.commit({(TABLE, key): Made(make_rows(*range(lines)), str(lines)) for key in "abc"})
"""


def make_rows(*lines: int, source: str = "chat.txt") -> pl.DataFrame:
    rows = [(source, line, "no date") for line in lines]
    return pl.DataFrame(rows, schema=schemas.Quarantine.schema, orient="row")


def write(tables: Tables, key: str, *lines: int, inputs: str = "inputs") -> None:
    tables.commit({(TABLE, key): Made(make_rows(*lines), inputs)})


def read_lines(tables: Tables) -> list[int]:
    return tables.read(TABLE)["line"].to_list()


def list_names(tables: Tables) -> set[str]:
    return set(tables.store.list_names(TABLE))


@pytest.fixture(params=["folder", "bucket"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    if request.param == "folder":
        return open_tables(tmp_path / "data")
    bucket: Bucket = request.getfixturevalue("bucket")
    address = f"{bucket.root}/{tmp_path.name}"
    return Tables(open_store(address), open_tables(tmp_path / "data").catalog)


def test_partitions_are_read_in_the_order_of_their_keys(tables: Tables) -> None:
    for key, line in [("2025-02-01", 3), ("2025-01-01", 1), ("2025-01-02", 2)]:
        write(tables, key, line)
    assert tables.keys(TABLE) == ["2025-01-01", "2025-01-02", "2025-02-01"]
    assert read_lines(tables) == [1, 2, 3]
    wanted = ["2025-02-01", "2025-01-01", "2024-12-31"]
    assert tables.read(TABLE, wanted)["line"].to_list() == [1, 3]
    assert tables.read(TABLE, wanted, columns=["line"]).columns == ["line"]


def test_an_absent_table_is_empty_with_its_columns(tmp_path: Path) -> None:
    tables = open_tables(tmp_path / "data")
    for table, model in SERVED_TABLES.items():
        assert tables.keys(table) == []
        assert tables.read(table).equals(empty(model))
    assert not any(tmp_path.iterdir())


def test_a_reader_holds_one_version_of_all_tables(tables: Tables) -> None:
    write(tables, "a", 1)
    write(tables, "b", 1)
    pinned = tables.pin()
    tables.commit({(TABLE, key): Made(make_rows(2), "") for key in "ab"}, without=[(TABLE, "c")])
    tables.collect()
    assert (read_lines(pinned), read_lines(tables)) == ([1, 1], [2, 2])
    assert pinned.entries(TABLE)["a"].inputs == "inputs"


def test_two_runs_of_other_partitions_both_commit_and_of_the_same_the_second_is_refused(
    tmp_path: Path,
) -> None:
    first, second = open_tables(tmp_path), open_tables(tmp_path)
    seen = first.catalog.version, second.catalog.version
    first.commit({(TABLE, "a"): Made(make_rows(1), "")}, seen=seen[0])
    second.commit({(TABLE, "b"): Made(make_rows(2), "")}, seen=seen[1])
    with raises(ConflictError, None, TABLE, "a"):
        second.commit({(TABLE, key): Made(make_rows(3), "") for key in "ac"}, seen=seen[1])
    assert read_lines(first) == read_lines(second) == [1, 2]
    second.commit({(TABLE, "a"): Made(make_rows(3), "")}, seen=second.catalog.version)
    assert read_lines(first) == [3, 2]


def test_changed_inputs_and_lost_or_damaged_files_are_stale_and_nothing_else(tables: Tables) -> None:
    for key in ("changed", "kept", "lost"):
        write(tables, key, 1)
    write(tables, "empty")
    tables.store.delete([tables.list_files()[TABLE]["lost"]])
    wanted = dict.fromkeys(["changed", "empty", "kept", "lost", "unknown"], "inputs")
    assert tables.stale(TABLE, {**wanted, "changed": "others"}) == ["changed", "lost", "unknown"]
    assert tables.find_damage(TABLE).keys() == {"lost"}
    with raises(ContractError, "damaged_table", TABLE, "lost"):
        tables.read(TABLE, ["lost"])
    write(tables, "lost", 1)
    assert tables.stale(TABLE, wanted) == ["unknown"]
    tables.catalog.outdate(TABLE, ["kept"])
    assert tables.stale(TABLE, wanted) == ["kept", "unknown"]
    assert tables.read(TABLE, ["kept"]).height == 1


def test_a_damaged_or_foreign_file_is_named_and_made_again(tmp_path: Path) -> None:
    tables = open_tables(tmp_path)
    write(tables, "a", *range(30_000))
    path = tmp_path / tables.list_files()[TABLE]["a"]
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    with raises(ContractError, "damaged_table", path, TABLE, "a"):
        tables.read(TABLE)
    assert tables.stale(TABLE, {"a": "inputs"}) == ["a"]
    write(tables, "a", *range(30_000))
    assert path.read_bytes() == content


def test_rows_that_break_a_contract_leave_everything_as_it_was(tmp_path: Path) -> None:
    tables = open_tables(tmp_path)
    write(tables, "a", 1)
    window = make_windows([{"window_id": "w"}])
    with raises(ContractError, None, "Windows"):
        tables.commit(
            {(TABLE, "a"): Made(make_rows(2), ""), ("windows", "a"): Made(pl.concat([window, window]), "")}
        )
    assert (read_lines(tables), tables.keys("windows"), len(list_names(tables))) == ([1], [], 1)


@pytest.mark.parametrize("key", ["", "../a", "a/b", "a\\b", ".hidden", "a\n", "a*", "a" * 201])
def test_keys_that_could_leave_the_folder_are_refused(tmp_path: Path, key: str) -> None:
    tables = open_tables(tmp_path)
    with raises(InputError, "invalid_partition", TABLE, key):
        write(tables, key, 1)
    with raises(InputError, "invalid_partition", TABLE, key):
        tables.read(TABLE, [key])
    with raises(InputError, "unknown_table", "../quarantine"):
        tables.read("../quarantine")


def test_equal_rows_give_equal_bytes_elsewhere(tmp_path: Path) -> None:
    one = open_tables(tmp_path / "one")
    write(one, "a", 1, 2)
    code = (
        "import sys; from pathlib import Path; from tests.workspaces import open_tables;"
        "from tests.storage.tables.test_tables import write; write(open_tables(Path(sys.argv[1])), 'a', 1, 2)"
    )
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    run_python(["-c", code, str(tmp_path / "two")], check=True, env=environment)
    assert open_tables(tmp_path / "two").list_files() == one.list_files()


def test_a_polling_reader_sees_whole_commits_whenever_the_writer_is_killed(tmp_path: Path) -> None:
    tables, versions = open_tables(tmp_path), set[int]()
    for looks in (5, 40, 200):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)]) as writer:
            while not tables.keys(TABLE):
                assert writer.poll() is None
            for _ in range(looks):
                pinned = tables.pin()
                counts = set(pinned.read(TABLE).group_by("line").len()["len"])
                assert counts == {3}
                versions.add(pinned.read(TABLE).height)
            writer.send_signal(signal.SIGKILL)
        assert tables.find_damage(TABLE) == {}
    assert versions <= {3_000, 6_000}
    tables.collect(timedelta(0))
    assert list_names(tables) == set(tables.list_files()[TABLE].values())


def test_a_failed_write_leaves_no_file_and_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = open_tables(tmp_path)
    write(tables, "a", 1)
    before = list_names(tables)
    (tmp_path / "windows").write_bytes(b"in the way of a folder")
    with raises(StateError, "unwritable", tmp_path / "windows"), naming_faults_of_system():
        tables.commit({("windows", "a"): Made(make_windows([{"window_id": "w"}]), "")})

    def fill_disk(*_arguments: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "fsync", fill_disk)
    with pytest.raises(OSError, match="no space left"):
        write(tables, "a", 2)
    assert (list_names(tables), read_lines(tables), tables.keys("windows")) == (before, [1], [])


def test_files_that_no_partition_is_are_deleted_after_a_while(tables: Tables) -> None:
    write(tables, "a", 1)
    write(tables, "b", 2)
    [first] = [tables.list_files()[TABLE]["a"]]
    content = tables.store.read(first)
    write(tables, "a", 3)
    assert (tables.collect(), len(list_names(tables)), tables.store.read(first)) == (0, 3, content)
    write(tables, "a", 1)  # is used again, so that another one is not
    assert (tables.collect(), len(list_names(tables))) == (0, 3)
    assert tables.collect(timedelta(0)) == 1
    assert list_names(tables) == set(tables.list_files()[TABLE].values())
    assert read_lines(tables) == [1, 2]
    assert tables.catalog.read("unused files") == {}


def test_snapshots_in_the_store_that_the_catalog_does_not_name_are_deleted(tables: Tables) -> None:
    for version in ("former", "present"):
        tables.store.write(f"{SNAPSHOTS}/{version}/texts.npy", b"a text")
    tables.catalog.record("search_index", {WHOLE: Entry("", "present", 1)})
    assert tables.collect(timedelta(0)) == 1
    assert list(tables.store.list_names(SNAPSHOTS)) == [f"{SNAPSHOTS}/present/texts.npy"]


@pytest.mark.parametrize("storage_address", ["sqlite", "postgres"], indirect=True)
def test_files_are_deleted_by_the_clock_that_machines_share(
    tmp_path: Path, storage_address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(
        Folder(tmp_path / "data"), Catalog(open_state(tmp_path / "data", storage_address, CATALOG))
    )
    write(tables, "a", 1)
    write(tables, "a", 2)
    real = time.time
    for hours in (-1, 1):
        monkeypatch.setattr(time, "time", lambda hours=hours: real() + hours * 3600)
        assert (tables.collect(), len(list_names(tables))) == (0, 2)
    assert tables.collect(timedelta(0)) == 1


def test_what_another_process_removes_is_gone(tmp_path: Path) -> None:
    first, second = open_tables(tmp_path), open_tables(tmp_path)
    write(first, "a", 1)
    write(first, "b", 2)
    assert second.keys(TABLE) == ["a", "b"]
    first.commit({(TABLE, "c"): Made(make_rows(3), "")}, without=[(TABLE, "a")])
    assert second.keys(TABLE) == first.keys(TABLE) == ["b", "c"]
    with first.catalog.state.reading() as session:
        assert session.execute("SELECT partition FROM partitions WHERE partition = 'a'").fetchall() == []


def test_entries_of_another_catalog_in_the_same_place_are_not_mixed(tmp_path: Path) -> None:
    tables = open_tables(tmp_path)
    write(tables, "a", 1)
    write(tables, "b", 2)
    other = open_tables(tmp_path / "other")
    write(other, "c", 3)
    tables.catalog.state.close()
    for path in tmp_path.glob("catalog.sqlite*"):
        path.unlink()
    assert tables.keys(TABLE) == []
    other.catalog.state.compact()
    (tmp_path / "other" / "catalog.sqlite").rename(tmp_path / "catalog.sqlite")
    assert tables.keys(TABLE) == ["c"]


def test_a_copy_has_the_files_of_one_moment(tables: Tables, tmp_path: Path) -> None:
    write(tables, "a", 1)
    write(tables, "a", 2)
    copy = open_tables(tmp_path / "copy")
    copy_state(tables.catalog.state, copy.catalog.state)
    for is_first in (True, False):
        [(name, size, is_copied)] = copy_files(tables, copy.store)
        assert (name, is_copied) == (tables.list_files()[TABLE]["a"], is_first)
        assert size == len(tables.store.read(name) or b"")
    assert (read_lines(copy), copy.find_damage(TABLE)) == ([2], {})
    assert len(list_names(copy)) == 1


def test_a_large_file_is_fetched_once_for_each_reader(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tables, "a", *range(30_000))
    store, read = type(tables.store), []

    def note(self: Any, name: str) -> bytes | None:
        read.append(name)
        return fetch(self, name)

    fetch = store.read
    monkeypatch.setattr(store, "read", note)
    for _ in range(2):
        assert read_lines(tables) == [*range(30_000)]
        assert tables.read(TABLE, columns=["line"]).height == 30_000
    assert len(read) == 4


@IBIS_ON_DUCKDB
def test_ibis_sql_and_a_list_of_files_read_the_tables_as_they_were_published(tables: Tables) -> None:
    root = tables.store.locate("").rstrip("/")
    with raises(WorkspaceError, "no_tables"):
        connect(root)
    write(tables, "a", 1)
    tables.publish()
    backend = connect(root)
    assert set(backend.list_tables()) == {*SERVED_TABLES, *VIEWS}
    tables.commit({}, without=[(TABLE, "a")])
    tables.collect()
    [name] = json.loads(tables.store.read(CURRENT) or b"")["tables"][TABLE].values()
    assert pl.read_parquet(tables.store.read(name) or b"")["line"].to_list() == [1]
    query = f"SELECT count(*) FROM {TABLE}"
    assert (query_views(root, query).item(), query_views(tables, query).item()) == (1, 0)
    tables.publish()
    assert query_views(root, query).item() == 0
    assert backend.table(TABLE).to_polars()["line"].to_list() == [1]


def test_the_file_of_views_names_the_present_files_and_is_replaced_only_then(tmp_path: Path) -> None:
    tables, root = open_tables(tmp_path / "it's [here]*"), tmp_path / "it's [here]*"
    write(tables, "a", 1, 2)
    path = write_views(tables)
    with closing(duckdb.connect(path, read_only=True)) as open_elsewhere:
        for table, model in SERVED_TABLES.items():
            columns = [name for name, *_ in open_elsewhere.execute(f"DESCRIBE {table}").fetchall()]
            assert columns == list(model.schema)
        before = path.stat().st_ino
        assert (write_views(tables), path.stat().st_ino) == (path, before)
        write(tables, "a", 7)
        assert find_views_damage(tables) is not None
        write_views(tables)
        assert open_elsewhere.execute(f"SELECT line FROM {TABLE}").fetchall() == [(1,), (2,)]
    assert find_views_damage(tables) is None
    path.write_bytes(b"broken")
    (root / f".{VIEWS_FILE}.building").write_bytes(b"left")
    write_views(tables)
    with closing(duckdb.connect(path, read_only=True)) as views:
        assert views.execute(f"SELECT line FROM {TABLE}").fetchall() == [(7,)]


def test_views_stay_as_they_are_while_a_file_is_gone_or_damaged_and_a_warning_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = open_tables(tmp_path)
    write(tables, "a", 1)
    before = write_views(tables).read_bytes()
    write(tables, "a", 2)
    file = tmp_path / tables.list_files()[TABLE]["a"]
    for content in (b"", b"PAR1", b"not Parquet at all", None):
        caplog.clear()
        file.unlink() if content is None else file.write_bytes(content)
        assert write_views(tables).read_bytes() == before
        assert [file.name in record.getMessage() for record in caplog.records] == [True]
        assert find_views_damage(tables) is not None


def test_a_copied_folder_is_read_by_its_own_files(tmp_path: Path) -> None:
    tables, query = open_tables(tmp_path / "one"), f"SELECT line FROM {TABLE}"
    write(tables, "a", 1)
    tables.publish()
    write_views(tables)
    copy = shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert find_views_damage(open_tables(copy)) is None
    [name] = tables.list_files()[TABLE].values()
    make_rows(2).write_parquet(copy / name)
    assert query_views(copy, query).item() == 2
    for folder, line in ((tmp_path / "one", 1), (copy, 2)):
        with closing(duckdb.connect(folder / VIEWS_FILE, read_only=True)) as views:
            assert views.execute(query).fetchall() == [(line,)]
        with closing(duckdb.connect()) as other:
            other.execute(f"ATTACH '{folder / VIEWS_FILE}' AS attached (READ_ONLY)")
            assert other.execute(f"SELECT line FROM attached.{TABLE}").fetchall() == [(1,)]


def test_a_workspace_is_taken_for_its_tables_and_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    tables = open_tables(tmp_path / "workspace" / "data")
    (tmp_path / "workspace" / "backstory.yaml").touch()
    write(tables, "a", 1, 2)
    with raises(WorkspaceError, "no_tables"):
        connect(tmp_path / "workspace")
    tables.publish()
    for root in (tmp_path / "workspace", str(tmp_path / "workspace"), tmp_path / "workspace" / "data"):
        assert query_views(root, f"SELECT count(*) FROM {TABLE}").item() == 2
    for mistyped in (tmp_path, tmp_path / "workspaec", tmp_path / "workspace" / "data" / TABLE):
        with raises(WorkspaceError, "no_tables"):
            connect(mistyped)


def test_catalogs_of_one_place_see_each_others_changes(tmp_path: Path) -> None:
    one, two = open_tables(tmp_path).catalog, open_tables(tmp_path).catalog
    assert isinstance(one, Catalog)
    assert (one.read("marks"), one.version) == ({}, 0)
    write(open_tables(tmp_path), "a", 1)
    held = two.read_all([TABLE])[TABLE]
    one.forget(TABLE, ["a"])
    assert (two.read(TABLE), list(held)) == ({}, ["a"])
    assert one.version == two.version == 2


def test_a_large_file_that_was_replaced_is_not_kept_in_memory(tmp_path: Path) -> None:
    tables = open_tables(tmp_path / "data")

    def replace_and_read(number: int) -> None:
        text = random.Random(number).randbytes(500_000).hex()
        tables.commit({(TABLE, WHOLE): Made(make_rows(1, source=text), "inputs")})
        assert len(tables.read(TABLE)) == 1

    replace_and_read(0)
    tracemalloc.start()
    for number in range(1, 9):
        replace_and_read(number)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000
