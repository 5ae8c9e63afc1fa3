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
    columns={"table_name": str, "partition": str, "inputs": str, "file": str, "rows": int},
    key=("table_name", "partition"),
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

WORKSPACE_PARTS: Final = (CACHE,)
"""The parts of a workspace that are copied with it."""
