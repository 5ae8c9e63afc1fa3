"""Leases: locks of several machines, in the database that they share.

A lease is held for a range of partitions, renewed by a thread of its process, and taken over by others when it has not
been renewed for a while, or at once by those of its machine that see that its process has ended. Each has a token that
is higher than all before, so that a holder that wakes up late is told from the one that has taken over. The time is
that of the database.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from backstory.base.database import Description, Session
from backstory.base.errors import BackstoryError, LeaseError, StaleLeaseError
from backstory.base.mounts import find_mount, open_database
from backstory.base.processes import has_ended, name_process

LEASE_SECONDS: Final = 30.0
"""How long a lease lasts that is not renewed. A holder renews it three times as often."""

_RENEWALS: Final = 3
_REMEMBERED_SECONDS: Final = 7 * 86_400.0
"""How long others see that a holder has died. Most names are used once, so that nobody takes their leases over."""
_FIRST_POLL_SECONDS: Final = 0.05
_LONGEST_POLL_SECONDS: Final = 1.0
_PROCESS: Final = "\n"
"""What stands in a holder before the name of its process, which no person reads."""
_FILE: Final = "leases.sqlite"
_SCHEMA: Final = """
CREATE TABLE leases (
    token INTEGER PRIMARY KEY, name TEXT NOT NULL, first TEXT NOT NULL, last TEXT NOT NULL, holder TEXT NOT NULL,
    expires REAL NOT NULL
);
CREATE TABLE last_token (number INTEGER PRIMARY KEY CHECK (number = 1), token INTEGER NOT NULL);
CREATE TABLE claims (key BLOB PRIMARY KEY, token INTEGER NOT NULL);
CREATE INDEX claims_of_token ON claims (token);
"""

logger = logging.getLogger(__name__)


class Span(NamedTuple):
    """A range of partitions, both ends included."""

    first: str
    last: str


EVERYTHING: Final = Span("", "~")
"""The range of all partitions, whose keys are digits and letters."""


@dataclass(frozen=True)
class Lease:
    """A lease that this process holds.

    Attributes:
        name: What it is for.
        span: For which partitions.
        token: Higher than that of every earlier lease of the database.
    """

    name: str
    span: Span
    token: int


@dataclass(frozen=True)
class Holding:
    """A lease as others see it.

    Attributes:
        holder: Who holds it.
        is_live: Whether it has been renewed in time, by a process that has not ended as far as this machine sees.
        span: For which partitions it is held.
        token: The token of the lease.
    """

    holder: str
    is_live: bool
    span: Span
    token: int


class Leases:
    """The leases of one workspace. Threads may share an object."""

    def __init__(self, folder: Path, seconds: float | None = None) -> None:
        """Name the tables; nothing is read or written yet.

        Args:
            folder: A folder of the workspace, by which the server is found.
            seconds: How long a lease lasts that is not renewed; None for :data:`LEASE_SECONDS`.
        """
        self._database = open_database(
            folder / _FILE,
            Description(
                schema=_SCHEMA,
                name="the leases",
                remedy="stop all runs of the workspace, and remove the schema that ends with _leases",
                error=LeaseError,
                version=1,
            ),
        )
        self._seconds = LEASE_SECONDS if seconds is None else seconds
        self._held: set[int] = set()
        self._process = os.getpid()
        self._changing = threading.Lock()
        self._ended = threading.Event()

    def try_to_take(self, name: str, span: Span, holder: str) -> Lease | str:
        """Take a lease if no live one of this name overlaps.

        Args:
            name: What it is for.
            span: For which partitions.
            holder: Who takes it, for those that wait.

        Returns:
            The lease, or the holder of one that overlaps.

        Raises:
            LeaseError: The database cannot be used.
        """
        with self._database.writing() as session:
            now = self._read_time(session)
            overlapping = (
                "SELECT token, holder, expires FROM leases WHERE name = ? AND first <= ? AND last >= ?"
            )
            found = session.execute(overlapping, (name, span.last, span.first)).fetchall()
            for _, other, expires in found:
                if _is_live(other, expires, now):
                    return _describe(other)
            forgotten = "SELECT token FROM leases WHERE expires < ?"
            for (token,) in session.execute(forgotten, (now - _REMEMBERED_SECONDS,)).fetchall():
                _drop(session, token)
            for token, other, _ in found:
                logger.warning(
                    "the lease of %s, which has ended or did not renew it, is taken over", _describe(other)
                )
                _drop(session, token)
            session.execute("INSERT INTO last_token VALUES (1, 0) ON CONFLICT DO NOTHING")
            raised = session.execute("UPDATE last_token SET token = token + 1 RETURNING token")
            token = int(raised.fetchone()[0])
            named = f"{holder} on {socket.gethostname()}{_PROCESS}{name_process()}"
            row = (token, name, *span, named, now + self._seconds)
            session.execute("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?)", row)
        self._keep(token)
        return Lease(name, span, token)

    def take(self, name: str, span: Span, holder: str) -> Lease:
        """Take a lease, after those that overlap have ended.

        Raises:
            LeaseError: The database cannot be used.
        """
        return self.take_first([name], span, holder)

    def take_first(self, names: Sequence[str], span: Span, holder: str) -> Lease:
        """Take the lease of the first of some names of which no live one overlaps; wait while there is none.

        Raises:
            LeaseError: The database cannot be used.
        """
        wait = _FIRST_POLL_SECONDS
        while True:
            for name in names:
                taken = self.try_to_take(name, span, holder)
                if isinstance(taken, Lease):
                    return taken
            if wait == _FIRST_POLL_SECONDS:
                logger.info("waiting for the lease of %s", " or ".join(names))
            threading.Event().wait(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, _LONGEST_POLL_SECONDS)

    def release(self, lease: Lease) -> None:
        """End a lease, with the claims under it; one that was taken over has ended already.

        Raises:
            LeaseError: The database cannot be used; the lease ends by itself.
        """
        with self._changing:
            self._held.discard(lease.token)
            if not self._held:
                self._ended.set()
        with self._database.writing() as session:
            _drop(session, lease.token)

    def require_token(self, lease: Lease) -> int:
        """Renew a lease, and return its token.

        Raises:
            StaleLeaseError: It was taken over since.
            LeaseError: The database cannot be used.
        """
        if lease.token not in self._renew([lease.token]):
            raise StaleLeaseError(
                f"another process has taken over the work on {lease.name!r}, since this one did not renew its lease "
                f"for {self._seconds:.0f} s; nothing was published, so run the same command again",
                name=lease.name,
                token=lease.token,
            )
        return lease.token

    def find(self, name: str) -> list[Holding]:
        """Find the leases of a name, in the order of their tokens; those that were not renewed in time, too.

        Raises:
            LeaseError: The database cannot be used.
        """
        with self._database.reading() as session:
            query = "SELECT holder, expires, first, last, token FROM leases WHERE name = ? ORDER BY token"
            rows = session.execute(query, (name,)).fetchall()
            now = self._read_time(session)
        return [
            Holding(_describe(holder), _is_live(holder, expires, now), Span(first, last), token)
            for holder, expires, first, last, token in rows
        ]

    def claim(self, lease: Lease, keys: Collection[bytes]) -> set[bytes]:
        """Claim keys for the holder of a lease.

        Args:
            lease: The lease with which the claims end.
            keys: The keys.

        Returns:
            The keys that nobody else with a live lease has claimed.

        Raises:
            LeaseError: The database cannot be used.
        """
        with self._database.writing() as session:
            now = self._read_time(session)
            claimed = _claim(session, lease.token, keys, now)
            if len(claimed) < len(keys) and _end_dead(session, now):
                claimed = _claim(session, lease.token, keys, now)
        return claimed

    def disclaim(self, lease: Lease, keys: Collection[bytes]) -> None:
        """Give claimed keys back.

        Raises:
            LeaseError: The database cannot be used.
        """
        with self._database.writing() as session:
            rows = [(key, lease.token) for key in keys]
            session.executemany("DELETE FROM claims WHERE key = ? AND token = ?", rows)

    def _read_time(self, session: Session) -> float:
        shared = self._database.read_clock(session)
        return time.time() if shared is None else shared

    def _keep(self, token: int) -> None:
        """Renew a lease from now on."""
        with self._changing:
            if self._process != os.getpid():  # those of the process that this one was forked from are its own
                self._held.clear()
                self._process = os.getpid()
            if not self._held:
                self._ended = threading.Event()
                thread = threading.Thread(
                    target=self._keep_renewing, args=(self._ended,), name="leases", daemon=True
                )
                thread.start()
            self._held.add(token)

    def _keep_renewing(self, ended: threading.Event) -> None:
        while not ended.wait(max(self._seconds / _RENEWALS, _FIRST_POLL_SECONDS)):
            with self._changing:
                held = set(self._held)
            try:
                kept = self._renew(held)
            except BackstoryError as error:  # it may be there again before the leases have ended
                logger.warning("leases could not be renewed: %s", error)
                continue
            for token in held - kept:
                logger.warning("the lease with the token %d was taken over by another process", token)
            with self._changing:
                self._held -= held - kept
                if not self._held:  # the next lease starts a thread of its own
                    ended.set()

    def _renew(self, tokens: Collection[int]) -> set[int]:
        """Renew leases, and return the tokens of those that nobody has taken over."""
        kept = set()
        with self._database.writing() as session:
            now = self._read_time(session)
            for token in sorted(tokens):
                changed = session.execute(
                    "UPDATE leases SET expires = ? WHERE token = ?", (now + self._seconds, token)
                )
                if changed.rowcount:
                    kept.add(token)
        return kept


def find_leases(folder: Path) -> Leases | None:
    """Return the leases of a workspace; None where no server is mounted, so that its files are those of one machine.

    Args:
        folder: A folder of the workspace.
    """
    address = find_mount(folder)
    if address is None:
        return None
    with _opening:
        if address not in _opened:
            _opened[address] = Leases(folder)
        return _opened[address]


_opened: Final[dict[str, Leases]] = {}
_opening: Final = threading.Lock()


def _drop(session: Session, token: int) -> None:
    session.execute("DELETE FROM claims WHERE token = ?", (token,))
    session.execute("DELETE FROM leases WHERE token = ?", (token,))


def _claim(session: Session, token: int, keys: Collection[bytes], now: float) -> set[bytes]:
    """Claim the keys that nobody else with a live lease has claimed, and return those that are claimed now."""
    claiming = (
        "INSERT INTO claims VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET token = excluded.token "
        "WHERE claims.token NOT IN (SELECT token FROM leases WHERE expires > ?)"
    )
    session.executemany(claiming, [(key, token, now) for key in sorted(keys)])
    rows = session.execute("SELECT key FROM claims WHERE token = ?", (token,)).fetchall()
    return {key for (key,) in rows}.intersection(keys)


def _describe(holder: str) -> str:
    """Return what a person reads of a holder."""
    return holder.partition(_PROCESS)[0]


def _is_live(holder: str, expires: float, now: float) -> bool:
    return expires > now and not has_ended(holder.partition(_PROCESS)[2])


def _end_dead(session: Session, now: float) -> bool:
    """End the leases of processes of this machine that have ended, and return whether there were any."""
    live = session.execute("SELECT token, holder FROM leases WHERE expires > ?", (now,)).fetchall()
    dead = [token for token, holder in live if has_ended(holder.partition(_PROCESS)[2])]
    session.executemany("UPDATE leases SET expires = ? WHERE token = ?", [(now, token) for token in dead])
    return bool(dead)
