"""Determines which tenants to index without anybody asking for it, every hour: sources elsewhere, and chats."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import BackstoryError
from backstory.base.telemetry import log_event
from backstory.ingest.sources.listing import SYNC_SECONDS, find_next_sync
from backstory.settings.paths import WorkspacePaths
from backstory.settings.yaml_file import read_settings

logger = logging.getLogger(__name__)

SCHEDULE: Final = "schedule"
"""In place of the user who requests a job."""


class SyncSchedule:
    """Determines the tenants to index now. It looks at each again only when something may be due."""

    def __init__(self, folder: Callable[[str], Path], last_begin: Callable[[str], float]) -> None:
        """Begin without a record, so that every tenant is looked at first."""
        self._folder = folder
        self._last_begin = last_begin
        self._next: dict[str, float] = {}

    def list_due(self, tenants: Sequence[str], now: float) -> list[str]:
        """List the tenants with a source that was not tried for an hour, or with chats that changed since the last job.

        Each counts as requested for an hour.
        """
        self._next = {name: self._next.get(name, 0.0) for name in tenants}
        return [name for name in tenants if self._next[name] <= now and self._is_due(name, now)]

    def _is_due(self, tenant: str, now: float) -> bool:
        # Also where nothing is due: a source may be added later. And a job that fails early must not come each minute.
        self._next[tenant] = now + SYNC_SECONDS
        try:
            folder = self._folder(tenant)
            paths = WorkspacePaths(folder, read_settings(folder / SETTINGS_FILE))
            # The first job is for a person to request, who knows when all is there.
            begun = self._last_begin(tenant)
            if begun and _has_changed(paths.chats_dir, begun):
                return True
            moment = find_next_sync(paths)
        except BackstoryError as error:
            log_event(
                logger,
                "the sources of a tenant could not be looked up",
                level=logging.WARNING,
                code=error.code,
            )
            return False
        if moment is not None and moment > now:
            self._next[tenant] = min(moment, now + SYNC_SECONDS)
            return False
        return moment is not None


def _has_changed(folder: Path, since: float) -> bool:
    """Return whether anything in a folder was written, renamed, copied there or removed, by the clock of the disk."""
    found = (Path(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files))
    return any(_read_change(path) > since for path in chain([folder], found))


def _read_change(path: Path) -> float:
    try:
        return path.lstat().st_ctime
    except FileNotFoundError:  # such as a temporary file that was renamed meanwhile
        return 0.0
