"""The tables as views over their files, for whoever reads them in SQL or through Ibis."""

from __future__ import annotations

import glob
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from backstory.atomic_files import exclusive_temporary, publish
from backstory.extras import require_extra
from backstory.tables import replace_file
from backstory.tables.contracts import polars_schema
from backstory.tables.schemas import TABLES

if TYPE_CHECKING:
    import ibis

VIEWS_FILE = "backstory.duckdb"

# DuckDB's `*.parquet` matches it, so that a view is never without a file; other tools take it for hidden.
_SCHEMA_FILE = ".schema.parquet"


def connect(root: Path) -> ibis.BaseBackend:
    """Open the tables through Ibis: a DuckDB in memory with one view per table, over the files in place.

    DuckDB opens a file more than once in a query. A query during which one of its files is replaced can fail
    with an error of that file's format; run it again, or use :func:`read_table`, which cannot.

    Args:
        root: Folder of the tables.

    Returns:
        An Ibis backend; ``connect(root).table("windows")`` is a table expression.

    Raises:
        MissingExtraError: Ibis is not installed.
    """
    require_extra("ibis", "Opening the tables through Ibis", "read them with backstory.tables.read_table")
    import ibis

    backend = ibis.duckdb.connect()
    for table in TABLES:
        backend.con.execute(_view_sql(root, table))
    return backend


def write_views(root: Path) -> Path:
    """Write the database file that holds nothing but one view per table.

    The views name the files by absolute path and glob, so that the database can be opened from any folder
    and sees partitions written later. Call it again after the folder was moved. It is replaced by renaming,
    so that whoever has it open is neither blocked nor blocking. As with :func:`connect`, a query during which
    one of its files is replaced can fail and is to be run again.

    Args:
        root: Folder of the tables; made if absent.

    Returns:
        Path of the database file, which is untouched when its views are right already.
    """
    for table, model in TABLES.items():
        replace_file(root / table / _SCHEMA_FILE, polars_schema(model).to_frame())
    path = root / VIEWS_FILE
    building = path.with_name(f".{path.name}.building")
    with exclusive_temporary(path), closing(duckdb.connect(":memory:")) as memory:
        views = [_view_sql(root, table) for table in TABLES]
        for view in views:
            memory.execute(view)
        if path.is_file() and _read_views(path) == _defined_views(memory):
            return path
        for leftover in (building, Path(f"{building}.wal")):
            leftover.unlink(missing_ok=True)
        with closing(duckdb.connect(building)) as connection:
            for view in views:
                connection.execute(view)
        publish(building, path)
    return path


def _view_sql(root: Path, table: str) -> str:
    folder = (root / table).resolve()
    if any(folder.glob("*.parquet")):
        files = f"{glob.escape(str(folder))}/*.parquet".replace("'", "''")
        return f"CREATE VIEW {table} AS FROM read_parquet('{files}')"
    with closing(duckdb.connect(":memory:")) as connection:
        connection.register("absent", polars_schema(TABLES[table]).to_frame().to_arrow())
        columns = connection.execute("DESCRIBE absent").fetchall()
    nothing = ", ".join(f'NULL::{column[1]} AS "{column[0]}"' for column in columns)
    return f"CREATE VIEW {table} AS SELECT {nothing} WHERE false"


def _defined_views(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY view_name"
    ).fetchall()


def _read_views(path: Path) -> list[tuple[str, str]] | None:
    try:
        with closing(duckdb.connect(path, read_only=True)) as connection:
            return _defined_views(connection)
    except (duckdb.IOException, duckdb.ConnectionException):
        return None  # open for writing elsewhere, or not a database: a right one takes its place
