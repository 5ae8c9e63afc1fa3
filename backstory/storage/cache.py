"""Values that cost time or money to have again, by kind and key: vectors, judgements and drafts."""

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


def require_whole_values(state: State) -> None:
    """Compare every value of a cache, of whatever kind, with its checksum; one that differs is an error."""
    with state.reading() as session:
        for key, sealed in session.execute("SELECT key, value FROM kv"):
            _unseal(state, key, sealed)


class Cache:
    """The values of one kind, each with a checksum. Threads and processes may share them.

    Whoever may only read a workspace goes without storing anything, as the log says.
    """

    def __init__(self, state: State, kind: str) -> None:
        self.state = state
        self._kind = kind

    def find(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Look up many distinct keys at once, and yield each that is known, and its value.

        A damaged value is the error of a damaged cache.
        """
        with self.state.reading() as session:
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                block = keys[start : start + _KEYS_AT_ONCE]
                query = f"SELECT key, value FROM kv WHERE kind = ? AND key IN ({', '.join('?' * len(block))})"  # noqa: S608
                for key, sealed in session.execute(query, (self._kind, *block)):
                    yield key, _unseal(self.state, key, sealed)

    def put_rows(self, rows: Iterable[tuple[bytes, bytes, bytes]], *, replace: bool) -> None:
        """Store rows of key, owner and value, all or none; a value replaces that of the same key, or leaves it there.

        A value may be forgotten with its owner.
        """
        sealed = [(self._kind, key, owner, _seal(key, value)) for key, owner, value in rows]
        try:
            with self.state.begin() as session:
                self.state.upsert(session, KV, sealed, replace=replace)
        except StateError as error:
            if error.code != "unwritable":
                raise
            logger.warning("nothing is stored: %s", error)

    def count(self) -> int:
        """Count the values."""
        return sum(self.count_by_owner().values())

    def count_by_owner(self) -> dict[str, int]:
        """Count the values by owner, in order of the owners."""
        query = "SELECT owner, count(*) FROM kv WHERE kind = ? GROUP BY owner ORDER BY owner"
        with self.state.reading() as session:
            return {owner.decode(): count for owner, count in session.execute(query, (self._kind,))}

    def measure(self) -> int:
        """Return the bytes of keys and values."""
        query = "SELECT coalesce(sum(length(key) + length(value)), 0) FROM kv WHERE kind = ?"
        with self.state.reading() as session:
            return int(session.execute(query, (self._kind,)).fetchone()[0])

    def keep_only(self, kept: Collection[bytes], by: Literal["key", "owner"]) -> int:
        """Delete all values but those of some keys or owners, and return their number.

        :meth:`State.compact` then takes them off the disk.
        """
        if not self.state.exists():
            return 0
        kept = set(kept)
        with self.state.begin() as session:
            counts = f"SELECT {by}, count(*) FROM kv WHERE kind = ? GROUP BY {by}"  # noqa: S608 - one of two names
            found = session.execute(counts, (self._kind,)).fetchall()
            gone = {one: count for one, count in found if one not in kept}
            delete = f"DELETE FROM kv WHERE kind = ? AND {by} = ?"  # noqa: S608 - one of two names
            session.executemany(delete, [(self._kind, one) for one in gone])
        return sum(gone.values())


def _seal(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + value, digest_size=_CHECKSUM_BYTES).digest() + value


def _unseal(state: State, key: bytes, sealed: bytes) -> bytes:
    """Return the value of a key, if it is the one that was stored."""
    value = sealed[_CHECKSUM_BYTES:]
    if sealed != _seal(key, value):
        raise state.damaged("a value differs from its checksum")
    return value
