"""The tables as views over their files, and views over these, for readers in SQL or through Ibis."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import duckdb
import polars as pl

from backstory.base.environment import read_store_access
from backstory.base.errors import StateError, WorkspaceError
from backstory.base.extras import require_extra
from backstory.base.files.atomic import exclusive_temporary, publish
from backstory.base.ids import digest
from backstory.base.telemetry.logs import log_event
from backstory.storage.stores import Bucket, Store, naming_refusal, open_store
from backstory.storage.tables.contracts import polars_schema
from backstory.storage.tables.duckdb_engines import AttachedFile, quote, start_engine
from backstory.storage.tables.duckdb_frames import fetch_frame, register_frame
from backstory.storage.tables.schemas import SERVED_TABLES
from backstory.storage.tables.tables import CURRENT, Tables
from backstory.storage.tables.view_expressions import CATALOG_COLUMNS, DOCUMENT_CATALOG, VIEWS, WRITER_INPUTS

if TYPE_CHECKING:
    import ibis

logger = logging.getLogger(__name__)

VIEWS_FILE: Final = "backstory.duckdb"

_MADE_OF: Final = "made_of"
"""View that names the files of all others by a hash."""
_ACCESS: Final = "backstory_store"

Source: TypeAlias = "Path | str | Tables"
"""Folder of the tables; or the address of a store, such as ``s3://bucket/prefix``; or the tables of a workspace."""


def connect(root: Source) -> ibis.BaseBackend:
    """Open the tables through Ibis: an in-memory DuckDB with one view per table, and those over them.

    The views are over the files of one version of all tables, that of the last run, and stay so: a later one is seen by
    the next call. A file that is no part of the tables any more is kept for an hour.

    Args:
        root: Folder of the tables; or the address of a store that workers share, such as ``s3://bucket/prefix``.

    Returns:
        An Ibis backend; ``connect(root).table("windows")`` is a table expression.

    Raises:
        MissingExtraError: Ibis is not installed, or for a store, the client of S3.
        WorkspaceError: There are no tables, or an earlier version wrote them.
        StateError: The store cannot be used.
    """
    require_extra(
        "ibis",
        "Opening the tables through Ibis",
        "read them with backstory.storage.tables.views.query_views",
    )
    import ibis

    backend = ibis.duckdb.connect()
    try:
        _make_views(backend.con, root)
    except duckdb.BinderException as error:
        raise _refuse_earlier(root) from error
    return backend


def query_views(root: Source, sql: str) -> pl.DataFrame:
    """Run a query over the views that :func:`connect` describes.

    Args:
        root: Folder of the tables; or the address of a store.
        sql: One statement that reads.

    Raises:
        WorkspaceError: There are no tables.
        duckdb.Error: The statement is wrong, or a file is damaged.
        StateError: The store cannot be used.
    """
    with closing(start_engine()) as engine:
        _make_views(engine, root)
        return fetch_frame(engine, sql)


def read_writer_inputs(root: Source) -> pl.DataFrame:
    """Read what a writer job needs: one row per window, by time.

    Args:
        root: Folder of the tables; or the address of a store.

    Returns:
        The view ``writer_inputs``, with the columns of :data:`backstory.storage.tables.view_expressions.INPUT_COLUMNS`.

    Raises:
        WorkspaceError: There are no tables.
    """
    rows = query_views(root, f"FROM {WRITER_INPUTS}")
    published = pl.field("published_at").dt.replace_time_zone("UTC")
    return rows.with_columns(
        pl.col("started_at", "ended_at").dt.replace_time_zone("UTC"),
        pl.col("citations").list.eval(pl.element().struct.with_fields(published)),
    )


def read_document_catalog(root: Source) -> pl.DataFrame:
    """Read the catalog of documents: one row per document, by path.

    Args:
        root: Folder of the tables.

    Returns:
        The view ``document_catalog``, with the columns of
        :data:`backstory.storage.tables.view_expressions.CATALOG_COLUMNS`.

    Raises:
        WorkspaceError: There are no tables, or an earlier version wrote them.
    """
    try:
        rows = query_views(root, f"SELECT {', '.join(CATALOG_COLUMNS)} FROM {DOCUMENT_CATALOG}")  # noqa: S608
    except duckdb.BinderException as error:
        raise _refuse_earlier(root) from error
    return rows.with_columns(pl.col("published_at").dt.replace_time_zone("UTC"))


def write_views(tables: Tables, folder: Path) -> Path:
    """Write a database file that holds only views: one per table, ``writer_inputs`` and ``document_catalog``.

    The views are over the files of one version of all tables, by their absolute paths, since DuckDB takes relative ones
    as relative to the folder of its caller. The file is replaced by renaming, so that a process that has it open
    blocks nobody.

    Args:
        tables: The tables.
        folder: Folder of the file; created if absent.

    Returns:
        Path of the database file. It is not touched if it is intact and its views are those, nor if a file of a table
        is absent or damaged, over which no view can be made; a warning says so.

    Raises:
        WorkspaceError: The folder may not be written.
        OSError: The disk is full.
    """
    path = folder / VIEWS_FILE
    views = _list_views(tables.store, tables.list_files())
    made_of = digest([duckdb.__version__, *views])
    if _read_hash(path) == made_of:
        return path
    building = path.with_name(f".{path.name}.building")
    with naming_refusal(path), exclusive_temporary(path):
        _remove_leftovers(building)
        try:
            with closing(AttachedFile(building, read_only=False)) as file:
                for view in [*views, f"CREATE VIEW {_MADE_OF} AS SELECT {quote(made_of)} AS hash"]:
                    file.connection.execute(view)
            # DuckDB reports no error when it closes an incompletely written database.
            if _read_hash(building) != made_of:
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


def find_views_damage(tables: Tables, folder: Path) -> str | None:
    """Check the file of the views.

    Returns:
        What is wrong and what to do, or None if it is that of the tables, or nothing was made yet.
    """
    path = folder / VIEWS_FILE
    made_of = digest([duckdb.__version__, *_list_views(tables.store, tables.list_files())])
    if not any(tables.list_files().values()) or _read_hash(path) == made_of:
        return None
    what = "is not that of the present tables" if path.is_file() else "is gone"
    return f"{path} {what}; `backstory run` writes it again"


def _read_hash(path: Path) -> str:
    """Read of what files the views of a database are; empty if it is absent or damaged."""
    try:
        with closing(AttachedFile(path, read_only=True)) as file:
            return str(file.connection.execute(f"SELECT hash FROM {_MADE_OF}").fetchall()[0][0])  # noqa: S608
    except duckdb.Error:
        return ""


def _make_views(connection: duckdb.DuckDBPyConnection, root: Source) -> None:
    """Create the views in a database in memory."""
    if isinstance(root, Tables):
        store, names = root.store, root.list_files()
    else:
        store = open_store(root)
        content = store.read(CURRENT)
        if content is None:
            raise WorkspaceError(
                f"{store.locate(CURRENT)} does not exist; `backstory run`, or without chats `backstory add`, writes it "
                "with the tables",
                code="no_tables",
            )
        names = json.loads(content)["tables"]
    _open_network(connection, store)
    for view in _list_views(store, names):
        connection.execute(view)


def _list_views(store: Store, names: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Write the statements that create the views, each after those that it reads."""
    located = {
        table: ", ".join(quote(store.locate(name)) for name in found.values())
        for table, found in names.items()
    }
    rows = {
        table: f"FROM read_parquet([{located[table]}])" if located.get(table) else _select_nothing(table)
        for table in SERVED_TABLES
    }
    queries = {**rows, **{name: _read_query(name) for name in VIEWS}}
    return [f"CREATE VIEW {name} AS {query}" for name, query in queries.items()]


def _refuse_earlier(root: Source) -> WorkspaceError:
    where = root.store.locate("") if isinstance(root, Tables) else root
    return WorkspaceError(
        f"the tables of {where} were written by an earlier version of Backstory; `backstory run` makes them again",
        code="other_format",
    )


def _open_network(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """For a bucket, load the extension of the installed wheel, and give it the keys of the environment.

    Nothing is downloaded.

    Raises:
        StateError: The extension of DuckDB is not that of its version (code ``no_httpfs_extension``), or the
            environment holds no keys for it (``no_keys_in_environment``).
    """
    if not isinstance(store, Bucket):
        return
    version = f"v{duckdb.__version__}"
    try:
        with as_file(
            files("duckdb_extension_httpfs") / "extensions" / version / "httpfs.duckdb_extension"
        ) as path:
            connection.load_extension(str(path))
    except duckdb.IOException as error:
        raise StateError(
            f"DuckDB {version} finds no httpfs extension; install duckdb-extension-httpfs=={duckdb.__version__} "
            "(the extra s3 does)",
            code="no_httpfs_extension",
        ) from error
    access = read_store_access()
    if not {"key_id", "secret"} <= access.keys():
        raise StateError(
            f"the views of {store.address} need AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, since DuckDB finds no "
            "role or profile; set both, and AWS_SESSION_TOKEN for a role: `aws configure export-credentials --format "
            "env`",
            code="no_keys_in_environment",
        )
    endpoint = urlsplit(access.pop("endpoint", ""))
    options = {"scope": f"s3://{urlsplit(store.address).netloc}", **access}
    if endpoint.netloc:
        options |= {
            "endpoint": f"{endpoint.netloc}{endpoint.path.rstrip('/')}",
            "url_style": "path",
            "use_ssl": str(endpoint.scheme == "https").lower(),
        }
    stated = ", ".join(f"{name} {quote(value)}" for name, value in options.items())
    connection.execute(f"CREATE OR REPLACE TEMPORARY SECRET {_ACCESS} (TYPE s3, {stated})")


def _remove_leftovers(building: Path) -> None:
    for leftover in (building, Path(f"{building}.wal")):
        leftover.unlink(missing_ok=True)


@cache
def _read_query(view: str) -> str:
    return (files("backstory.storage.tables") / f"{view}.sql").read_text(encoding="utf-8")


@cache
def _select_nothing(table: str) -> str:
    with closing(start_engine(threads=1)) as engine:
        register_frame(engine, "absent", polars_schema(SERVED_TABLES[table]).to_frame())
        columns = engine.execute("DESCRIBE absent").fetchall()
    nothing = ", ".join(f'NULL::{column[1]} AS "{column[0]}"' for column in columns)
    return f"SELECT {nothing} WHERE false"
