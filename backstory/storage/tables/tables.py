"""The tables: Parquet files that never change, since their names hold the hash of their content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from io import BytesIO
from itertools import accumulate
from typing import IO, Final, NamedTuple

import polars as pl

from backstory.base.errors import ContractError, InputError
from backstory.storage.stores import Folder, Store, in_threads
from backstory.storage.tables.catalog import Catalog, Entries, Entry, Key
from backstory.storage.tables.contracts import Table, empty, validate
from backstory.storage.tables.schemas import SERVED_TABLES

WHOLE: Final = "all"
"""Key of the only partition of a table without partitions."""
CURRENT: Final = "current.json"
"""Name of the list of the files that the tables consist of, for programs that read them without Backstory."""
KEPT: Final = timedelta(hours=1)
"""How long a file stays that no partition is any more, for readers that have begun with it."""
SNAPSHOTS: Final = "index"
"""Folder of the snapshots of the index in a store, which are files that never change, too."""

_UNUSED: Final = "unused files"
_INDEX: Final = "search_index"
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,199}\Z")
# Fixed, so that the bytes depend on the rows only; DuckDB's own row group size, so that it reads in parallel.
_ROW_GROUP_SIZE: Final = 122_880
_HASH_DIGITS: Final = 32
_NAMED_DIGITS: Final = 16
_KEPT_ROWS: Final = 500
"""Files of partitions with up to so many rows are kept, since a run reads most files many times."""
_KEPT_FILES: Final = 2048
_REMEDY: Final = "`backstory run` makes it again"


class Made(NamedTuple):
    """A partition that was made: all its rows, in the order to keep, and the hash of all that they were made from."""

    rows: pl.DataFrame
    inputs: str


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a workspace: a partition is the file that its entry in the catalog names.

    A commit writes files, and then changes all entries in one transaction, so that readers see all of it or nothing. An
    :class:`InputError` means a table or key that cannot be, and a :class:`ContractError` a file that is absent or
    damaged (code ``damaged_table``), or of another contract (``other_columns``). ``pinned`` has the entries that are
    read; None for those of each moment.
    """

    store: Store
    catalog: Catalog
    pinned: Entries | None = None

    def pin(self) -> Tables:
        """Return the tables as they are now, for a reader of several of them; later changes do not show in it."""
        return Tables(self.store, self.catalog, self.catalog.read_all(SERVED_TABLES))

    def entries(self, table: str) -> Mapping[str, Entry]:
        """Return the entries of a table by partition."""
        _model(table)
        return self.catalog.read(table) if self.pinned is None else self.pinned.get(table, {})

    def keys(self, table: str) -> list[str]:
        """Return the keys of the partitions that have rows, in order."""
        return list(self._find(table))

    def read(
        self, table: str, partitions: Sequence[str] | None = None, *, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Read all or some partitions and columns of a table, partition by partition in the order of their keys.

        A partition that is empty or was never made adds no rows.
        """
        return self._read(table, self._find(table, partitions), columns)

    def read_each(self, table: str, partitions: Sequence[str] | None = None) -> dict[str, pl.DataFrame]:
        """Read what :meth:`read` reads, by partition; those without rows are absent."""
        entries = self._find(table, partitions)
        read = self._read(table, entries, None)
        ends = accumulate(entry.rows for entry in entries.values())
        return {
            key: read.slice(end - entry.rows, entry.rows)
            for (key, entry), end in zip(entries.items(), ends, strict=True)
        }

    def stale(self, table: str, inputs: Mapping[str, str]) -> list[str]:
        """List those of wanted partitions whose inputs have changed, or whose file is not the one that was written."""
        return self.catalog.pending(table, inputs, self._hash(table, self._find(table, [*inputs])))

    def hash_files(self, table: str) -> dict[str, str]:
        """Return the hash of each file of a table; of one that is absent, an empty text."""
        return self._hash(table, self._find(table))

    def find_damage(self, table: str) -> dict[str, str]:
        """Say what is wrong with the files of a table and what to do, by partition."""
        entries = self._find(table)
        found = self._hash(table, entries)
        return {
            key: f"{self.store.locate(name_file(table, key, entry))} "
            f"{'is not the file that was written' if found[key] else 'is absent'} ({entry.rows} rows are recorded); "
            f"{_REMEDY}"
            for key, entry in entries.items()
            if found[key] != entry.content
        }

    def commit(
        self, made: Mapping[Key, Made], *, seen: int | None = None, without: Collection[Key] = ()
    ) -> dict[Key, Entry]:
        """Replace partitions of any tables, and remove others, all of them or none; return the new entries.

        A :class:`ConflictError` says that one was replaced since the version of the catalog that was seen.
        """
        for table, key in made:
            _require_key(table, key)
        # Those of a table together, since one check takes milliseconds even for few rows.
        for table in {table for table, _ in made}:
            frames, model = [one.rows for (name, _), one in made.items() if name == table], _model(table)
            other = next((frame for frame in frames if frame.schema != model.schema), None)
            validate(pl.concat(frames, rechunk=False) if other is None else other, model)
        there: dict[str, bytes] = {}

        def write(key: Key) -> Entry:
            rows, inputs = made[key]
            content = encode_rows(rows)
            entry = Entry(inputs, _hash(content), rows.height)
            name = name_file(*key, entry)
            if content and self.store.has(name, content):
                there[name] = content
            elif content:
                self.store.write(name, content)
            return entry

        entries = dict(zip(made, in_threads(write, made), strict=True))
        with self.catalog.changing(seen) as (_, changes):
            # A file that was there without a partition may have been deleted since; none is from here on.
            for name, content in there.items():
                if not self.store.has(name, content):
                    self.store.write(name, content)
            changes |= {**dict.fromkeys(without), **entries}
        return entries

    def list_files(self) -> dict[str, dict[str, str]]:
        """Return the names of all files that the tables consist of, by table and partition."""
        return _list_files(self.catalog.read_all(SERVED_TABLES) if self.pinned is None else self.pinned)

    def publish(self) -> None:
        """Write the list :data:`CURRENT`, by which programs read one version of all tables without Backstory."""
        content = json.dumps({"tables": self.list_files()}, indent=1, sort_keys=True).encode()
        if self.store.read(CURRENT) != content:
            self.store.write(CURRENT, content)

    def collect(self, older_than: timedelta = KEPT, *, discarded: Collection[str] = ()) -> int:
        """Delete the files that no partition is any more, and return their number.

        An earlier call must have noticed that some time ago, but for the discarded ones; without time, nothing may
        commit.
        """
        folders = [*SERVED_TABLES, SNAPSHOTS]
        now = self.catalog.state.read_clock()
        with self.catalog.changing() as (entries, changes):
            used = {name for names in _list_files(entries).values() for name in names.values()}
            found = {name for folder in folders for name in self.store.list_names(folder)} - used
            snapshots = tuple(f"{SNAPSHOTS}/{entry.content}/" for entry in entries.get(_INDEX, {}).values())
            found = {name for name in found if not name.startswith(snapshots)}
            noticed = {name: float(entry.inputs) for name, entry in entries.get(_UNUSED, {}).items()}
            due = {name for name in found if now - noticed.get(name, now) >= older_than.total_seconds()}
            due |= found.intersection(discarded)
            self.store.delete(due)
            left = found - due
            changes |= {(_UNUSED, name): Entry(str(now), "", 0) for name in left - noticed.keys()}
            changes |= {(_UNUSED, name): None for name in noticed.keys() - left}
        return len(due)

    def _find(self, table: str, partitions: Sequence[str] | None = None) -> dict[str, Entry]:
        """Return the entry of each wanted partition that has rows, in the order of the keys."""
        for key in partitions or ():
            _require_key(table, key)
        entries = self.entries(table)
        wanted = sorted(entries if partitions is None else {*partitions} & entries.keys())
        return {key: entries[key] for key in wanted if entries[key].rows}

    def _hash(self, table: str, entries: Mapping[str, Entry]) -> dict[str, str]:
        names = _name_files(table, entries)
        if isinstance(self.store, Folder):
            return {key: _hash(self.store.read(name) or b"") for key, name in names.items()}
        # A bucket stores a checksum with each object.
        there = set(self.store.list_names(table)) if names else set()
        return {key: entries[key].content if name in there else "" for key, name in names.items()}

    def _read(self, table: str, entries: Mapping[str, Entry], columns: Sequence[str] | None) -> pl.DataFrame:
        def open_file(key: str) -> IO[bytes]:
            # Few rows may be large where they are whole documents, and each run makes another file of them.
            is_kept = key != WHOLE and entries[key].rows <= _KEPT_ROWS
            check, name = _check_once if is_kept else _check, names[key]
            return BytesIO(check(self.store, self.store.stamp(name), table, name))

        names = _name_files(table, entries)
        # Polars reads many small files at once in a quarter of the time that it needs one by one.
        files = [*map(open_file, names)] if isinstance(self.store, Folder) else in_threads(open_file, names)
        if not files:
            nothing = empty(_model(table))
            return nothing if columns is None else nothing.select(columns)
        return pl.read_parquet(files, columns=None if columns is None else list(columns))


def _check(store: Store, stamp: Hashable, table: str, name: str) -> bytes:
    """Return the content of a file in its present state, compared with its hash and with the columns of its table."""
    del stamp
    content = store.read(name)
    if content is None or _hash(content)[:_NAMED_DIGITS] != name.split(".")[-2]:
        raise _damaged(store, name)
    if pl.read_parquet_schema(BytesIO(content)) != dict(_model(table).schema):
        raise ContractError(
            f"{store.locate(name)} was written by another version of Backstory; `backstory run` makes {table} again",
            code="other_columns",
        )
    return content


_check_once = lru_cache(maxsize=_KEPT_FILES)(_check)


def _damaged(store: Store, name: str) -> ContractError:
    return ContractError(
        f"{store.locate(name)} is absent, or not the file that was written; {_REMEDY}", code="damaged_table"
    )


def copy_files(tables: Tables, target: Store) -> Iterator[tuple[str, int, bool]]:
    """Copy the files of tables; yield of each its name, its size, and whether the target did not have it.

    One that is absent has no size.
    """
    for names in tables.list_files().values():
        for name in names.values():
            content = tables.store.read(name) or b""
            is_missing = bool(content) and not target.has(name, content)
            if is_missing:
                target.write(name, content)
            yield name, len(content), is_missing


def name_file(table: str, key: str, entry: Entry) -> str:
    """Return the name of the file of a partition that has rows."""
    return f"{table}/{key}.{entry.content[:_NAMED_DIGITS]}.parquet"


def _name_files(table: str, entries: Mapping[str, Entry]) -> dict[str, str]:
    return {key: name_file(table, key, entry) for key, entry in sorted(entries.items()) if entry.rows}


def hash_rows(frame: pl.DataFrame) -> str:
    """Hash rows as the catalog has them; empty for no rows."""
    return _hash(encode_rows(frame))


def encode_rows(frame: pl.DataFrame) -> bytes:
    """Return the content of the file of a partition; empty for no rows."""
    if frame.is_empty():
        return b""
    # In memory: on a full disk Polars sometimes fails with an error of the Parquet format, which hides the cause.
    file = BytesIO()
    frame.write_parquet(file, compression="zstd", statistics=True, row_group_size=_ROW_GROUP_SIZE)
    return file.getvalue()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH_DIGITS] if content else ""


def _list_files(entries: Entries) -> dict[str, dict[str, str]]:
    return {table: _name_files(table, entries[table]) for table in sorted(SERVED_TABLES) if table in entries}


def _model(table: str) -> type[Table]:
    if table not in SERVED_TABLES:
        raise InputError(
            f"there is no table {table!r}; the tables are {', '.join(SERVED_TABLES)}", code="unknown_table"
        )
    return SERVED_TABLES[table]


def _require_key(table: str, key: str) -> None:
    if not _KEY.match(key):
        raise InputError(
            f"{table}: {key!r} cannot name a partition; begin with a letter or digit, then also _ . : + -",
            code="invalid_partition",
        )
