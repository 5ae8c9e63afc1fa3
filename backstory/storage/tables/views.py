"""The tables as views over their files, and views over these, for readers in SQL or through Ibis."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import duckdb
import polars as pl

from backstory.base.environment import SETTINGS_FILE, may_reach_store_by_http
from backstory.base.errors import WorkspaceError
from backstory.base.extras import require_extra
from backstory.base.files.atomic import exclusive_temporary, publish
from backstory.base.ids import digest
from backstory.base.telemetry import log_event
from backstory.settings.paths import WorkspacePaths
from backstory.settings.yaml_file import read_settings
from backstory.storage.stores import Bucket, Store, open_store
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import SERVED_TABLES
from backstory.storage.tables.tables import CURRENT, Tables

if TYPE_CHECKING:
    import ibis

logger = logging.getLogger(__name__)

VIEWS_FILE: Final = "backstory.duckdb"
VIEWS: Final = ("writer_inputs", "document_catalog")
"""The views over the tables, each a query in a file of its name."""

_MADE_OF: Final = "made_of"
"""View that names the files of all others by a hash, and the folder in which the file was written."""
# Nothing is downloaded, and nothing is left in the folder of the caller.
_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
}

Source: TypeAlias = "Path | str | Tables"
"""Folder of a workspace or of its tables; or the address of a store, such as ``s3://bucket/prefix``; or the tables."""


def connect(root: Source) -> ibis.BaseBackend:
    """Open the tables through Ibis: an in-memory DuckDB with one view per table, and those over them.

    The views are over the files of one version of all tables, that of the last run, and stay so: a later one is seen by
    the next call. A file that is no part of the tables any more is kept for an hour.

    Args:
        root: Folder of a workspace, or of its tables; or the address of a store that workers share, such as
            ``s3://bucket/prefix``.

    Returns:
        An Ibis backend; ``connect(root).table("windows")`` is a table expression.

    Raises:
        MissingExtraError: Ibis is not installed, or for a store, the client of S3.
        WorkspaceError: There are no tables (code ``no_tables``), or an earlier version wrote them (``other_format``).
        StateError: The store cannot be used.
    """
    require_extra(
        "ibis", "Opening the tables through Ibis", "read them with backstory.storage.tables.views.query_views"
    )
    import ibis

    backend = ibis.duckdb.connect()
    _make_views(backend.con, root)
    return backend


def query_views(root: Source, sql: str) -> pl.DataFrame:
    """Run one statement over the views that :func:`connect` describes; DuckDB raises its own errors."""
    with closing(duckdb.connect(config=_CONFIG)) as connection:
        _make_views(connection, root)
        rows = connection.sql(sql)
        try:
            return pl.DataFrame(rows)
        except pl.exceptions.ComputeError as error:  # Polars reads the rows, and so meets DuckDB's errors
            raise duckdb.DatabaseError(str(error)) from error


def read_writer_inputs(root: Source) -> pl.DataFrame:
    """Read the view ``writer_inputs``, with all that a writer's program needs: one row per window, by time."""
    rows = query_views(root, "FROM writer_inputs")
    published = pl.field("published_at").dt.replace_time_zone("UTC")
    return rows.with_columns(
        pl.col("started_at", "ended_at").dt.replace_time_zone("UTC"),
        pl.col("citations").list.eval(pl.element().struct.with_fields(published)),
    )


def write_views(tables: Tables) -> Path:
    """Write a database file beside the tables that holds only views: one per table, and :data:`VIEWS` over them.

    It is replaced by renaming, so that a process that has it open blocks nobody. It stays as it is if its views are
    those of the present files, or if one of these is absent or damaged, which a warning says.
    """
    path = Path(tables.store.locate(VIEWS_FILE))
    views, made_of = _list_beside(path, tables)
    building = path.with_name(f".{path.name}.building")
    # Also where nothing changes, since a killed process may have left the temporary file.
    with exclusive_temporary(path):
        if _read_made_of(path) == made_of:
            return path
        _remove_leftovers(building)
        try:
            with closing(duckdb.connect(str(building), config=_CONFIG)) as connection:
                for view in views:
                    connection.execute(view)
            # DuckDB reports no error when it closes an incompletely written database.
            if _read_made_of(building) != made_of:
                raise OSError(errno.ENOSPC, f"not all views were written to {path}; is the disk full?", path)
            publish(building, path)
        except (duckdb.IOException, duckdb.InvalidInputException):
            damage = [what for table in SERVED_TABLES for what in tables.find_damage(table).values()]
            if not damage:
                raise
            log_event(logger, "views not written", level=logging.WARNING, path=path, cause="; ".join(damage))
        finally:
            _remove_leftovers(building)
    return path


def find_views_damage(tables: Tables) -> str | None:
    """Return what is wrong with the file of the views and what to do; None if nothing is, or nothing was made yet.

    A copy of the folder is in order, since the file in it reads the tables beside it.
    """
    path = Path(tables.store.locate(VIEWS_FILE))
    if not any(tables.list_files().values()) or _read_made_of(path)[:1] == _list_beside(path, tables)[1][:1]:
        return None
    what = "is not that of the present tables" if path.is_file() else "is gone"
    return f"{path} {what}; `backstory run` writes it again"


def _list_beside(path: Path, tables: Tables) -> tuple[list[str], tuple[str, ...]]:
    """Write the views of a database file over the files of the tables in its folder, wherever that was copied.

    The last one says what they were made of, a hash and the folder; both are given, too.

    DuckDB takes relative paths as relative to the folder of its caller, but names its temporary folder after the file
    that it opened. In a file that was attached to another database, the paths are those of this folder.
    """
    opened = "current_setting('temp_directory')"
    folder = (
        f"CASE parse_filename({opened}) WHEN {_quote(f'{path.name}.tmp')} THEN parse_dirpath({opened}) "
        f"ELSE {_quote(str(path.parent))} END"
    )
    listed = tables.list_files()
    made_of = digest([duckdb.__version__, *_list_views("", listed)]), str(path.parent)
    stated = "SELECT {} AS hash, {} AS folder".format(*map(_quote, made_of))
    return [*_list_views(folder, listed), f"CREATE VIEW {_MADE_OF} AS {stated}"], made_of


def _list_views(folder: str, names: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Write the statements that create the views, each after those that it reads, over files in a folder."""
    queries = {}
    for table in SERVED_TABLES:
        listed = ", ".join(map(_quote, names.get(table, {}).values()))
        queries[table] = (
            f"FROM read_parquet([{folder} || '/' || name FOR name IN [{listed}]])"
            if listed
            else _select_nothing(table)
        )
    for view in VIEWS:
        queries[view] = (files("backstory.storage.tables") / f"{view}.sql").read_text(encoding="utf-8")
    return [f"CREATE VIEW {name} AS {query}" for name, query in queries.items()]


def _read_made_of(path: Path) -> tuple[str, ...]:
    """Read what the views of a database were made of; empty if it is absent or damaged."""
    with closing(duckdb.connect(config=_CONFIG)) as connection:
        try:
            # A database in memory opens it besides whatever else in this process has it open.
            connection.execute(f"ATTACH {_quote(str(path))} AS views (READ_ONLY)")
            [made_of] = connection.execute(f"SELECT hash, folder FROM views.{_MADE_OF}").fetchall()  # noqa: S608
            return tuple(made_of)
        except duckdb.Error:
            return ()


def _make_views(connection: duckdb.DuckDBPyConnection, root: Source) -> None:
    """Create the views in a database in memory."""
    if isinstance(root, Tables):
        store, names = root.store, root.list_files()
    else:
        store = _open(root)
        content = store.read(CURRENT)
        if content is None:
            raise WorkspaceError(
                f"{root} holds no tables, since {store.locate(CURRENT)} does not exist; name the folder of a "
                "workspace, or start `backstory run`, or without chats `backstory add`, which writes them",
                code="no_tables",
            )
        names = json.loads(content)["tables"]
    if isinstance(store, Bucket):
        from obstore.fsspec import FsspecStore

        # The client that writes reads, too, so that both find the same keys, and no extension of DuckDB is needed.
        files_of_store = FsspecStore("s3", client_options={"allow_http": may_reach_store_by_http()})
        connection.register_filesystem(files_of_store)
    folder = store.locate("").rstrip("/")
    try:
        for view in _list_views(_quote(folder), names):
            connection.execute(view)
    except duckdb.BinderException as error:
        raise WorkspaceError(
            f"the tables of {folder} were written by an earlier version of Backstory; `backstory run` makes them again",
            code="other_format",
        ) from error


def _open(root: Path | str) -> Store:
    """Open the store of the tables of a workspace, or that which is named itself."""
    if "://" in str(root) or not (Path(root) / SETTINGS_FILE).is_file():
        return open_store(root)
    settings = read_settings(Path(root) / SETTINGS_FILE)
    return open_store(settings.storage.files or WorkspacePaths(Path(root), settings).tables_dir)


def _remove_leftovers(building: Path) -> None:
    for leftover in (building, Path(f"{building}.wal")):
        leftover.unlink(missing_ok=True)


@cache
def _select_nothing(table: str) -> str:
    with closing(duckdb.connect(config=_CONFIG)) as connection:
        # A stream: of a frame, DuckDB would load PyArrow's data sets, and with them pandas, where these are installed.
        connection.register("absent", empty(SERVED_TABLES[table]).__arrow_c_stream__())
        columns = connection.execute("DESCRIBE absent").fetchall()
    nothing = ", ".join(f'NULL::{column[1]} AS "{column[0]}"' for column in columns)
    return f"SELECT {nothing} WHERE false"


def _quote(text: str) -> str:
    """Write a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
