"""The DuckDB file of a snapshot: documents and chunks, and the HNSW index over the vectors if there is one."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack, closing
from importlib.resources import as_file, files
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb
import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import SearchIndexError
from backstory.index.snapshot.shards import StoredVectors
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings
from backstory.storage.tables.duckdb_engines import AttachedFile, quote, start_engine
from backstory.storage.tables.duckdb_frames import fetch_frame, register_frame

VECTOR_INDEX = "chunks_vector"
_ROWS_OF_GROUP: Final = 122_880
"""Rows that DuckDB writes together."""
_LEAST_MEMORY: Final = 1 << 30
_IN_MEMORY = Path(":memory:")
"""DuckDB's name of a database without a file."""


def _start_vss_engine() -> duckdb.DuckDBPyConnection:
    """Start DuckDB with the vss extension of the installed wheel, which only an HNSW index needs.

    Nothing is ever downloaded.

    Raises:
        SearchIndexError: The wheel for this version of DuckDB is not installed.
    """
    engine = start_engine()
    version = f"v{duckdb.__version__}"
    try:
        with as_file(files("duckdb_extension_vss") / "extensions" / version / "vss.duckdb_extension") as path:
            engine.load_extension(str(path))
    except (ModuleNotFoundError, duckdb.IOException) as error:
        engine.close()
        raise SearchIndexError(
            f"DuckDB {version} finds no vss extension; install duckdb-extension-vss=={duckdb.__version__} "
            "(`make install` does)",
            code="no_vss_extension",
            version=version,
        ) from error
    return engine


def vector_frame(vectors: Vectors, name: str) -> pl.DataFrame:
    """View vectors as a frame without a copy: the column ``name`` holds positions, ``vector`` the vectors."""
    return pl.DataFrame({name: np.arange(len(vectors)), "vector": vectors})


def write_database(
    path: Path,
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    vectors: StoredVectors,
    settings: IndexSettings | None,
) -> None:
    """Write the database of a snapshot.

    Args:
        path: A file that does not exist.
        documents: The indexed documents.
        chunks: The indexed chunks in the order of the rows.
        vectors: Their vectors, shape ``(rows, dimension)``; written only for an HNSW index, which needs a column.
        settings: How to build the HNSW index, or None for a database without one.
    """
    engine = None
    if settings is not None:
        engine = _start_vss_engine()
        # One thread, so that the same content always gives the same graph, and with it the same hits.
        engine.execute("SET threads = 1")
        engine.execute("SET hnsw_enable_experimental_persistence = true")
    elif chunks.height > _ROWS_OF_GROUP:
        # An engine of its own: after RESET, DuckDB states the former limit and still keeps to this one.
        engine = start_engine(threads=1)
        engine.execute(f"SET memory_limit = '{_bound_memory(chunks)}B'")
    with ExitStack() as stack:
        connection = stack.enter_context(
            closing(AttachedFile(path, read_only=False, engine=engine))
        ).connection
        if settings is None:
            _create_tables(connection, documents, chunks)
        else:
            frames = {"document_rows": documents, "chunk_rows": chunks.with_row_index("row")}
            frames["vector_rows"] = vector_frame(np.asarray(vectors), "row")
            for name, frame in frames.items():
                register_frame(connection, name, frame)
                stack.callback(connection.unregister, name)
            connection.execute("CREATE TABLE documents AS SELECT * FROM document_rows")
            connection.execute(
                "CREATE TABLE chunks AS SELECT c.* REPLACE (c.row::BIGINT AS row), "  # noqa: S608 - a number only
                f"v.vector::FLOAT[{vectors.shape[1]:d}] AS vector "
                "FROM chunk_rows c POSITIONAL JOIN vector_rows v"
            )
            connection.execute(
                f"CREATE INDEX {VECTOR_INDEX} ON chunks USING HNSW (vector) WITH (metric = 'cosine', "
                f"M = {settings.hnsw_m}, ef_construction = {settings.hnsw_ef_construction})"
            )
        connection.execute("CHECKPOINT attached")


def hold_database(documents: pl.DataFrame, chunks: pl.DataFrame) -> Database:
    """Hold the database of a snapshot without an HNSW index in memory; see :func:`write_database`."""
    database = Database(None, has_hnsw=False)
    _create_tables(database.connection, documents, chunks)
    return database


def _bound_memory(chunks: pl.DataFrame) -> int:
    """Return the bytes that DuckDB may use: it would else keep all that it has written, up to most of the memory."""
    sizes = [part["text"].str.len_bytes().sum() for part in chunks.iter_slices(_ROWS_OF_GROUP)]
    return max(_LEAST_MEMORY, 4 * int(max(sizes)))


def _create_tables(
    connection: duckdb.DuckDBPyConnection, documents: pl.DataFrame, chunks: pl.DataFrame
) -> None:
    with ExitStack() as stack:
        for name, frame in {"document_rows": documents, "chunk_rows": chunks.with_row_index("row")}.items():
            register_frame(connection, name, frame)
            stack.callback(connection.unregister, name)
        connection.execute("CREATE TABLE documents AS SELECT * FROM document_rows")
        connection.execute("CREATE TABLE chunks AS SELECT * REPLACE (row::BIGINT AS row) FROM chunk_rows")


class Database:
    """A snapshot's database, opened read-only.

    Attributes:
        lock: Guards :attr:`connection`.

    Args:
        path: The database file; None for an empty database in memory, which is written.
        has_hnsw: Whether the file holds an HNSW index.

    Raises:
        SearchIndexError: ``has_hnsw`` is true, and the vss extension is not installed.
    """

    def __init__(self, path: Path | None, *, has_hnsw: bool) -> None:
        self.lock = threading.Lock()
        self._columns: tuple[str, ...] = ()
        engine = _start_vss_engine() if has_hnsw else None
        self._file = AttachedFile(path or _IN_MEMORY, read_only=path is not None, engine=engine)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Connection for one thread at a time, which must hold ``lock``."""
        return self._file.connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, after the query that runs."""
        with self.lock:
            self._file.close()

    def count_rows(self) -> tuple[int, int]:
        """Count the documents and the chunks."""
        with self.lock:
            counts = self.connection.execute(
                "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks)"
            ).fetchall()
        return int(counts[0][0]), int(counts[0][1])

    def list_documents(self, prefix: str) -> list[str]:
        """List the ids of the documents whose uri begins with a prefix."""
        with self.lock:
            # No parameter is given, since DuckDB imports pandas, where that is installed, before it takes one.
            rows = self.connection.execute(
                f"SELECT document_id FROM documents WHERE starts_with(uri, {quote(prefix)})"  # noqa: S608 - quoted
            ).fetchall()
        return [document_id for (document_id,) in rows]

    def read_documents(self) -> pl.DataFrame:
        """Read ``document_id``, ``revision``, ``uri``, ``title``, ``slug`` and ``tenant`` of all documents, by uri."""
        return self._read(
            "SELECT document_id, revision, uri, title, slug, tenant FROM documents ORDER BY uri, document_id"
        )

    def read_pages(self) -> pl.DataFrame:
        """Read ``page_start`` and ``page_end`` of all chunks, in the order of the rows."""
        return self._read("SELECT page_start, page_end FROM chunks ORDER BY row")

    def describe(self, rows: NDArray[np.int64]) -> pl.DataFrame:
        """Read chunks without their vectors, with the metadata of their documents.

        Args:
            rows: Positions of rows of the index.

        Returns:
            One row per position, in the order of ``rows``.
        """
        # Chunks have a column of vectors if there is an HNSW index, and always in snapshots of format 1.
        chunks = self._read(
            "SELECT COLUMNS(lambda name: name <> 'vector') FROM chunks "  # noqa: S608 - numbers only
            f"WHERE {_write_among('row', map(str, rows.tolist()))}"
        )
        ids = map(quote, chunks["document_id"].unique())
        documents = self._read(f"SELECT * FROM documents WHERE {_write_among('document_id', ids)}")  # noqa: S608 - quoted
        # Of some rows, DuckDB takes longer to join than to read them.
        return (
            pl.DataFrame({"row": rows}, schema={"row": pl.Int64})
            .join(chunks, on="row", maintain_order="left")
            .drop("row")
            .join(documents, on=["document_id", "revision"], maintain_order="left")
            .with_columns(pl.col("published_at").dt.convert_time_zone("UTC"))
        )

    def read_chunks(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Read a few chunks without their vectors and their documents.

        Args:
            rows: Positions of rows of the index, not none.

        Returns:
            The columns of each chunk, in the order of ``rows``.
        """
        numbers = ", ".join(map(str, rows.tolist()))
        with self.lock:
            if not self._columns:
                described = self.connection.execute("SELECT * FROM chunks LIMIT 0").description or []
                self._columns = tuple(name for name, *_ in described if name not in ("row", "vector"))
            names = ", ".join(f'"{name}"' for name in self._columns)
            found = self.connection.execute(
                f"SELECT row, {names} FROM chunks WHERE row IN ({numbers})"  # noqa: S608 - numbers and own names
            ).fetchall()
        chunks = {row: dict(zip(self._columns, values, strict=True)) for row, *values in found}
        return [chunks[row] for row in rows.tolist()]

    def read_around(self, rows: NDArray[np.int64]) -> pl.DataFrame:
        """Read chunks, and the one before and after each in its document.

        Args:
            rows: Positions of rows of the index, without repeats.

        Returns:
            ``chunk_id`` of the requested chunk, ``char_start`` and ``text`` of the chunk or of one beside it on its
            pages.
        """
        return self._read(
            f"WITH {_name_rows(rows)} "  # noqa: S608 - numbers only
            "SELECT c.chunk_id, n.char_start, n.text FROM wanted JOIN chunks c USING (row) "
            "JOIN chunks n ON n.document_id = c.document_id AND n.revision = c.revision "
            "AND n.chunk_index BETWEEN c.chunk_index - 1 AND c.chunk_index + 1 "
            # A passage is cited by the pages of its chunk.
            "AND (c.page_start IS NULL OR (n.page_start >= c.page_start AND n.page_end <= c.page_end)) "
            "ORDER BY position, n.chunk_index"
        )

    def _read(self, query: str) -> pl.DataFrame:
        with self.lock:
            return fetch_frame(self.connection, query)


def _write_among(column: str, values: Iterable[str]) -> str:
    """Write the condition that a column has one of some values, of which there may be none."""
    listed = ", ".join(values)
    return f"{column} IN ({listed})" if listed else "false"


def _name_rows(rows: NDArray[np.int64]) -> str:
    """Write rows as a table ``wanted`` of SQL, with their positions.

    They are no parameter, since DuckDB imports pandas, where that is installed, before it takes one.
    """
    numbers = ", ".join(map(str, rows.tolist()))
    return (
        "wanted AS (SELECT unnest(list) AS row, generate_subscripts(list, 1) AS position "  # noqa: S608 - numbers only
        f"FROM (SELECT [{numbers}]::BIGINT[] AS list))"
    )
