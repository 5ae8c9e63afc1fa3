"""What the accounts hold of a tenant: roles, sealed keys and a quota."""

from __future__ import annotations

from typing import Final

from backstory.storage.state import Session

_OF_TENANTS: Final = ("roles", "sealed_keys", "quotas")


def forget_tenant(session: Session, tenant: str) -> None:
    """Remove the roles, the keys and the quota of a tenant, so that a later one of the same name begins with none."""
    for table in _OF_TENANTS:
        session.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))  # noqa: S608 - listed above


def count_rows(session: Session, tenant: str) -> int:
    """Count the roles, the keys and the quota of a tenant."""
    counts = (
        session.execute(f"SELECT count(*) FROM {table} WHERE tenant = ?", (tenant,)).fetchone()[0]  # noqa: S608 - listed
        for table in _OF_TENANTS
    )
    return sum(counts)


def read_sealed(session: Session, tenant: str) -> list[bytes]:
    """Read the sealed keys of a tenant, as they are stored."""
    rows = session.execute("SELECT sealed FROM sealed_keys WHERE tenant = ?", (tenant,)).fetchall()
    return [sealed for (sealed,) in rows]
