"""A limit of units and tokens per minute, shared by all threads and processes of one machine.

The grants of the last minute are in one database, since a quota belongs to a key and not to a process. An entry
is written before its request is sent, so a killed process has at most counted a request that it did not send.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from backstory.base.database import Description, Session
from backstory.base.environment import CACHE_VARIABLE, cache_folder
from backstory.base.errors import ModelError
from backstory.base.mounts import open_database

PERIOD_SECONDS: Final = 60.0

_SCHEMA = """
CREATE TABLE salt (number INTEGER PRIMARY KEY CHECK (number = 1), salt BLOB NOT NULL);
CREATE TABLE grants (
    account BLOB NOT NULL, expires REAL NOT NULL, units INTEGER NOT NULL, tokens INTEGER NOT NULL
);
CREATE INDEX grants_of_account ON grants (account, expires);
CREATE TABLE pauses (account BLOB PRIMARY KEY, until REAL NOT NULL, seconds REAL NOT NULL);
"""
_SHORTEST_WAIT_SECONDS = 0.001


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
            clock: Gives monotonic seconds, the same in all processes of this machine; where other machines share the
                grants, the clock of the database counts in its place. If it goes backwards, as after a reboot,
                earlier grants count as if they were made now, so nobody waits for more than a period.
            wait: Blocks the calling thread for a number of seconds.
        """
        self._database = open_database(
            path,
            Description(
                schema=_SCHEMA,
                name="the file of rate limits",
                remedy="the next call recreates it, and loses at most one minute of grants",
                error=ModelError,
                access=(
                    "without it, processes would exceed the quota together: make its folder writable, or name another "
                    f"one with {CACHE_VARIABLE}"
                ),
                synchronous="off",
            ),
        )
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
        while (delay := self._on_file(lambda session: self._take(session, units, tokens))) > 0:
            self._wait(max(delay, _SHORTEST_WAIT_SECONDS))

    def pause(self, seconds: float) -> None:
        """Block all threads and processes for a number of seconds."""
        self._on_file(lambda session: self._extend_pause(session, seconds))

    def _take(self, session: Session, units: int, tokens: int) -> float:
        """Grant the request and return 0, or return the seconds until a grant may be possible."""
        account, now = self._hash_account(session), self._read_clock(session)
        session.execute("DELETE FROM grants WHERE expires <= ?", (now,))
        latest = now + PERIOD_SECONDS
        session.execute("UPDATE grants SET expires = ? WHERE expires > ?", (latest, latest))
        if (paused_until := _read_pause(session, account, now)) > now:
            return paused_until - now
        grants = session.execute(
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
        session.execute("INSERT INTO grants VALUES (?, ?, ?, ?)", (account, latest, units, tokens))
        return 0.0

    def _extend_pause(self, session: Session, seconds: float) -> float:
        account, now = self._hash_account(session), self._read_clock(session)
        if _read_pause(session, account, now) < now + seconds:
            session.execute(
                "INSERT INTO pauses VALUES (?, ?, ?) "
                "ON CONFLICT (account) DO UPDATE SET until = excluded.until, seconds = excluded.seconds",
                (account, now + seconds, seconds),
            )
        return 0.0

    def _read_clock(self, session: Session) -> float:
        shared = self._database.read_clock(session)
        return self._clock() if shared is None else shared

    def _hash_account(self, session: Session) -> bytes:
        session.execute("INSERT INTO salt VALUES (1, ?) ON CONFLICT DO NOTHING", (secrets.token_bytes(32),))
        (salt,) = session.execute("SELECT salt FROM salt").fetchone()
        return hashlib.blake2b(self._account, key=salt, digest_size=16).digest()

    def _on_file(self, act: Callable[[Session], float]) -> float:
        def attempt() -> float:
            with self._database.writing() as session:
                return act(session)

        return self._database.mend(attempt)


def _read_pause(session: Session, account: bytes, now: float) -> float:
    """Return the end of the pause. A pause that began in the future was made by a clock that has gone back."""
    found = session.execute("SELECT until, seconds FROM pauses WHERE account = ?", (account,)).fetchone()
    if found is None:
        return now
    until, seconds = found
    if until - seconds > now:
        until = now + seconds
        session.execute("UPDATE pauses SET until = ? WHERE account = ?", (until, account))
    return float(until)
