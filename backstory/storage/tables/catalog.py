"""The catalog: what each partition of a table holds and was made from, as rows of the state of the workspace."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from uuid import uuid4

from backstory.base.errors import ConflictError
from backstory.storage.schema import PARTITIONS
from backstory.storage.state import Session, State

Key: TypeAlias = tuple[str, str]
"""A table and a partition of it."""
Entries: TypeAlias = Mapping[str, Mapping[str, "Entry"]]
"""Entries by table and partition."""
Changes: TypeAlias = dict[Key, "Entry | None"]
"""Entries to write, or None for those to remove."""

_COUNTER: Final = ("", "")
"""Key of the row that counts the changes.

It has a name, which changes when entries are removed: nothing else would tell other processes of that.
"""
_CHANGED: Final = (
    "SELECT table_name, partition, inputs, content, rows, version FROM partitions "
    "WHERE version > ? OR table_name = ''"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One partition: hash of all that it was made from, hash of its rows (empty for none), and their number."""

    inputs: str
    content: str
    rows: int


class Catalog:
    """The entries of one workspace, in memory. Any number of threads and processes may use it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._lock = threading.Lock()
        self._name = ""
        self._version = 0
        self._entries: dict[str, dict[str, Entry]] = {}
        self._versions: dict[Key, int] = {}

    @property
    def version(self) -> int:
        """Number of the last change."""
        self.read_all(())
        return self._version

    def read(self, table: str) -> dict[str, Entry]:
        """Return the entries of a table by partition."""
        return dict(self.read_all([table])[table])

    def read_all(self, tables: Iterable[str]) -> dict[str, Mapping[str, Entry]]:
        """Return the entries of tables by table and partition, all as they are at one moment."""
        with self._lock:
            with self.state.reading() as session:
                self._take_changes(session)
            return {table: self._entries.get(table, {}) for table in tables}

    def record(self, table: str, entries: Mapping[str, Entry | None]) -> None:
        """Write entries, whatever was in their place; None removes one."""
        if entries:
            with self.changing() as (_, changes):
                changes |= {(table, key): entry for key, entry in entries.items()}

    def forget(self, table: str, keys: Iterable[str]) -> None:
        """Remove entries."""
        self.record(table, dict.fromkeys(keys))

    def outdate(self, table: str, keys: Iterable[str]) -> None:
        """Let the next run make partitions again, which readers have until then."""
        known = self.read(table)
        self.record(table, {key: replace(known[key], inputs="") for key in keys if key in known})

    def pending(self, table: str, inputs: Mapping[str, str], contents: Mapping[str, str]) -> list[str]:
        """List the keys of whose present inputs or content the hash is not the recorded one."""
        known = self.read(table)
        return [
            key
            for key, value in inputs.items()
            if key not in known or (known[key].inputs, known[key].content) != (value, contents.get(key, ""))
        ]

    @contextmanager
    def changing(self, seen: int | None = None) -> Iterator[tuple[Entries, Changes]]:
        """Hold a transaction, which excludes every other change: lend the present entries, and take their changes.

        Nothing is written if one of these was changed after the version that was seen.
        """
        changes: Changes = {}
        with self._lock, self.state.begin() as session:
            self._take_changes(session)
            yield self._entries, changes
            lost = [] if seen is None else [key for key in changes if self._versions.get(key, 0) > seen]
            if lost:
                raise ConflictError(
                    f"{lost[0][0]} {lost[0][1]} was written by another run since this one read it; run the same "
                    "command again, which makes it from what is there now"
                )
            if not changes:
                return
            version = self._version + 1
            gone = [key for key, entry in changes.items() if entry is None and key in self._versions]
            session.executemany("DELETE FROM partitions WHERE table_name = ? AND partition = ?", gone)
            rows = [(*_COUNTER, uuid4().hex if gone or not self._name else self._name, "", 0, version)]
            rows += [
                (*key, entry.inputs, entry.content, entry.rows, version)
                for key, entry in changes.items()
                if entry is not None
            ]
            self.state.upsert(session, PARTITIONS, rows)

    def _take_changes(self, session: Session) -> None:
        """Bring the entries in memory up to date."""
        rows = session.execute(_CHANGED, (self._version,)).fetchall()
        name, version = next(((row[2], row[5]) for row in rows if row[:2] == _COUNTER), ("", 0))
        if name != self._name or version < self._version:
            # It is the first reading, entries were removed, or another catalog is in the same place.
            self._entries, self._versions = {}, {}
            rows = session.execute(_CHANGED, (0,)).fetchall() if self._version else rows
        self._name, self._version = name, version
        copied: dict[str, dict[str, Entry]] = {}  # since readers keep the entries that they were given
        for table, key, inputs, content, count, changed in rows:
            if (table, key) == _COUNTER:
                continue
            if table not in copied:
                copied[table] = dict(self._entries.get(table, {}))
            copied[table][key] = Entry(inputs, content, count)
            self._versions[table, key] = changed
        self._entries |= copied
