"""Reads and writes partitions of a table: one Parquet file each, replaced atomically and only if it changed."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader, BytesIO
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from backstory.base.errors import ContractError, DamagedTableError, InputError
from backstory.base.files.atomic import exclusive_temporary, flush, publish, temporary_path
from backstory.storage.tables.contracts import empty, polars_schema, validate
from backstory.storage.tables.ledger import LEDGER_FILE, Entry, Ledger
from backstory.storage.tables.schemas import HISTORY_TABLES, SERVED_TABLES
from backstory.storage.tables.table import Table

logger = logging.getLogger(__name__)

WHOLE = "all"
"""Key of the only partition of a table without partitions."""

_PARTITION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,199}\Z")
# Fixed, so that the bytes depend on the rows only; DuckDB's own row group size, so that it reads in parallel.
_ROW_GROUP_SIZE = 122_880
_HASH_DIGITS = 32
# Files up to this size are kept parsed: the last 512, of which one counts again for each choice of its columns.
_KEPT_BYTES = 32_768
_REMEDY = "`backstory run` makes it again"


@dataclass(frozen=True)
class WrittenPartition:
    """Result of writing one partition.

    Attributes:
        path: Path of its file, which does not exist if there are no rows.
        rows: Number of rows.
        size: Size of the file in bytes, 0 for no rows.
        content_hash: Hash of the file; empty for no rows.
        changed: Whether the file differs from the previous one.
    """

    path: Path
    rows: int
    size: int
    content_hash: str
    changed: bool


def write_partition(root: Path, table: str, partition: str | None, frame: pl.DataFrame) -> WrittenPartition:
    """Replace one partition of a table atomically.

    The rows go to a hidden file in the same folder, which is flushed to disk and renamed. A reader sees the
    old partition or the new one. A killed process leaves only that hidden file. Readers skip it, and the next
    writer of the partition overwrites it. Writers of one partition wait for each other.

    Args:
        root: Folder of the tables.
        table: Name of the table, one of :data:`backstory.storage.tables.schemas.SERVED_TABLES`.
        partition: Key of the partition; None for a table without partitions.
        frame: All rows of the partition, in the order to keep. Without rows, the file is removed.

    Returns:
        What was done. If the rows are equal, the file is not touched.

    Raises:
        InputError: The table or the partition's key is not valid.
        ContractError: The rows break the table's contract; nothing is written.
    """
    key = WHOLE if partition is None else partition
    return write_partitions(root, table, {key: frame})[key]


def write_partitions(
    root: Path, table: str, frames: Mapping[str, pl.DataFrame]
) -> dict[str, WrittenPartition]:
    """Replace partitions of a table one after another, each as :func:`write_partition` does.

    The rows of all partitions are checked together before the first is written. One check takes milliseconds even
    for few rows, so that checking a year day by day would take longer than computing the rows.

    Args:
        root: Folder of the tables.
        table: A name of :data:`backstory.storage.tables.schemas.SERVED_TABLES`.
        frames: All rows of each partition by its key.

    Returns:
        What was done, by key.

    Raises:
        InputError: The table or a partition's key is not valid.
        ContractError: The rows break the table's contract; nothing is written.
    """
    model = _model(table)
    paths = {key: _partition_path(root, table, key) for key in frames}
    schema = polars_schema(model)
    alike = [frame for frame in frames.values() if frame.schema == schema]
    others = [frame for frame in frames.values() if frame.schema != schema]
    together = pl.concat([empty(model), *alike], rechunk=False)
    for rows in [*([together] if len(together) else []), *others]:
        validate(rows, model)
    return {key: _write_partition(path, frames[key]) for key, path in paths.items()}


def list_partitions(root: Path, table: str) -> list[str]:
    """Return the keys of the partitions that have rows, in order."""
    _model(table)
    try:
        return sorted(path.stem for path in (root / table).iterdir() if _is_partition_file(path))
    except FileNotFoundError:
        return []


def read_table(
    root: Path, table: str, partitions: Sequence[str] | None = None, *, columns: Sequence[str] | None = None
) -> pl.DataFrame:
    """Read partitions of a table.

    Every file is compared with the checksum that the ledger of the same folder has for it: a missing
    file of a partition with rows is an error, and so is a file that was changed since it was written.

    Args:
        root: Folder of the tables.
        table: A name of :data:`backstory.storage.tables.schemas.SERVED_TABLES`.
        partitions: Keys of the wanted partitions; None for all of them.
        columns: The wanted columns; None for all of them.

    Returns:
        Their rows, partition by partition in the order of their keys; a partition that is empty
        or was never built adds no rows.

    Raises:
        InputError: The table or a partition's key is not valid.
        DamagedTableError: A file is absent, damaged, or not the one that was written.
        ContractError: A file was written under another contract.
        LedgerError: The ledger is damaged.
    """
    model = _model(table)
    read = [frame for _, frame in _read_files(root, table, partitions, columns)]
    if len(read) == 1 and read[0].columns == list(polars_schema(model) if columns is None else columns):
        return read[0]
    nothing = empty(model) if columns is None else empty(model).select(columns)
    return pl.concat([nothing, *read], rechunk=False)


def select_rows(
    root: Path, table: str, expressions: Sequence[pl.Expr], known: Mapping[str, pl.DataFrame] | None = None
) -> dict[str, pl.DataFrame]:
    """Evaluate expressions on each file of a table, of which only the columns that they name are read.

    A query of :func:`scan_table` takes several times as long for a small table.

    Args:
        root: Folder of the tables.
        table: A name of :data:`backstory.storage.tables.schemas.SERVED_TABLES`.
        expressions: Expressions of one column each, whose value in a row depends on that row only.
        known: Values of an earlier call, by partition, whose files are not read again.

    Returns:
        Their values by partition, in the order of :func:`read_table`; with ``WHOLE`` and no rows if there are none.

    Raises:
        InputError: The table's name is not valid.
        DamagedTableError: A file is absent, damaged, or not the one that was written.
        ContractError: A file was written under another contract.
        LedgerError: The ledger is damaged.
    """
    named = {column for expression in expressions for column in expression.meta.root_names()}
    columns = [column for column in polars_schema(_model(table)) if column in named]
    found = {} if known is None else dict(known)
    for key, frame in _read_files(root, table, None, columns, without=frozenset(found)):
        found[key] = frame.select(expressions)
    return dict(sorted(found.items())) or {WHOLE: empty(_model(table)).select(expressions)}


def scan_table(root: Path, table: str, partitions: Sequence[str] | None = None) -> pl.LazyFrame:
    """Read partitions of a table lazily, and keep only the columns and rows that the query needs.

    Polars' own scan opens a file twice, and fails or mixes two versions when it is replaced in between; here
    every file is opened once, while the query runs. To start Polars' streaming engine takes a millisecond, so that a
    stage, whose rows are in memory anyway, collects with the other engine.

    Args:
        root: Folder of the tables.
        table: A name of :data:`backstory.storage.tables.schemas.SERVED_TABLES`.
        partitions: Keys of the wanted partitions; None for all of those present when the query runs.

    Returns:
        Rows in the order of :func:`read_table`.

    Raises:
        InputError: The table or a partition's key is not valid.
        DamagedTableError: (when the query runs) A file is absent, damaged, or not the one that was written.
        ContractError: (when the query runs) A file was written under another contract.
        LedgerError: (when the query runs) The ledger is damaged.
    """
    schema = polars_schema(_model(table))
    for key in partitions or ():
        _partition_path(root, table, key)

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, row_limit: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for _, frame in _read_files(root, table, partitions, columns):
            if row_limit is not None:
                if row_limit <= 0:
                    return
                frame = frame.head(row_limit)
                row_limit -= frame.height
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(read, schema=schema, validate_schema=True)


def _model(table: str) -> type[Table]:
    if table not in SERVED_TABLES:
        raise InputError(
            f"there is no table {table!r}; the tables are {', '.join(SERVED_TABLES)}",
            code="unknown_table",
            table=table,
        )
    return SERVED_TABLES[table]


def _partition_path(root: Path, table: str, partition: str | None) -> Path:
    key = WHOLE if partition is None else partition
    if not _PARTITION_NAME.match(key):
        raise InputError(
            f"{table}: {key!r} cannot name a partition; use letters, digits and _ . : + -, "
            "beginning with a letter or digit",
            code="invalid_partition",
            table=table,
            partition=key,
        )
    return root / table / f"{key}.parquet"


def _write_partition(path: Path, frame: pl.DataFrame) -> WrittenPartition:
    if frame.is_empty():
        written = WrittenPartition(path, rows=0, size=0, content_hash="", changed=_remove_file(path))
    else:
        content_hash, changed = replace_file(path, frame)
        written = WrittenPartition(path, frame.height, path.stat().st_size, content_hash, changed)
    logger.debug(
        "wrote path=%s rows=%d bytes=%d changed=%s", path, written.rows, written.size, written.changed
    )
    return written


def _is_partition_file(path: Path) -> bool:
    return path.suffix == ".parquet" and not path.name.startswith(".")


def _read_files(
    root: Path,
    table: str,
    partitions: Sequence[str] | None,
    columns: Sequence[str] | None,
    without: frozenset[str] = frozenset(),
) -> Iterator[tuple[str, pl.DataFrame]]:
    recorded = {} if table in HISTORY_TABLES else Ledger(root / LEDGER_FILE).read(table)
    filled = {key for key, entry in recorded.items() if entry.rows}
    # All partitions that have a file or, according to the ledger, must have one.
    keys = filled.union(list_partitions(root, table)) if partitions is None else set(partitions)
    for key in sorted(keys - without):
        file = _open_written(root, table, key, recorded.get(key))
        if file is None:
            continue
        with file:
            try:
                # Read through this one handle: an open file stays complete when another file replaces it.
                yield key, _read_rows(file, table, columns)
            except pl.exceptions.ComputeError as error:
                raise DamagedTableError(
                    f"{file.name} is damaged ({error}); {_REMEDY}",
                    path=Path(file.name),
                    table=table,
                    partition=key,
                ) from error


def _read_rows(file: BufferedReader, table: str, columns: Sequence[str] | None) -> pl.DataFrame:
    """Read the rows of an open file, from its beginning.

    Raises:
        ContractError: It has other columns than its table.
        pl.exceptions.ComputeError: It is damaged.
    """
    start = file.read(_KEPT_BYTES + 1)
    file.seek(0)
    wanted = None if columns is None else tuple(columns)
    kept = _parse(start, table, wanted) if len(start) <= _KEPT_BYTES else None
    if kept is None and not _is_of(pl.read_parquet_schema(file), table):
        raise ContractError(
            f"{file.name} was written by another version of Backstory; `backstory run` makes {table} again",
            code="other_columns",
            path=Path(file.name),
            table=table,
        )
    if kept is not None:
        return kept.clone()
    file.seek(0)
    return pl.read_parquet(file, columns=None if columns is None else list(columns))


def _is_of(schema: Mapping[str, pl.DataType], table: str) -> bool:
    return dict(schema) == dict(polars_schema(_model(table)))


@lru_cache(maxsize=512)
def _parse(content: bytes, table: str, columns: tuple[str, ...] | None) -> pl.DataFrame | None:
    """Parse a small file, and select columns; None if it has other columns than its table.

    The rows are kept, since a run reads most files many times, and parsing takes longest.
    """
    if columns is not None:
        whole = _parse(content, table, None)
        return None if whole is None else whole.select(columns)
    rows = pl.read_parquet(BytesIO(content))
    return rows if _is_of(rows.schema, table) else None


def _open_written(root: Path, table: str, key: str, entry: Entry | None) -> BufferedReader | None:
    """Open the file of a partition if it matches its ledger entry or has no entry.

    A writer removes the entry before it replaces the file, so that file and entry may differ for a moment. The check
    is therefore repeated until nothing changes between two attempts.

    Returns:
        The file at its beginning, or None if there is none and none is recorded.
    """
    path = _partition_path(root, table, key)
    seen = None
    while True:
        file = _open_if_present(path)
        content = "" if file is None else _hash_open_file(file)
        if entry is None or entry.content == content:
            return file
        if file is not None:
            file.close()
        if (entry, content) == seen:
            what = "is not the file that was written" if content else "is absent"
            raise DamagedTableError(
                f"{path} {what} ({entry.rows} rows are recorded); {_REMEDY}",
                path=path,
                table=table,
                partition=key,
            )
        seen = (entry, content)
        entry = Ledger(root / LEDGER_FILE).read(table).get(key)


def find_damaged_partitions(root: Path, table: str) -> dict[str, str]:
    """Compare every file of a table with its ledger entry, without reading its rows.

    Args:
        root: Folder of the tables.
        table: A name of :data:`backstory.storage.tables.schemas.TABLES`.

    Returns:
        What is wrong and what to do, by key: files that are absent or not the ones that were written, and files
        without an entry, which another program put there, or whose writer was killed or is not done.

    Raises:
        LedgerError: The ledger is damaged.
    """
    recorded = Ledger(root / LEDGER_FILE).read(table)
    found = {}
    for key in sorted({*recorded, *list_partitions(root, table)}):
        try:
            file = _open_written(root, table, key, recorded.get(key))
        except DamagedTableError as error:
            found[key] = str(error)
            continue
        if file is not None:
            file.close()
            if key not in recorded and key not in Ledger(root / LEDGER_FILE).read(table):
                path = _partition_path(root, table, key)
                found[key] = f"{path} is not recorded: its run has not finished, or was killed; {_REMEDY}"
    return found


def open_if_written(root: Path, table: str, key: str, entry: Entry) -> BufferedReader | None:
    """Open the file of a partition if it is the one that an entry of a ledger describes.

    Args:
        root: Folder of the tables.
        table: A name of :data:`backstory.storage.tables.schemas.TABLES`.
        key: Key of the partition.
        entry: Its entry, of any ledger, such as a copy of an earlier time.

    Returns:
        The file at its beginning; None if the entry records no rows, and there is no file.

    Raises:
        DamagedTableError: The file is another one, or absent.
    """
    path = _partition_path(root, table, key)
    file = _open_if_present(path)
    content = "" if file is None else _hash_open_file(file)
    if content == entry.content:
        return file
    if file is not None:
        file.close()
    raise DamagedTableError(
        f"{path} is not the file that is recorded; {_REMEDY}", path=path, table=table, partition=key
    )


def _open_if_present(path: Path) -> BufferedReader | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _hash_open_file(file: BufferedReader) -> str:
    """Hash a file as the ledger records it, and seek back to its start."""
    content_hash = hashlib.file_digest(file, "sha256").hexdigest()[:_HASH_DIGITS]
    file.seek(0)
    return content_hash


def hash_partitions(root: Path, table: str) -> dict[str, str]:
    """Hash the file of every partition of a table, as the ledger records it.

    Args:
        root: Folder of the tables.
        table: A name of :data:`backstory.storage.tables.schemas.SERVED_TABLES`.

    Returns:
        The hash by key, for each partition that has a file.
    """
    hashes = {}
    for key in list_partitions(root, table):
        file = _open_if_present(_partition_path(root, table, key))
        if file is not None:
            with file:
                hashes[key] = _hash_open_file(file)
    return hashes


def hash_rows(frame: pl.DataFrame) -> str:
    """Hash the file that a partition with these rows would have, as the ledger records it; empty for no rows."""
    if frame.is_empty():
        return ""
    return hashlib.sha256(encode_rows(frame)).hexdigest()[:_HASH_DIGITS]


def encode_rows(frame: pl.DataFrame) -> bytes:
    """Return the content of the file that :func:`replace_file` writes of rows."""
    # In memory: on a full disk Polars sometimes fails with an error of the Parquet format, which hides the cause.
    file = BytesIO()
    frame.write_parquet(file, compression="zstd", statistics=True, row_group_size=_ROW_GROUP_SIZE)
    return file.getvalue()


def _remove_file(path: Path) -> bool:
    if not path.parent.is_dir():
        return False
    with exclusive_temporary(path):
        present = path.is_file()
        if present:
            path.unlink()
            flush(path.parent)
    return present


def replace_file(path: Path, frame: pl.DataFrame) -> tuple[str, bool]:
    """Write rows as a Parquet file, and move it into place, unless the existing file is equal.

    Args:
        path: The file.
        frame: Its rows.

    Returns:
        Hash of the content, and whether it differs from the previous file.
    """
    return replace_content(path, encode_rows(frame))


def replace_content(path: Path, content: bytes) -> tuple[str, bool]:
    """Do what :func:`replace_file` does with a content that :func:`encode_rows` has made."""
    content_hash = hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]
    with exclusive_temporary(path) as file:
        previous = _open_if_present(path)
        if previous is not None:
            with previous:
                if _hash_open_file(previous) == content_hash:
                    return content_hash, False
        file.write(content)
        file.flush()
        publish(temporary_path(path), path)
    return content_hash, True
