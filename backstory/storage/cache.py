"""Values that cost time or money to have again, by kind and key: vectors, judgements and drafts.

Each has a checksum, and one that differs from it counts as unknown: what is damaged is computed or requested again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, Literal

from backstory.base.errors import StateError
from backstory.storage.schema import KV
from backstory.storage.state import State

_KEYS_AT_ONCE: Final = 256
_CHECKSUM_BYTES: Final = 8

logger = logging.getLogger(__name__)


class Cache:
    """The values of one kind. Threads and processes may share them.

    Whoever may only read a workspace goes without storing anything, as the log says.

    Attributes:
        state: What the values lie in.
    """

    def __init__(self, state: State, kind: str) -> None:
        """Name the values; the first :meth:`put_rows` makes their table.

        Args:
            state: The part :data:`~backstory.storage.schema.CACHE` of a workspace, or of a machine.
            kind: Name of the kind.
        """
        self.state = state
        self._kind = kind

    def find(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Look up many keys at once; damaged values are deleted.

        Args:
            keys: Distinct keys.

        Yields:
            Each key that is known, and its value.

        Raises:
            StateError: The cache is damaged or cannot be used.
        """
        damaged: list[tuple[str, bytes, bytes]] = []
        with self.state.reading() as session:
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                block = keys[start : start + _KEYS_AT_ONCE]
                query = f"SELECT key, value FROM kv WHERE kind = ? AND key IN ({', '.join('?' * len(block))})"  # noqa: S608
                for key, sealed in session.execute(query, (self._kind, *block)):
                    value = sealed[_CHECKSUM_BYTES:]
                    if sealed == _seal(key, value):
                        yield key, value
                    else:
                        damaged.append((self._kind, key, sealed))
        if damaged:
            logger.warning("%d values of %s differ from their checksums", len(damaged), self.state.place)
            with self.state.begin() as session:
                session.executemany("DELETE FROM kv WHERE kind = ? AND key = ? AND value = ?", damaged)

    def put_rows(self, rows: Iterable[tuple[bytes, bytes, bytes]], *, replace: bool) -> None:
        """Store values, all of them or none.

        Args:
            rows: Key, owner and value of each. A value may be forgotten with its owner.
            replace: Whether a value replaces the one of the same key; else that one stays.

        Raises:
            StateError: The cache is damaged or busy, or the disk is full.
        """
        named = [
            {"kind": self._kind, "key": key, "owner": owner, "value": _seal(key, value)}
            for key, owner, value in rows
        ]
        try:
            with self.state.begin() as session:
                self.state.upsert(session, KV, named, replace=replace)
        except StateError as error:
            if error.code != "unusable_file":
                raise
            logger.warning("nothing is stored: %s", error)

    def count(self) -> int:
        """Count the values."""
        return sum(self.count_by_owner().values())

    def count_by_owner(self) -> dict[str, int]:
        """Count the values by owner, in order of the owners."""
        query = "SELECT owner, count(*) FROM kv WHERE kind = ? GROUP BY owner ORDER BY owner"
        with self.state.reading() as session:
            found = session.execute(query, (self._kind,)).fetchall()
        return {owner.decode(): count for owner, count in found}

    def measure(self) -> int:
        """Return the bytes of keys and values."""
        query = "SELECT coalesce(sum(length(key) + length(value)), 0) FROM kv WHERE kind = ?"
        with self.state.reading() as session:
            return int(session.execute(query, (self._kind,)).fetchone()[0])

    def keep_only(self, kept: Collection[bytes], by: Literal["key", "owner"]) -> int:
        """Delete all values but some; :meth:`State.compact` then takes them off the disk.

        Args:
            kept: Keys or owners of what stays.
            by: Which of the two they are.

        Returns:
            Number of deleted values.

        Raises:
            StateError: The cache is damaged or cannot be used.
        """
        if not self.state.exists():
            return 0
        kept = set(kept)
        with self.state.begin() as session:
            found = session.execute(f"SELECT DISTINCT {by} FROM kv WHERE kind = ?", (self._kind,)).fetchall()  # noqa: S608
            before = session.execute("SELECT count(*) FROM kv WHERE kind = ?", (self._kind,)).fetchone()[0]
            session.executemany(
                f"DELETE FROM kv WHERE kind = ? AND {by} = ?",  # noqa: S608 - one of two names
                [(self._kind, one) for (one,) in found if one not in kept],
            )
            after = session.execute("SELECT count(*) FROM kv WHERE kind = ?", (self._kind,)).fetchone()[0]
        return int(before) - int(after)


def _seal(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + value, digest_size=_CHECKSUM_BYTES).digest() + value
