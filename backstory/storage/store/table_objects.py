"""The objects of each table, for DuckDB: a team reads the tables from the bucket without a worker."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Final
from urllib.parse import urlsplit

import duckdb

from backstory.base.environment import read_store_access
from backstory.base.errors import StoreError
from backstory.storage.store.exchange import fetch_manifest
from backstory.storage.store.objects import ObjectStore, name_content
from backstory.storage.store.replica import name_table
from backstory.storage.tables.duckdb_engines import quote

_ACCESS: Final = "backstory_store"


def name_table_objects(connection: duckdb.DuckDBPyConnection, address: str) -> dict[str, str]:
    """Name the objects of the last publication by table, as SQL, and let a database read them.

    Args:
        connection: The database.
        address: Address of the store.

    Returns:
        The list of the names of each table that has rows.

    Raises:
        MissingExtraError: The client of S3 is not installed.
        StoreError: The store cannot be used, or nothing is published there (code ``no_publication``); or the extension
            of DuckDB is not that of its version (``no_httpfs_extension``), or the environment holds no keys for it
            (``no_keys_in_environment``).
    """
    if urlsplit(address).scheme == "s3":
        _open_network(connection, address.rstrip("/"))
    store = ObjectStore(address.rstrip("/"))
    manifest, etag = fetch_manifest(store)
    if etag is None:
        raise StoreError(
            f"nothing is published at {store.address}; compare it with storage.files in backstory.yaml of a worker",
            code="no_publication",
            address=store.address,
        )
    named: dict[str, list[str]] = {}
    for path, file in sorted(manifest.files.items()):
        if table := name_table(path):
            named.setdefault(table[0], []).append(quote(store.locate(name_content(file.sha256))))
    return {table: f"[{', '.join(names)}]" for table, names in named.items()}


def _open_network(connection: duckdb.DuckDBPyConnection, address: str) -> None:
    """Load the extension of the installed wheel, and give it the keys of the environment; nothing is downloaded."""
    version = f"v{duckdb.__version__}"
    try:
        with as_file(
            files("duckdb_extension_httpfs") / "extensions" / version / "httpfs.duckdb_extension"
        ) as path:
            connection.load_extension(str(path))
    except duckdb.IOException as error:
        raise StoreError(
            f"DuckDB {version} finds no httpfs extension; install duckdb-extension-httpfs=={duckdb.__version__} "
            "(the extra s3 does)",
            code="no_httpfs_extension",
            version=version,
        ) from error
    access = read_store_access()
    if not {"key_id", "secret"} <= access.keys():
        raise StoreError(
            f"the views of {address} need AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, since DuckDB finds no role or "
            "profile; set both, and AWS_SESSION_TOKEN for a role: `aws configure export-credentials --format env`",
            code="no_keys_in_environment",
            address=address,
        )
    endpoint = urlsplit(access.pop("endpoint", ""))
    options = {"scope": f"s3://{urlsplit(address).netloc}", **access}
    if endpoint.netloc:
        options |= {
            "endpoint": f"{endpoint.netloc}{endpoint.path.rstrip('/')}",
            "url_style": "path",
            "use_ssl": str(endpoint.scheme == "https").lower(),
        }
    stated = ", ".join(f"{name} {quote(value)}" for name, value in options.items())
    connection.execute(f"CREATE OR REPLACE TEMPORARY SECRET {_ACCESS} (TYPE s3, {stated})")
