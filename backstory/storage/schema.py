"""The tables of all state, each declared once, for SQLite and Postgres alike.

They lie in parts, each a file of SQLite or a schema of Postgres: the catalog beside the tables of the user, which
whoever may read these may read; caches, which may be thrown away; and what only the owner of a workspace or of a
service may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Table:
    """A table, whose rows the columns ``key`` identify.

    ``columns`` has the name and type of each, as SQLite names types; a question mark allows that a value is absent.
    """

    name: str
    columns: str
    key: str
    unique: tuple[str, ...] = ()
    index: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.split()[0] for column in self.columns.split(", ")]

    def define(self, types: Mapping[str, str]) -> list[str]:
        """Give the statements that make the table, with the names that the database has for types."""
        columns = []
        for column in self.columns.split(", "):
            name, kind = column.split()
            plain = kind.rstrip("?")
            columns.append(f"{name} {types.get(plain, plain)}{' NOT NULL' if plain == kind else ''}")
        keys = [f"PRIMARY KEY ({self.key})", *(f"UNIQUE ({name})" for name in self.unique)]
        index = [f"CREATE INDEX {self.name}_index ON {self.name} ({self.index})"] if self.index else []
        return [f"CREATE TABLE {self.name} ({', '.join(columns + keys)})", *index]


@dataclass(frozen=True)
class Part:
    """Tables that lie together, and change together in a transaction.

    ``name`` is that of the file of SQLite without its ending, and the end of the name of a schema. Messages call the
    part by its title, and end with the remedy if it is damaged. State of another format is refused.
    """

    name: str
    title: str
    remedy: str
    tables: tuple[Table, ...]
    is_private: bool = True
    format: int = 2


PARTITIONS: Final = Table(
    "partitions",
    "table_name TEXT, partition TEXT, inputs TEXT, content TEXT, rows INTEGER, version INTEGER",
    key="table_name, partition",
    index="version",
)
CATALOG: Final = Part(
    "catalog",
    "the catalog of the tables",
    "delete it, and `backstory run` makes every table again",
    (PARTITIONS,),
    is_private=False,
)

KV: Final = Table("kv", "kind TEXT, key BLOB, owner BLOB, value BLOB", key="kind, key", index="kind, owner")
CACHE: Final = Part(
    "cache",
    "the cache",
    "delete it, and what it held is computed or requested again",
    (KV,),
    is_private=False,
)

RUNS: Final = Table(
    "runs",
    "run_id TEXT, by TEXT, dagster_run_id TEXT?, process INTEGER, started_at REAL, heartbeat_at REAL, ended_at REAL?, "
    "status TEXT, first_partition TEXT?, last_partition TEXT?, partitions INTEGER, stage TEXT?, partition TEXT?, "
    "done INTEGER, total INTEGER, step TEXT?, failures INTEGER, failure TEXT?, currency TEXT, budget_left TEXT?",
    key="run_id",
)
USAGE: Final = Table(
    "usage",
    "run_id TEXT, day TEXT, purpose TEXT, model TEXT, reservation TEXT, expires_at REAL, calls INTEGER, texts INTEGER, "
    "tokens_in INTEGER, tokens_out INTEGER, cached INTEGER, cost REAL, unpriced INTEGER",
    key="run_id, day, purpose, model, reservation",
)
CONVERSATIONS: Final = Table(
    "conversations",
    "id TEXT, user_id TEXT, title TEXT, created REAL, updated REAL",
    key="id",
    index="user_id, updated",
)
TURNS: Final = Table(
    "turns",
    "conversation TEXT, number INTEGER, asked REAL, question TEXT, answer TEXT?, documents TEXT, thumb TEXT?, "
    "said TEXT?, given REAL?",
    key="conversation, number",
)
CLEARED: Final = Table("cleared", "index_version TEXT, mark BLOB", key="index_version, mark")
JOBS: Final = Table(
    "jobs",
    "number INTEGER, job_id TEXT, active INTEGER?, state TEXT, requested_by TEXT, requested_at TEXT, started_at TEXT?, "
    "ended_at TEXT?, attempts INTEGER, accepts_removals INTEGER, again INTEGER, percent REAL, step TEXT?, "
    "done INTEGER, total INTEGER, file TEXT?, counts TEXT, failure_code TEXT?, failure TEXT?",
    key="number",
    unique=("job_id", "active"),
)
CORRECTIONS: Final = Table(
    "corrections", "window_id TEXT, document_id TEXT, should_be TEXT", key="window_id, document_id"
)
ALERTS: Final = Table("alerts", "hook TEXT, sent TEXT", key="hook")
STATE: Final = Part(
    "state",
    "the state of the workspace",
    "restore it from a backup, or delete it: the history of runs, the budget of the day, conversations, jobs and "
    "corrections begin anew",
    (RUNS, USAGE, CONVERSATIONS, TURNS, CLEARED, JOBS, CORRECTIONS, ALERTS),
    format=4,
)

WORKSPACE_PARTS: Final = (CATALOG, CACHE, STATE)
"""The parts of a workspace that are copied with it."""

ACCOUNTS: Final = Part(
    "service",
    "the list of accounts",
    "restore it from a copy, or move it away and add tenants, users and tokens again",
    (
        Table("users", "user_id TEXT, name TEXT, created_at TEXT", key="user_id", unique=("name",)),
        Table(
            "tokens",
            "token_id TEXT, user_id TEXT, hash BLOB, created_at TEXT, expires_at TEXT?",
            key="token_id",
            unique=("hash",),
        ),
        Table("sessions", "hash BLOB, token_id TEXT, expires_at TEXT", key="hash"),
        Table("roles", "user_id TEXT, tenant TEXT, role TEXT", key="user_id, tenant"),
        Table("sealed_keys", "tenant TEXT, name TEXT, sealed BLOB", key="tenant, name"),
        Table("quotas", "tenant TEXT, bytes INTEGER", key="tenant"),
        Table(
            "tenants",
            "tenant TEXT, tenant_id TEXT, is_removed INTEGER",
            key="tenant",
            unique=("tenant_id",),
        ),
    ),
)
