"""What each tenant may take on the disk: its documents, tables, index, caches and conversations, all together."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from backstory.ingest.documents.formats.texts import (
    ASCIIDOC,
    MARKDOWN,
    ORG_MODE,
    PLAIN_TEXT,
    RESTRUCTURED_TEXT,
)
from backstory.ingest.sources.listing import list_documents
from backstory.interfaces.service.refusals import RefusedError
from backstory.pipeline.workspace import Workspace
from backstory.storage.state import State

LEAST_GROWTH: Final = 1.0
"""Bytes of tables, vectors and snapshot for each byte of text, at least.

Measured were 4.0 for 200 pages of random words, 23 for 20 short ones, and at least 2.5, for one sentence over and over
(vectors of 256 float32 numbers). `int8` and texts in UTF-16 have less.
"""

_REMOVAL_SLACK: Final = 16 << 20
"""Bytes that a job which carries out a removal may take for what is gone after it, such as the logs of databases."""

_TEXTS: Final = frozenset().union(
    *(each.suffixes for each in (MARKDOWN, PLAIN_TEXT, RESTRUCTURED_TEXT, ASCIIDOC, ORG_MODE))
)


class DiskQuotas:
    """The quotas of tenants, among the accounts. A tenant without one may fill the disk."""

    def __init__(self, accounts: State) -> None:
        """Name the accounts; nothing is read or written yet."""
        self._accounts = accounts

    def set(self, tenant: str, most_bytes: int) -> None:
        """Set the quota of a tenant; 0 for none."""
        with self._accounts.begin() as session:
            session.execute("DELETE FROM quotas WHERE tenant = ?", (tenant,))
            if most_bytes:
                session.execute("INSERT INTO quotas VALUES (?, ?)", (tenant, most_bytes))

    def read(self, tenant: str) -> int | None:
        """Return the quota of a tenant in bytes; None without one."""
        with self._accounts.reading() as session:
            row = session.execute("SELECT bytes FROM quotas WHERE tenant = ?", (tenant,)).fetchone()
        return None if row is None else int(row[0])


def require_room(folder: Path, quota: int | None, added: int = 0) -> None:
    """Refuse what would take more of the disk than a tenant may: the quota, and what is added, are bytes."""
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


def bound_removal(workspace: Workspace, quota: int | None) -> int | None:
    """Return what the files of a tenant may take while an index job carries out a removal, in bytes.

    The job makes tables and index without the text, beside those with it, and these may take the whole quota. So what
    is there may stand once more, but documents that came meanwhile find no more room than that.
    """
    if quota is None:
        return None
    made = count_bytes(workspace.tables_dir) + count_bytes(workspace.index)
    return max(quota, count_bytes(workspace.root)) + made + _REMOVAL_SLACK


def forecast_growth(workspace: Workspace) -> int:
    """Forecast how much more of the disk an index job takes for sure, in bytes.

    Text files alone count, by :data:`LEAST_GROWTH`: what a PDF of some size holds is known when it is read. What the
    tables and the index have already counts as made of them.
    """
    text = 0
    for file in list_documents(workspace, workspace.list_other_parts()).files:
        if file.archive is None and file.path.suffix.lower() in _TEXTS:
            with suppress(FileNotFoundError):
                text += file.path.stat().st_size
    return max(0, int(LEAST_GROWTH * text) - count_bytes(workspace.tables_dir) - count_bytes(workspace.index))


def count_bytes(folder: Path) -> int:
    """Count the bytes of all files below a folder; no link is followed."""
    taken = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # such as a temporary file that was renamed meanwhile
                taken += Path(place, name).lstat().st_size
    return taken
