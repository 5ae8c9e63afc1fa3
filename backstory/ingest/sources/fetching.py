"""Brings the mirrors of all sources that lie elsewhere up to date."""

from __future__ import annotations

import json
import logging
from typing import Final

from backstory.base.environment import BUCKET_VARIABLE, Keys
from backstory.base.sandbox import ReadingLimits
from backstory.base.telemetry import log_event
from backstory.ingest.documents.file_rules import make_rules
from backstory.ingest.sources.addresses import AddressRemote, PagesRemote
from backstory.ingest.sources.drive import DriveRemote
from backstory.ingest.sources.drive_calls import DriveCalls
from backstory.ingest.sources.mirror import Remote, last_update, update_mirror
from backstory.ingest.sources.roots import Source, list_sources
from backstory.settings.paths import WorkspacePaths

logger = logging.getLogger(__name__)


def require_packages(workspace: WorkspacePaths) -> None:
    """Raise if a source that lies elsewhere needs packages that are not installed; it contacts no source.

    It raises ``MissingExtraError`` if a package is absent; the message names the extra. It raises ``SettingsError`` if
    the sources are invalid.
    """
    for source in list_sources(workspace):
        if source.settings.is_remote and workspace.writes:
            _make_remote(source, workspace.keys)


def fetch_sources(workspace: WorkspacePaths) -> None:
    """Fetch what has changed in the sources that lie elsewhere. The next listing reports what cannot be fetched.

    It raises ``MissingExtraError`` if a source needs packages that are not installed. It raises ``SettingsError`` if
    the sources are invalid.
    """
    documents = workspace.settings.documents
    limits = ReadingLimits(documents.read_seconds, documents.read_megabytes)
    for source in list_sources(workspace):
        if not source.settings.is_remote or not workspace.writes:
            continue
        rules = make_rules(documents, source.settings)
        remote = _make_remote(source, workspace.keys)
        state = update_mirror(source.root, source.settings.origin, remote, rules, limits.most_bytes)
        log_event(
            logger,
            "fetched",
            source=source.name,
            files=len(state.stamps),
            failed=len(state.failed),
            reached=not state.problem,
        )


def _make_remote(source: Source, keys: Keys | None) -> Remote:
    settings = source.settings
    if settings.drive is not None:
        return DriveRemote(settings.drive.files, settings.drive.folder, DriveCalls(keys=keys))
    if settings.url is not None:
        stored = None if keys is None else keys.get(BUCKET_VARIABLE)
        own = {} if stored is None else json.loads(stored.get_secret_value())
        # Without keys of its own, fsspec finds others.
        return AddressRemote(settings.url, None if keys is None else own)
    return PagesRemote(settings.urls, settings.url_list)


SYNC_SECONDS: Final = 3600
"""Time from one fetch to the next."""


def find_next_sync(workspace: WorkspacePaths) -> float | None:
    """Find when a source that lies elsewhere is to be fetched again: an hour after it was last tried, by whatever run.

    It returns seconds since 1970, of the source that comes first; None if no source lies elsewhere. It raises
    ``SettingsError`` if the sources are invalid. It raises ``WorkspaceError`` if the list of added sources is damaged.
    """
    tried = [last_update(source.root) for source in list_sources(workspace) if source.settings.is_remote]
    return min(tried) + SYNC_SECONDS if tried else None
