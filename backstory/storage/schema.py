"""The tables of all state, each declared once, for SQLite and Postgres alike.

They lie in four parts, each a file of SQLite or a schema of Postgres: the catalog beside the tables of the user, which
whoever may read these may read; caches, which may be thrown away; and what only the owner of a workspace or of a
service may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Final, get_args

FORMAT: Final = 1
"""Number of the format of all parts. State of another format is refused."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        name: Its name.
        columns: Type of each column: str, int, float or bytes; joined with None where a value may be absent.
        key: The columns that identify a row.
        unique: Further columns of which no two rows have the same value.
        indexes: Columns of each index.
    """

    name: str
    columns: Mapping[str, type | UnionType]
    key: tuple[str, ...]
    unique: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()

    def define(self, types: Mapping[type, str]) -> list[str]:
        """Give the statements that make the table.

        Args:
            types: Name of each type in the database.
        """
        columns = [f"{name} {_name_type(kind, types)}" for name, kind in self.columns.items()]
        keys = [f"PRIMARY KEY ({', '.join(self.key)})", *(f"UNIQUE ({name})" for name in self.unique)]
        return [
            f"CREATE TABLE {self.name} ({', '.join(columns + keys)})",
            *(
                f"CREATE INDEX {self.name}_by_{'_'.join(names)} ON {self.name} ({', '.join(names)})"
                for names in self.indexes
            ),
        ]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Tables that lie together, and change together in a transaction.

    Attributes:
        name: Name of the file of SQLite without its ending, and the end of the name of a schema.
        title: What messages call it.
        remedy: What is done about damage, as a clause.
        is_private: Whether its owner alone may read the file.
        tables: The tables.
    """

    name: str
    title: str
    remedy: str
    is_private: bool
    tables: tuple[Table, ...]


def _name_type(kind: type | UnionType, types: Mapping[type, str]) -> str:
    if isinstance(kind, UnionType):
        return types[get_args(kind)[0]]
    return f"{types[kind]} NOT NULL"


PARTITIONS: Final = Table(
    name="partitions",
    columns={"table_name": str, "partition": str, "inputs": str, "content": str, "rows": int, "version": int},
    key=("table_name", "partition"),
    indexes=(("version",),),
)
CATALOG: Final = Part(
    name="catalog",
    title="the catalog of the tables",
    remedy="delete it, and `backstory run` makes every table again",
    is_private=False,
    tables=(PARTITIONS,),
)

KV: Final = Table(
    name="kv",
    columns={"kind": str, "key": bytes, "owner": bytes, "value": bytes},
    key=("kind", "key"),
    indexes=(("kind", "owner"),),
)
CACHE: Final = Part(
    name="cache",
    title="the cache",
    remedy="delete it, and what it held is computed or requested again",
    is_private=False,
    tables=(KV,),
)

RUNS: Final = Table(
    name="runs",
    columns={
        "run_id": str,
        "by": str,
        "dagster_run_id": str | None,
        "process": int,
        "started_at": float,
        "heartbeat_at": float,
        "ended_at": float | None,
        "status": str,
        "first_partition": str | None,
        "last_partition": str | None,
        "partitions": int,
        "stage": str | None,
        "partition": str | None,
        "done": int,
        "total": int,
        "step": str | None,
        "failures": int,
        "failure": str | None,
        "currency": str,
        "budget_left": str | None,
    },
    key=("run_id",),
)
USAGE: Final = Table(
    name="usage",
    columns={
        "run_id": str,
        "day": str,
        "purpose": str,
        "model": str,
        "calls": int,
        "texts": int,
        "tokens_in": int,
        "tokens_out": int,
        "cached": int,
        "cost": float,
        "unpriced": int,
    },
    key=("run_id", "day", "purpose", "model"),
)
RESERVATIONS: Final = Table(
    name="reservations",
    columns={
        "reservation_id": str,
        "run_id": str,
        "day": str,
        "purpose": str,
        "model": str,
        "calls": int,
        "texts": int,
        "tokens_in": int,
        "tokens_out": int,
        "cost": float,
        "unpriced": int,
        "expires_at": float,
    },
    key=("reservation_id",),
)
CONVERSATIONS: Final = Table(
    name="conversations",
    columns={"id": str, "user_id": str, "title": str, "created": float, "updated": float},
    key=("id",),
    indexes=(("user_id", "updated"),),
)
TURNS: Final = Table(
    name="turns",
    columns={
        "conversation": str,
        "number": int,
        "asked": float,
        "question": str,
        "answer": str | None,
        "documents": str,
    },
    key=("conversation", "number"),
)
FEEDBACK: Final = Table(
    name="feedback",
    columns={"conversation": str, "number": int, "thumb": str, "text": str, "given": float},
    key=("conversation", "number"),
)
CLEARED: Final = Table(
    name="cleared", columns={"index_version": str, "mark": bytes}, key=("index_version", "mark")
)
JOBS: Final = Table(
    name="jobs",
    columns={
        "number": int,
        "job_id": str,
        "active": int | None,
        "state": str,
        "requested_by": str,
        "requested_at": str,
        "started_at": str | None,
        "ended_at": str | None,
        "attempts": int,
        "accepts_removals": int,
        "again": int,
        "percent": float,
        "step": str | None,
        "done": int,
        "total": int,
        "file": str | None,
        "counts": str,
        "failure_code": str | None,
        "failure": str | None,
    },
    key=("number",),
    unique=("job_id", "active"),
)
STATE: Final = Part(
    name="state",
    title="the state of the workspace",
    remedy=(
        "restore it from a backup, or delete it: the history of runs, the budget of the day, conversations and jobs "
        "begin anew"
    ),
    is_private=True,
    tables=(RUNS, USAGE, RESERVATIONS, CONVERSATIONS, TURNS, FEEDBACK, CLEARED, JOBS),
)

WORKSPACE_PARTS: Final = (CATALOG, CACHE, STATE)
"""The parts of a workspace that are copied with it."""

ACCOUNTS: Final = Part(
    name="service",
    title="the list of accounts",
    remedy="restore it from a copy, or move it away and add tenants, users and tokens again",
    is_private=True,
    tables=(
        Table(
            name="users",
            columns={"user_id": str, "name": str, "created_at": str},
            key=("user_id",),
            unique=("name",),
        ),
        Table(
            name="tokens",
            columns={
                "token_id": str,
                "user_id": str,
                "hash": bytes,
                "created_at": str,
                "expires_at": str | None,
            },
            key=("token_id",),
            unique=("hash",),
        ),
        Table(name="sessions", columns={"hash": bytes, "token_id": str, "expires_at": str}, key=("hash",)),
        Table(name="roles", columns={"user_id": str, "tenant": str, "role": str}, key=("user_id", "tenant")),
        Table(
            name="sealed_keys",
            columns={"tenant": str, "name": str, "sealed": bytes},
            key=("tenant", "name"),
        ),
        Table(name="quotas", columns={"tenant": str, "bytes": int}, key=("tenant",)),
        Table(
            name="tenants",
            columns={"tenant": str, "tenant_id": str, "is_removed": int},
            key=("tenant",),
            unique=("tenant_id",),
        ),
        Table(
            name="places",
            columns={"tenant_id": str, "kind": str, "address": str},
            key=("tenant_id", "kind", "address"),
        ),
    ),
)

MARK: Final = Part(
    name="tenant",
    title="the mark of a tenant",
    remedy="stop the service, and remove the schema; the next start makes it again",
    is_private=True,
    tables=(Table(name="owner", columns={"number": int, "tenant_id": str}, key=("number",)),),
)
"""What says whose a server is."""

PARTS_OF_SERVERS: Final = (CATALOG, *WORKSPACE_PARTS, MARK)
"""The parts that a workspace has on a server, the mark last, so that a removal that was killed finds the others."""
