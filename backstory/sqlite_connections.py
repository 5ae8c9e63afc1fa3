"""Connections to a SQLite file: another one for each act, or one for many acts."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final


class Connections:
    """Connects to a file for each act, from any thread, and before and after a fork.

    Args:
        path: The file. It may be replaced by another one at any time.
        connect: Makes a connection that any thread may use.
    """

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._using = threading.RLock()
        self._keepers = 0
        self._kept: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        _all.add(self)

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Use one connection for all acts from now on, one after another. Several such contexts may overlap.

        SQLite would else move its log into the file, and flush both to the disk, after each act that writes.
        """
        with self._using:
            self._keepers += 1
        try:
            yield
        finally:
            with self._using:
                self._keepers -= 1
                if not self._keepers:
                    self._close_kept()

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Give a connection for one act. If the act fails, the connection is closed, with whatever was begun in it."""
        with self._using:
            if self._keepers:
                with ExitStack() as failed:
                    failed.callback(self._close_kept)
                    yield self._take_kept()
                    failed.pop_all()
                return
        with closing(self._connect()) as connection:
            yield connection

    def _take_kept(self) -> sqlite3.Connection:
        found = self._identify_file()
        if found != self._file:
            self._close_kept()
        if self._kept is None:
            self._kept, self._file = self._connect(), found
        return self._kept

    def _close_kept(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _identify_file(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def before_fork(self) -> None:
        """Close the kept connection, since SQLite must not be forked with one, and let no thread make another."""
        self._using.acquire()
        self._close_kept()

    def after_fork(self) -> None:
        """Let acts connect again."""
        self._using.release()


_all: Final[weakref.WeakSet[Connections]] = weakref.WeakSet()
_forking: Final[list[Connections]] = []


def _before_fork() -> None:
    _forking.extend(_all)
    for connections in _forking:
        connections.before_fork()


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
