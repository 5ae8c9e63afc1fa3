"""The tables as views over their files, and views over these, for readers in SQL or through Ibis."""

from __future__ import annotations

import errno
import glob
import hashlib
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.base.extras import require_extra
from backstory.base.files.atomic import exclusive_temporary, publish
from backstory.base.ids import digest
from backstory.storage.tables.contracts import polars_schema
from backstory.storage.tables.duckdb_engines import AttachedFile, quote, start_engine
from backstory.storage.tables.duckdb_frames import fetch_frame, register_frame
from backstory.storage.tables.ledger import LEDGER_FILE, Entry, Ledger
from backstory.storage.tables.parquet import encode_rows, replace_content
from backstory.storage.tables.schemas import SERVED_TABLES
from backstory.storage.tables.view_expressions import CATALOG_COLUMNS, DOCUMENT_CATALOG, VIEWS, WRITER_INPUTS

if TYPE_CHECKING:
    import ibis


VIEWS_FILE = "backstory.duckdb"
_RECORDED = "views"
_ATTEMPTS = 50

# DuckDB's `*.parquet` matches it, so that a view always finds a file. Other tools skip it as hidden.
_SCHEMA_FILE = ".schema.parquet"


def connect(root: Path | str) -> ibis.BaseBackend:
    """Open the tables through Ibis: an in-memory DuckDB with one view per table, and those over them.

    Of a store, the views are over the objects of its last publication, and stay so: a later one is seen by the next
    call. They are kept for a day at least.

    DuckDB opens a file more than once in a query. A query during which one of its files is replaced can fail
    with an error of that file's format; run it again, or use :func:`read_table`, which cannot.

    Args:
        root: Folder of the tables; or the address of a store that workers share, such as ``s3://bucket/prefix``.

    Returns:
        An Ibis backend; ``connect(root).table("windows")`` is a table expression.

    Raises:
        MissingExtraError: Ibis is not installed, or for a store, the client of S3.
        WorkspaceError: An earlier version wrote the tables.
        StoreError: The store cannot be used, or nothing is published there.
    """
    require_extra(
        "ibis",
        "Opening the tables through Ibis",
        "read them with backstory.storage.tables.parquet.read_table",
    )
    import ibis

    backend = ibis.duckdb.connect()
    try:
        _make_views(backend.con, root)
    except duckdb.BinderException as error:
        raise _refuse_earlier(root) from error
    return backend


def _is_address(root: Path | str) -> bool:
    return isinstance(root, str) and "://" in root


def _make_views(connection: duckdb.DuckDBPyConnection, root: Path | str) -> None:
    """Create the views in a database in memory."""
    name_files: Callable[[str], str | None] = partial(_name_files, Path(root))
    if _is_address(root):
        # The client of a store takes long to load.
        from backstory.storage.store.table_objects import name_table_objects

        name_files = name_table_objects(connection, str(root)).get
    for view in _list_views(name_files).values():
        connection.execute(view)


def query_views(root: Path | str, sql: str) -> pl.DataFrame:
    """Run a query over the views, and again if a run replaced a file of a table meanwhile.

    DuckDB opens a file more than once in a query, so that a replacement can make a query fail or mix two files. An
    answer counts only if no file of any table changed between its beginning and its end.

    Args:
        root: Folder of the tables; or the address of a store, as for :func:`connect`.
        sql: One statement that reads.

    Raises:
        WorkspaceError: The views were never written, or files kept changing in each of the attempts.
        duckdb.Error: The statement is wrong, or a file is damaged.
        StoreError: See :func:`connect`.
    """
    if _is_address(root):
        with closing(start_engine()) as engine:
            _make_views(engine, root)
            return fetch_frame(engine, sql)
    root = Path(root)
    path = root / VIEWS_FILE
    if not path.is_file():
        raise WorkspaceError(
            f"{path} does not exist; `backstory run`, or without chats `backstory add`, writes it",
            code="no_views",
            path=path,
        )
    for _ in range(_ATTEMPTS):
        before = _list_files(root)
        try:
            with closing(duckdb.connect(path, read_only=True)) as connection:
                rows = fetch_frame(connection, sql)
        except duckdb.Error:
            if _list_files(root) == before:
                raise
        else:
            if _list_files(root) == before:
                return rows
    raise WorkspaceError(
        f"the tables changed during each of {_ATTEMPTS} attempts; query them when the run has ended",
        code="changing_tables",
        attempts=_ATTEMPTS,
    )


def read_writer_inputs(root: Path | str) -> pl.DataFrame:
    """Read what a writer job needs: one row per window, by time.

    Args:
        root: Folder of the tables; or the address of a store, as for :func:`connect`.

    Returns:
        The view ``writer_inputs``, with the columns of :data:`backstory.storage.tables.view_expressions.INPUT_COLUMNS`.

    Raises:
        WorkspaceError: The views were never written, or a run changes the tables all the time.
    """
    rows = query_views(root, f"FROM {WRITER_INPUTS}")
    published = pl.field("published_at").dt.replace_time_zone("UTC")
    return rows.with_columns(
        pl.col("started_at", "ended_at").dt.replace_time_zone("UTC"),
        pl.col("citations").list.eval(pl.element().struct.with_fields(published)),
    )


def read_document_catalog(root: Path) -> pl.DataFrame:
    """Read the catalog of documents: one row per document, by path.

    Args:
        root: Folder of the tables.

    Returns:
        The view ``document_catalog``, with the columns of
        :data:`backstory.storage.tables.view_expressions.CATALOG_COLUMNS`.

    Raises:
        WorkspaceError: The views were never written, or by an earlier version, or a run changes the tables all the
            time.
    """
    try:
        rows = query_views(root, f"SELECT {', '.join(CATALOG_COLUMNS)} FROM {DOCUMENT_CATALOG}")  # noqa: S608
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        raise _refuse_earlier(root / VIEWS_FILE) from error
    return rows.with_columns(pl.col("published_at").dt.replace_time_zone("UTC"))


def _refuse_earlier(path: Path | str) -> WorkspaceError:
    return WorkspaceError(
        f"{path} was written by an earlier version of Backstory; `backstory run` writes it again",
        code="other_format",
        path=path,
    )


def _list_files(root: Path) -> set[tuple[str, int, int]]:
    """Identify the file of each partition, and of the views: a replaced one has another number on the disk."""
    found = set()
    for path in [root / VIEWS_FILE, *root.glob("[!.]*/[!.]*.parquet")]:
        with suppress(FileNotFoundError):
            status = path.stat()
            found.add((str(path), status.st_ino, status.st_ctime_ns))
    return found


def write_views(root: Path) -> Path:
    """Write a database file that holds only views: one per table, ``writer_inputs`` and ``document_catalog``.

    The views name the files by absolute path and glob, so that the database can be opened from any folder
    and sees partitions written later. Call this again after the folder was moved. The file is replaced by
    renaming, so that a process that has it open blocks nobody. As with :func:`connect`, a query can fail if one of
    its files is replaced meanwhile; run it again.

    Args:
        root: Folder of the tables; created if absent.

    Returns:
        Path of the database file, which is not touched if it is intact and its views are correct.

    Raises:
        OSError: The disk is full.
        LedgerError: The ledger is damaged.
    """
    for table in SERVED_TABLES:
        content = _encode_schema(table)
        if _read_if_there(root / table / _SCHEMA_FILE) != content:
            replace_content(root / table / _SCHEMA_FILE, content)
    path = root / VIEWS_FILE
    building = path.with_name(f".{path.name}.building")
    with exclusive_temporary(path):
        views = list(_list_views(partial(_name_files, root)).values())
        inputs = digest([duckdb.__version__, *views])
        ledger = Ledger(root / LEDGER_FILE)
        known = ledger.read(_RECORDED).get(VIEWS_FILE)
        if known is not None and (known.inputs, known.content) == (inputs, _hash_file(path)):
            return path
        ledger.forget(_RECORDED, [VIEWS_FILE])
        _remove_leftovers(building)
        try:
            with closing(AttachedFile(building, read_only=False)) as file:
                for view in views:
                    file.connection.execute(view)
            _require_views(building)
            publish(building, path)
        finally:
            _remove_leftovers(building)
        ledger.record(_RECORDED, {VIEWS_FILE: Entry(inputs, _hash_file(path), len(views))})
    return path


def _make_empty(table: str) -> pl.DataFrame:
    return polars_schema(SERVED_TABLES[table]).to_frame()


@cache
def _encode_schema(table: str) -> bytes:
    return encode_rows(_make_empty(table))


def _read_if_there(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _remove_leftovers(building: Path) -> None:
    for leftover in (building, Path(f"{building}.wal")):
        leftover.unlink(missing_ok=True)


def find_views_damage(root: Path) -> str | None:
    """Check the file of the views.

    Args:
        root: Folder of the tables.

    Returns:
        What is wrong and what to do, or None if the file is intact.

    Raises:
        LedgerError: The ledger is damaged.
    """
    known = Ledger(root / LEDGER_FILE).read(_RECORDED).get(VIEWS_FILE)
    path = root / VIEWS_FILE
    if known is None or known.content == _hash_file(path):
        return None
    what = "is not the file that was written" if path.is_file() else "is gone"
    return f"{path} {what}; `backstory run` writes it again"


def _list_views(name_files: Callable[[str], str | None]) -> dict[str, str]:
    """Write the statements that create the views, by name, each after those that it reads.

    Args:
        name_files: Returns the SQL of the name or names of the files of a table; None if it has none.
    """
    views = {table: _view_sql(table, name_files(table)) for table in SERVED_TABLES}
    return {**views, **{name: f"CREATE VIEW {name} AS {_read_query(name)}" for name in VIEWS}}


@cache
def _read_query(view: str) -> str:
    return (files("backstory.storage.tables") / f"{view}.sql").read_text(encoding="utf-8")


def _name_files(root: Path, table: str) -> str | None:
    folder = (root / table).resolve()
    return quote(f"{glob.escape(str(folder))}/*.parquet") if any(folder.glob("*.parquet")) else None


def _view_sql(table: str, files: str | None) -> str:
    rows = _select_nothing(table) if files is None else f"FROM read_parquet({files})"
    return f"CREATE VIEW {table} AS {rows}"


@cache
def _select_nothing(table: str) -> str:
    with closing(start_engine(threads=1)) as engine:
        register_frame(engine, "absent", _make_empty(table))
        columns = engine.execute("DESCRIBE absent").fetchall()
    nothing = ", ".join(f'NULL::{column[1]} AS "{column[0]}"' for column in columns)
    return f"SELECT {nothing} WHERE false"


def _require_views(path: Path) -> None:
    """Read the views back, because DuckDB reports no error when it closes an incompletely written database."""
    with closing(AttachedFile(path, read_only=True)) as file:
        views = (
            "SELECT view_name FROM duckdb_views() WHERE NOT internal AND database_name = current_database()"
        )
        found = file.connection.execute(views).fetchall()
    expected = {*SERVED_TABLES, *VIEWS}
    if {name for (name,) in found} != expected:
        raise OSError(
            errno.ENOSPC, f"{len(found)} of {len(expected)} views were written; is the disk full?", path
        )


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
