"""What each tenant may take on the disk: its documents, tables, index, caches and conversations, all together."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from backstory.base.database import Database
from backstory.interfaces.service.failures import RefusedError


class DiskQuotas:
    """The quotas of tenants, in the file of accounts. A tenant without one may fill the disk."""

    def __init__(self, accounts_database: Database) -> None:
        """Name the file; nothing is read or written yet.

        Args:
            accounts_database: The file of accounts.
        """
        self._database = accounts_database

    def set(self, tenant: str, most_bytes: int) -> None:
        """Set the quota of a tenant; 0 for none."""
        with self._database.writing() as session:
            session.execute("DELETE FROM quotas WHERE tenant = ?", (tenant,))
            if most_bytes:
                session.execute("INSERT INTO quotas VALUES (?, ?)", (tenant, most_bytes))

    def read(self, tenant: str) -> int | None:
        """Return the quota of a tenant in bytes; None without one."""
        with self._database.reading() as session:
            row = session.execute("SELECT bytes FROM quotas WHERE tenant = ?", (tenant,)).fetchone()
        return None if row is None else int(row[0])


def require_room(folder: Path, quota: int | None, added: int = 0) -> None:
    """Refuse what would take more of the disk than a tenant may.

    Args:
        folder: Folder of the tenant.
        quota: What it may take, in bytes; None for any number.
        added: Bytes that come to what is there.

    Raises:
        RefusedError: There is too little room.
    """
    if quota is None:
        return
    taken = count_bytes(folder)
    if taken + added > quota:
        raise RefusedError(
            f"the files of this tenant take {taken >> 20:,} MB of the {quota >> 20:,} MB that they may, so there is no "
            f"room for {'these files' if added else 'more'}; delete documents and index again, or ask whoever runs "
            "this service for more",
            status=507,
            code="disk_quota",
        )


def count_bytes(folder: Path) -> int:
    """Count the bytes of all files below a folder; no link is followed."""
    taken = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # such as a temporary file that was renamed meanwhile
                taken += Path(place, name).lstat().st_size
    return taken
