"""Marks of places: each database and store of a tenant bears its id, and only what bears it is emptied.

A mark is written once, by whoever comes first, so that two tenants never have the same place, however its address is
spelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias

from backstory.base.errors import SettingsError
from backstory.storage.schema import MARK, PARTS_OF_SERVERS
from backstory.storage.state import State
from backstory.storage.state_places import open_state
from backstory.storage.stores import open_store

Kind: TypeAlias = Literal["database", "store", "folder"]

_MARK: Final = "tenant"
"""Name of what holds the id of the tenant: a schema of a database, and an object of a store."""

_ACCOUNTS: Final = "accounts"
"""In place of the id of a tenant, where the accounts of a service are."""
_PATIENCE: Final = timedelta(seconds=10)
"""How long a store is tried again in which a tenant is looked for."""


@dataclass
class Emptied:
    """What a removal found outside of the folders.

    Attributes:
        rows: Rows of databases that were removed.
        objects: Objects of stores that were removed.
        left: What is left, each with its place.
    """

    rows: int = 0
    objects: int = 0
    left: list[str] = field(default_factory=list)


def claim_for_accounts(address: str) -> None:
    """Have a schema be that of accounts, so that no tenant has it, whose removal would take all of them.

    Args:
        address: Address of a Postgres database.

    Raises:
        SettingsError: It is that of a tenant (code ``shared_place``).
        WorkspaceError: It cannot be used.
    """
    if mark_place("database", address, _ACCOUNTS) != _ACCOUNTS:
        raise name_shared("database", address)


def find_owner(kind: Kind, address: str) -> str | None:
    """Return the id that a place bears; None if it bears none. Nothing is written.

    Raises:
        BackstoryError: The place cannot be used.
    """
    if kind == "store":
        found = open_store(address, patience=_PATIENCE).read(_MARK)
        return None if found is None else found.decode()
    with _open_mark(address).reading() as session:
        row = session.execute("SELECT tenant_id FROM owner").fetchone()
    return None if row is None else str(row[0])


def mark_place(kind: Kind, address: str, tenant_id: str) -> str:
    """Have a place bear the id of a tenant if it bears none, and return the one that it bears.

    Raises:
        BackstoryError: The place cannot be used.
    """
    owner = find_owner(kind, address)
    if owner is not None:
        return owner
    if kind == "store":
        open_store(address, patience=_PATIENCE).claim(_MARK, tenant_id.encode())
        return find_owner(kind, address) or ""
    with _open_mark(address).begin() as session:
        session.execute("INSERT INTO owner VALUES (1, ?) ON CONFLICT DO NOTHING", (tenant_id,))
        return str(session.execute("SELECT tenant_id FROM owner").fetchone()[0])


def _open_mark(address: str) -> State:
    return open_state(Path(), address, MARK)


def empty_place(kind: Kind, address: str, tenant_id: str, emptied: Emptied) -> list[str]:
    """Remove everything from a place that is that of a tenant, and list what is left of it.

    Args:
        kind: What the place is: a database or a store.
        address: Its address.
        tenant_id: The id that it bears if it is the tenant's; else nothing is removed.
        emptied: Takes the numbers of what was removed.

    Raises:
        BackstoryError: The place cannot be used.
    """
    if find_owner(kind, address) != tenant_id:
        return []
    if kind == "store":
        store = open_store(address, patience=_PATIENCE)
        names = [name for name in store.list_names("") if name != _MARK]
        store.delete(names)
        left = [name for name in store.list_names("") if name != _MARK]
        if not left:
            store.delete([_MARK])
        emptied.objects += len(names) + 1 - len(left) - bool(left)
        return [f"{address}/{name}" for name in left]
    from backstory.storage.state_postgres import PostgresState

    emptied.rows += sum(PostgresState(address, part).drop() for part in PARTS_OF_SERVERS)
    return []


def name_shared(kind: Kind, address: str) -> SettingsError:
    """Make the error of a place that is not the tenant's."""
    what = (
        "a schema of its own (?options=-csearch_path%3DNAME)" if kind == "database" else "a prefix of its own"
    )
    return SettingsError(
        f"{address} is where another tenant, a former one of this name, or a service keeps what it has, or lies in "
        f"that or around it; name {what}",
        code="shared_place",
    )
