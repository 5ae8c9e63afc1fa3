"""When the sources of a workspace that lie elsewhere are to be fetched again without anybody asking for it."""

from __future__ import annotations

from typing import Final

from backstory.ingest.sources.mirror import last_update
from backstory.ingest.sources.roots import list_sources
from backstory.settings.paths import WorkspacePaths

SYNC_SECONDS: Final = 3600
"""Time from one fetch to the next."""


def find_next_sync(workspace: WorkspacePaths) -> float | None:
    """Find when a source that lies elsewhere is to be fetched again: an hour after it was last tried, by whatever run.

    It returns seconds since 1970, of the source that comes first; None if no source lies elsewhere. It raises
    ``SettingsError`` if the sources are invalid. It raises ``WorkspaceError`` if the list of added sources is damaged.
    """
    if not workspace.fetches:
        return None
    tried = [last_update(source.root) for source in list_sources(workspace) if source.settings.is_remote]
    return min(tried) + SYNC_SECONDS if tried else None
