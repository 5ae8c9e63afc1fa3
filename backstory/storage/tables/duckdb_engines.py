"""Lends engines of DuckDB that have no file open: to start one takes longer than to read a small file."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Final

import duckdb

_MOST_IDLE: Final = 2
"""Engines that are kept while nobody uses them."""

_idle: Final[defaultdict[int, list[duckdb.DuckDBPyConnection]]] = defaultdict(list)
"""The idle engines by the process that started them: a fork must not use those of its parent."""


class AttachedFile:
    """A database file, open in an engine of its own, which has one thread and loads no extension by itself.

    One thread reads a few rows a third faster than several, which wait for each other. For one thread at a time.

    Args:
        path: The file; made if absent, unless it is only read.
        read_only: Whether nothing is written.
        engine: The engine, which is closed with the file; one of those described above if None.

    Raises:
        duckdb.Error: The file is damaged or absent, or cannot be opened.
    """

    def __init__(
        self, path: Path, *, read_only: bool, engine: duckdb.DuckDBPyConnection | None = None
    ) -> None:
        self._is_kept = engine is None
        if engine is None:
            try:
                engine = _idle[os.getpid()].pop()
            except IndexError:
                engine = start_engine(threads=1)
        try:
            engine.execute(f"ATTACH {quote(str(path))} AS attached {'(READ_ONLY)' if read_only else ''}")
            engine.execute("USE attached")
        except duckdb.Error:
            engine.close()
            raise
        self._engine: duckdb.DuckDBPyConnection | None = engine

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """A connection that finds the tables of the file by their names; leave no name registered in it.

        Raises:
            duckdb.ConnectionException: The file is closed.
        """
        if self._engine is None:
            raise duckdb.ConnectionException("the file is closed")
        return self._engine

    def close(self) -> None:
        """Close the file, and keep the engine for another one."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        idle = _idle[os.getpid()]
        if self._is_kept and len(idle) < _MOST_IDLE:
            try:
                engine.execute("USE memory")
                engine.execute("DETACH attached")
            except duckdb.Error:  # what made the file unusable has raised an error of its own
                engine.close()
            else:
                idle.append(engine)
        else:
            engine.close()


def start_engine(*, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """Start an engine without a file, which loads no extension by itself.

    Args:
        threads: Most threads; one for each core if None.
    """
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": "",
            **({} if threads is None else {"threads": str(threads)}),
        },
    )


def quote(text: str) -> str:
    """Write a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
