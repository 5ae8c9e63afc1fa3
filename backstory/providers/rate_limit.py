"""A limit of units and tokens per minute, shared by all threads and processes of one machine.

The grants of the last minute are in one SQLite file, since a quota belongs to a key and not to a process. An entry
is written before its request is sent, so a killed process has at most counted a request that it did not send.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from backstory.errors import ModelError
from backstory.settings.environment import CACHE_VARIABLE, cache_folder
from backstory.sqlite_files import BUSY_SECONDS, is_damage

PERIOD_SECONDS: Final = 60.0

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS salt (number INTEGER PRIMARY KEY CHECK (number = 1), salt BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS grants (
    account BLOB NOT NULL, expires REAL NOT NULL, units INTEGER NOT NULL, tokens INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS grants_of_account ON grants (account, expires);
CREATE TABLE IF NOT EXISTS pauses (account BLOB PRIMARY KEY, until REAL NOT NULL, seconds REAL NOT NULL);
COMMIT;
"""
_SHORTEST_WAIT_SECONDS = 0.001

logger = logging.getLogger(__name__)


def default_limits_file() -> Path:
    """Return the file that all processes of a user share: ``rate_limits.sqlite`` in the folder of cached models."""
    return cache_folder() / "rate_limits.sqlite"


class RateLimiter:
    """Keeps every period of 60 seconds within the limits (a sliding log of grants)."""

    def __init__(
        self,
        path: Path,
        account: Sequence[str],
        *,
        units_per_minute: int,
        tokens_per_minute: int,
        clock: Callable[[], float],
        wait: Callable[[float], None],
    ) -> None:
        """Set the limits.

        Args:
            path: The shared file, which need not exist.
            account: What the quota belongs to: address, key, model. Only its hash is stored, keyed by a random
                value of the file, so that the file tells nothing about the key.
            units_per_minute: Most units (texts, or requests) in any 60 seconds.
            tokens_per_minute: Most tokens in any 60 seconds.
            clock: Gives monotonic seconds, the same in all processes. If it goes backwards, as after a reboot,
                earlier grants count as if they were made now, so nobody waits for more than a period.
            wait: Blocks the calling thread for a number of seconds.
        """
        self._path = path
        self._account = "\0".join(account).encode()
        self._units = units_per_minute
        self._tokens = tokens_per_minute
        self._clock = clock
        self._wait = wait

    def acquire(self, units: int, tokens: int) -> None:
        """Block until a request is within the limits.

        A request that exceeds a limit by itself passes once nothing else was granted for 60 seconds.

        Args:
            units: Number of units in the request.
            tokens: Number of tokens in the request.

        Raises:
            ModelError: The shared file cannot be used.
        """
        while (delay := self._on_file(lambda connection: self._take(connection, units, tokens))) > 0:
            self._wait(max(delay, _SHORTEST_WAIT_SECONDS))

    def pause(self, seconds: float) -> None:
        """Block all threads and processes for a number of seconds."""
        self._on_file(lambda connection: self._extend_pause(connection, seconds))

    def _take(self, connection: sqlite3.Connection, units: int, tokens: int) -> float:
        """Grant the request and return 0, or return the seconds until a grant may be possible."""
        account, now = self._hash_account(connection), self._clock()
        connection.execute("DELETE FROM grants WHERE expires <= ?", (now,))
        latest = now + PERIOD_SECONDS
        connection.execute("UPDATE grants SET expires = ? WHERE expires > ?", (latest, latest))
        if (paused_until := _read_pause(connection, account, now)) > now:
            return paused_until - now
        grants = connection.execute(
            "SELECT expires, units, tokens FROM grants WHERE account = ? ORDER BY expires", (account,)
        ).fetchall()
        units_used = sum(grant[1] for grant in grants)
        tokens_used = sum(grant[2] for grant in grants)
        free_from = now
        for expires, granted_units, granted_tokens in grants:
            if units_used + units <= self._units and tokens_used + tokens <= self._tokens:
                break
            units_used -= granted_units
            tokens_used -= granted_tokens
            free_from = expires
        if free_from > now:
            return float(free_from - now)
        connection.execute("INSERT INTO grants VALUES (?, ?, ?, ?)", (account, latest, units, tokens))
        return 0.0

    def _extend_pause(self, connection: sqlite3.Connection, seconds: float) -> float:
        account, now = self._hash_account(connection), self._clock()
        if _read_pause(connection, account, now) < now + seconds:
            connection.execute(
                "INSERT OR REPLACE INTO pauses VALUES (?, ?, ?)", (account, now + seconds, seconds)
            )
        return 0.0

    def _hash_account(self, connection: sqlite3.Connection) -> bytes:
        connection.execute("INSERT OR IGNORE INTO salt VALUES (1, ?)", (secrets.token_bytes(32),))
        (salt,) = connection.execute("SELECT salt FROM salt").fetchone()
        return hashlib.blake2b(self._account, key=salt, digest_size=16).digest()

    def _on_file(self, act: Callable[[sqlite3.Connection], float]) -> float:
        """Act within a transaction; make a damaged file anew, which forgets at most one minute of grants."""
        try:
            return self._try_on_file(act)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise self._unusable(error) from error
            logger.warning("the file of rate limits %s is damaged (%s); it is made anew", self._path, error)
            self._path.unlink(missing_ok=True)
        try:
            return self._try_on_file(act)
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error

    def _try_on_file(self, act: Callable[[sqlite3.Connection], float]) -> float:
        with self._transaction() as connection:
            return act(connection)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error
        with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute(
                "PRAGMA synchronous = OFF"
            )  # a lost minute does no harm, and a damaged file is replaced
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'pauses'").fetchone():
                connection.executescript(_SCHEMA)
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def _unusable(self, error: Exception) -> ModelError:
        return ModelError(
            f"the file of rate limits {self._path} cannot be used ({error}); without it, processes would exceed the "
            f"quota together. Make its folder writable, or name another one with {CACHE_VARIABLE}"
        )


def _read_pause(connection: sqlite3.Connection, account: bytes, now: float) -> float:
    """Return the end of the pause. A pause that began in the future was made by a clock that has gone back."""
    found = connection.execute("SELECT until, seconds FROM pauses WHERE account = ?", (account,)).fetchone()
    if found is None:
        return now
    until, seconds = found
    if until - seconds > now:
        until = now + seconds
        connection.execute("UPDATE pauses SET until = ? WHERE account = ?", (until, account))
    return float(until)
