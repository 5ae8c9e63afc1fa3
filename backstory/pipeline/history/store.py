"""The file of the history: a database, because several processes record runs and share the budget of a day."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from backstory.base.database import Database, Description
from backstory.base.errors import RunHistoryError
from backstory.base.mounts import open_database

STORE_FILE: Final = "runs.sqlite"
"""Name of the file in the folder ``.backstory`` of a workspace."""

_SCHEMA = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    by TEXT NOT NULL,
    dagster_run_id TEXT,
    process INTEGER NOT NULL,
    started_at REAL NOT NULL,
    heartbeat_at REAL NOT NULL,
    ended_at REAL,
    status TEXT NOT NULL,
    first_partition TEXT,
    last_partition TEXT,
    partitions INTEGER NOT NULL,
    stage TEXT,
    partition TEXT,
    done INTEGER NOT NULL,
    total INTEGER NOT NULL,
    step TEXT,
    failures INTEGER NOT NULL,
    failure TEXT,
    currency TEXT NOT NULL,
    budget_left TEXT
) WITHOUT ROWID;
CREATE TABLE usage (
    run_id TEXT NOT NULL,
    day TEXT NOT NULL,
    purpose TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    texts INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cached INTEGER NOT NULL,
    cost REAL NOT NULL,
    unpriced INTEGER NOT NULL,
    PRIMARY KEY (run_id, day, purpose, model)
) WITHOUT ROWID;
CREATE TABLE reservations (
    reservation_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    day TEXT NOT NULL,
    purpose TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    texts INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost REAL NOT NULL,
    unpriced INTEGER NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;
"""


def open_store(path: Path) -> Database:
    """Return the file of a history, which the first run makes for its owner alone."""
    return open_database(
        path,
        Description(
            schema=_SCHEMA,
            name="the history of runs",
            remedy="`backstory run` moves it aside and begins another, unless there is a budget per day",
            error=RunHistoryError,
            private=True,
        ),
    )
