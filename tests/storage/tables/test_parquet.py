from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import polars as pl
import pytest

from backstory.base.errors import ContractError, DamagedTableError, InputError
from backstory.base.files.atomic import temporary_path
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import empty, polars_schema
from backstory.storage.tables.ledger import LEDGER_FILE
from backstory.storage.tables.parquet import list_partitions, read_table, scan_table, write_partition
from backstory.storage.tables.schemas import SERVED_TABLES
from backstory.storage.tables.view_expressions import DOCUMENT_CATALOG, WRITER_INPUTS
from backstory.storage.tables.views import VIEWS_FILE, connect, write_views
from tests.builders.windows import make_windows
from tests.errors import raises
from tests.started_python import StartedPython, run_python

TABLE = "quarantine"
# Ibis 12 calls a method that DuckDB 1.5 has renamed.
IBIS_ON_DUCKDB = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")


def make_rows(*lines: int, source: str = "chat.txt") -> pl.DataFrame:
    rows = [(source, line, "no date") for line in lines]
    return pl.DataFrame(rows, schema=polars_schema(schemas.Quarantine), orient="row")


def make_window(window_id: str) -> pl.DataFrame:
    return make_windows([{"window_id": window_id}])


def test_a_partition_is_read_back_as_written(tmp_path: Path) -> None:
    written = write_partition(tmp_path, "windows", "2025-01-15", make_window("w1"))
    assert written.path == tmp_path / "windows" / "2025-01-15.parquet"
    assert (written.rows, written.size, written.changed) == (1, written.path.stat().st_size, True)
    assert read_table(tmp_path, "windows").equals(make_window("w1"))
    assert scan_table(tmp_path, "windows").collect().equals(make_window("w1"))


def test_partitions_are_read_in_the_order_of_their_keys(tmp_path: Path) -> None:
    for key, line in [("2025-02-01", 3), ("2025-01-01", 1), ("2025-01-02", 2)]:
        write_partition(tmp_path, TABLE, key, make_rows(line))
    assert list_partitions(tmp_path, TABLE) == ["2025-01-01", "2025-01-02", "2025-02-01"]
    assert read_table(tmp_path, TABLE)["line"].to_list() == [1, 2, 3]
    wanted = ["2025-02-01", "2025-01-01", "2024-12-31"]
    assert read_table(tmp_path, TABLE, wanted)["line"].to_list() == [1, 3]
    assert scan_table(tmp_path, TABLE, wanted).collect()["line"].to_list() == [1, 3]


def test_a_table_without_partitions_is_one_file(tmp_path: Path) -> None:
    assert write_partition(tmp_path, TABLE, None, make_rows(1)).path.name == "all.parquet"
    assert read_table(tmp_path, TABLE).equals(make_rows(1))


@pytest.mark.parametrize("table", SERVED_TABLES)
def test_an_absent_table_is_empty_with_its_columns(tmp_path: Path, table: str) -> None:
    expected = empty(SERVED_TABLES[table])
    assert list_partitions(tmp_path, table) == []
    assert read_table(tmp_path, table).equals(expected)
    assert scan_table(tmp_path, table).collect().equals(expected)
    assert read_table(tmp_path, table).schema == expected.schema
    assert not any(tmp_path.iterdir())


def test_a_scan_takes_only_what_the_query_needs(tmp_path: Path) -> None:
    write_partition(tmp_path, TABLE, "a", make_rows(1, 2, 3))
    write_partition(tmp_path, TABLE, "b", make_rows(4, 5, source="other.txt"))
    scan = scan_table(tmp_path, TABLE)
    assert scan.select(pl.len()).collect().item() == 5
    assert scan.select("line").head(4).collect()["line"].to_list() == [1, 2, 3, 4]
    assert scan.filter(pl.col("line") > 2).select("source").collect()["source"].to_list() == [
        "chat.txt",
        "other.txt",
        "other.txt",
    ]
    assert scan.filter(pl.col("line") > 2).head(2).collect()["line"].to_list() == [3, 4]
    assert scan.head(1).filter(pl.col("line") > 2).collect().is_empty()
    write_partition(tmp_path, TABLE, "c", make_rows(6))
    assert scan.select(pl.col("line").max()).collect().item() == 6


def test_equal_rows_leave_the_file_untouched(tmp_path: Path) -> None:
    first = write_partition(tmp_path, TABLE, "a", make_rows(1, 2))
    before = first.path.stat()
    pieces = pl.concat([make_rows(1), make_rows(2)], rechunk=False)
    again = write_partition(tmp_path, TABLE, "a", pieces)
    assert (again.changed, again.content_hash) == (False, first.content_hash)
    after = first.path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    other = write_partition(tmp_path, TABLE, "a", make_rows(1, 3))
    assert other.changed
    assert other.content_hash != first.content_hash


def test_equal_rows_give_equal_bytes_elsewhere(tmp_path: Path) -> None:
    one = write_partition(tmp_path / "one", TABLE, "a", make_rows(1, 2))
    code = (
        "import sys, pathlib, polars as pl; from backstory.storage.tables.parquet import write_partition;"
        f"write_partition(pathlib.Path(sys.argv[1]), {TABLE!r}, 'a', pl.read_parquet(sys.argv[2]))"
    )
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    run_python(["-c", code, str(tmp_path / "two"), str(one.path)], check=True, env=environment)
    assert (tmp_path / "two" / TABLE / "a.parquet").read_bytes() == one.path.read_bytes()


def test_no_rows_remove_the_file(tmp_path: Path) -> None:
    path = write_partition(tmp_path, TABLE, "a", make_rows(1)).path
    removed = write_partition(tmp_path, TABLE, "a", make_rows())
    assert (removed.rows, removed.size, removed.content_hash, removed.changed) == (0, 0, "", True)
    assert not path.exists()
    assert list_partitions(tmp_path, TABLE) == []
    assert not write_partition(tmp_path, TABLE, "a", make_rows()).changed
    assert not write_partition(tmp_path, "windows", "a", make_window("w").clear()).changed
    assert sorted(tmp_path.rglob("*")) == [tmp_path / TABLE]


def test_rows_that_break_the_contract_are_not_written(tmp_path: Path) -> None:
    write_partition(tmp_path, "windows", "a", make_window("w1"))
    with raises(ContractError, table="Windows"):
        write_partition(tmp_path, "windows", "a", pl.concat([make_window("w"), make_window("w")]))
    with pytest.raises(ContractError):
        write_partition(tmp_path, "windows", "a", make_rows())
    assert read_table(tmp_path, "windows").equals(make_window("w1"))


@pytest.mark.parametrize("key", ["", "../a", "a/b", "a\\b", ".hidden", "a\n", "a*", "a" * 201])
def test_keys_that_could_leave_the_folder_are_refused(tmp_path: Path, key: str) -> None:
    with raises(InputError, "invalid_partition", table=TABLE, partition=key):
        write_partition(tmp_path, TABLE, key, make_rows(1))
    with raises(InputError, "invalid_partition", table=TABLE, partition=key):
        read_table(tmp_path, TABLE, [key])
    with raises(InputError, "invalid_partition", table=TABLE, partition=key):
        scan_table(tmp_path, TABLE, [key])


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    with raises(InputError, "unknown_table", table="post"):
        write_partition(tmp_path, "post", "a", make_rows(1))
    with raises(InputError, "unknown_table", table="../quarantine"):
        read_table(tmp_path, "../quarantine")


def test_a_damaged_or_foreign_file_is_named(tmp_path: Path) -> None:
    path = write_partition(tmp_path, TABLE, "a", make_rows(1)).path
    path.write_bytes(path.read_bytes()[:-20])
    with raises(DamagedTableError, path=path, table=TABLE, partition="a"):
        read_table(tmp_path, TABLE)
    pl.DataFrame({"line": [1]}).write_parquet(path)
    with raises(ContractError, "other_columns", path=path, table=TABLE):
        read_table(tmp_path, TABLE)


WRITER = """
import sys
from pathlib import Path
import polars as pl
from backstory.storage.tables.parquet import write_partition
root, key, sizes = Path(sys.argv[1]), sys.argv[2], [int(size) for size in sys.argv[3:]]
frames = [
    pl.DataFrame({"source": str(size), "line": range(size), "reason": [f"{size}-{i}" for i in range(size)]})
    for size in sizes
]
print("ready", flush=True)
while True:
    for frame in frames:
        write_partition(root, "quarantine", key, frame)
"""


@contextmanager
def writing(root: Path, key: str, *sizes: int) -> Iterator[subprocess.Popen[str]]:
    words = ["-c", WRITER, str(root), key, *map(str, sizes)]
    with StartedPython(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def assert_whole(rows: pl.DataFrame, sizes: set[int]) -> None:
    found = rows.group_by("source").agg(pl.len(), pl.col("line").n_unique().alias("lines"))
    for source, count, lines in found.rows():
        assert int(source) in sizes
        assert count == lines == int(source)


def test_a_polling_reader_never_sees_half(tmp_path: Path) -> None:
    versions: set[tuple[str, ...]] = set()
    with writing(tmp_path, "a", 1_000, 60_000), writing(tmp_path, "b", 2_000, 40_000):
        for number in range(2_000):
            for rows in (read_table(tmp_path, TABLE), scan_table(tmp_path, TABLE).collect()):
                assert_whole(rows, {1_000, 60_000, 2_000, 40_000})
                versions.add(tuple(rows["source"].unique().sort()))
            if number >= 30 and len(versions) > 1:  # a busy machine may hold both writers up for a while
                break
    assert len(versions) > 1


def test_writers_of_one_partition_wait_for_each_other(tmp_path: Path) -> None:
    seen: set[str] = set()
    with writing(tmp_path, "a", 1_000) as one, writing(tmp_path, "a", 2_000) as two:
        for _ in range(2_000):
            rows = read_table(tmp_path, TABLE)
            assert_whole(rows, {1_000, 2_000})
            seen |= set(rows["source"])
            if len(seen) == 2:
                break
        assert one.poll() is None
        assert two.poll() is None
    assert seen == {"1000", "2000"}


@IBIS_ON_DUCKDB
def test_a_killed_writer_leaves_nothing_to_see(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
import polars as pl
from backstory.storage.tables.parquet import write_partition

def stop(descriptor):
    os.kill(os.getpid(), signal.SIGKILL)

os.fsync = stop
rows = pl.DataFrame({"source": "x", "line": [9], "reason": "y"})
write_partition(Path(sys.argv[1]), "quarantine", "a", rows)
"""
    path = write_partition(tmp_path, TABLE, "a", make_rows(1)).path
    killed = run_python(["-c", code, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    assert temporary_path(path).read_bytes().startswith(b"PAR1")
    os.truncate(temporary_path(path), 9)
    assert list_partitions(tmp_path, TABLE) == ["a"]
    assert read_table(tmp_path, TABLE).equals(make_rows(1))
    assert connect(tmp_path).table(TABLE).to_polars().equals(make_rows(1))
    write_partition(tmp_path, TABLE, "a", make_rows(2))
    assert [child.name for child in path.parent.iterdir()] == ["a.parquet"]
    assert read_table(tmp_path, TABLE).equals(make_rows(2))


@pytest.mark.parametrize("lines", [pytest.param(1, marks=pytest.mark.long), 20_000])
def test_a_writer_killed_anywhere_leaves_a_whole_partition(tmp_path: Path, lines: int) -> None:
    with writing(tmp_path, "a", 1_000, 60_000) as process:
        while read_table(tmp_path, TABLE).height < lines:
            assert process.poll() is None
    assert_whole(read_table(tmp_path, TABLE), {1_000, 60_000})
    write_partition(tmp_path, TABLE, "a", make_rows(1))
    assert [child.name for child in (tmp_path / TABLE).iterdir()] == ["a.parquet"]


def test_a_failed_write_drops_its_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_partition(tmp_path, TABLE, "a", make_rows(1))

    def fill_disk(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", fill_disk)
    with pytest.raises(OSError, match="no space left"):
        write_partition(tmp_path, TABLE, "a", make_rows(2))
    assert [child.name for child in (tmp_path / TABLE).iterdir()] == ["a.parquet"]
    assert read_table(tmp_path, TABLE).equals(make_rows(1))


def read_view(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(duckdb.connect(path, read_only=True)) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a folder whose name means something to SQL and to globs."""
    folder = tmp_path / "it's [a] *"
    folder.mkdir()
    return folder


def test_views_hold_every_table_and_follow_its_files(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_partition(root, TABLE, "a", make_rows(1, 2))
    path = write_views(root)
    assert path == root / VIEWS_FILE
    monkeypatch.chdir(tmp_path)
    assert read_view(path, f"SELECT line FROM {TABLE}") == [(1,), (2,)]
    for table, model in SERVED_TABLES.items():
        columns = [row[0] for row in read_view(path, f"DESCRIBE {table}")]
        assert columns == list(polars_schema(model))
    assert read_view(path, "SELECT count(*) FROM windows") == [(0,)]
    write_partition(root, "windows", "2025-01-15", make_window("w1"))
    assert read_view(path, "SELECT window_id, message_ids FROM windows") == [("w1", ["m1"])]
    write_partition(root, TABLE, "a", make_rows())
    assert read_view(path, f"SELECT count(*) FROM {TABLE}") == [(0,)]
    assert list_partitions(root, TABLE) == []


def test_the_file_of_views_holds_no_data_and_stays_untouched(root: Path) -> None:
    path = write_views(root)
    assert read_view(path, "SELECT count(*) FROM duckdb_tables() WHERE NOT internal") == [(0,)]
    before = {child: child.stat().st_mtime_ns for child in root.rglob("*") if child.is_file()}
    write_views(root)
    assert {child: child.stat().st_mtime_ns for child in root.rglob("*") if child.is_file()} == before
    assert {child.name for child in root.iterdir() if child.is_file()} == {VIEWS_FILE, LEDGER_FILE}


def test_views_are_written_while_the_file_is_open_elsewhere(root: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    write_views(root)
    root.rename(moved)
    opener = (
        "import duckdb, sys; connection = duckdb.connect(sys.argv[1]);"
        "print('open', flush=True); sys.stdin.read(); connection.execute('SHOW TABLES').fetchall()"
    )
    words = ["-c", opener, str(moved / VIEWS_FILE)]
    with StartedPython(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        write_partition(moved, TABLE, "a", make_rows(7))
        path = write_views(moved)
        assert read_view(path, f"SELECT line FROM {TABLE}") == [(7,)]
        holder.communicate()
    assert holder.returncode == 0


@pytest.mark.parametrize("leftover", [b"", b"no database"])
def test_a_broken_file_of_views_is_replaced(root: Path, leftover: bytes) -> None:
    for name in (VIEWS_FILE, f".{VIEWS_FILE}.building", f".{VIEWS_FILE}.tmp"):
        (root / name).write_bytes(leftover)
    assert read_view(write_views(root), "SELECT count(*) FROM windows") == [(0,)]
    assert {child.name for child in root.iterdir() if child.is_file()} == {VIEWS_FILE, LEDGER_FILE}


@IBIS_ON_DUCKDB
def test_ibis_reads_the_tables_in_place(root: Path) -> None:
    write_partition(root, "windows", "2025-01-15", make_window("w1"))
    backend = connect(root)
    assert set(backend.list_tables()) == {*SERVED_TABLES, WRITER_INPUTS, DOCUMENT_CATALOG}
    assert backend.table("windows").to_polars().equals(make_window("w1"))
    for table, model in SERVED_TABLES.items():
        assert backend.table(table).to_polars().schema == polars_schema(model)
    assert not any(root.glob("**/.*"))
    shutil.rmtree(root / "windows")
    assert connect(root).table("windows").to_polars().is_empty()
