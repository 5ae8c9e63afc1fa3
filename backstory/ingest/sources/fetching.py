"""Brings the mirrors of all sources that lie elsewhere up to date."""

from __future__ import annotations

import logging

from backstory.base.environment import Keys, read_bucket_credentials
from backstory.base.sandbox import ReadingLimits
from backstory.base.telemetry import log_event
from backstory.ingest.documents.file_rules import make_rules
from backstory.ingest.sources.addresses import AddressRemote, PagesRemote
from backstory.ingest.sources.drive import DriveRemote
from backstory.ingest.sources.drive_calls import DriveCalls
from backstory.ingest.sources.mirror import update_mirror
from backstory.ingest.sources.remote_files import Remote
from backstory.ingest.sources.roots import Source, list_sources
from backstory.settings.paths import WorkspacePaths

logger = logging.getLogger(__name__)


def require_packages(workspace: WorkspacePaths) -> None:
    """Raise if a source that lies elsewhere needs packages that are not installed; it contacts no source.

    It raises ``MissingExtraError`` if a package is absent; the message names the extra. It raises ``SettingsError`` if
    the sources are invalid.
    """
    for source in list_sources(workspace):
        if source.settings.is_remote and workspace.fetches:
            _make_remote(source, workspace.keys)


def fetch_sources(workspace: WorkspacePaths) -> None:
    """Fetch what has changed in the sources that lie elsewhere. The next listing reports what cannot be fetched.

    It raises ``MissingExtraError`` if a source needs packages that are not installed. It raises ``SettingsError`` if
    the sources are invalid.
    """
    documents = workspace.settings.documents
    limits = ReadingLimits(documents.read_seconds, documents.read_megabytes)
    for source in list_sources(workspace):
        if not source.settings.is_remote or not workspace.fetches:
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
    """Make the remote of a source; of a Drive, what is known from run to run lies in the mirror."""
    settings = source.settings
    if settings.drive is not None:
        drive, calls = settings.drive, DriveCalls(keys=keys)
        return DriveRemote(drive.files, drive.folder, source.root, calls)
    if settings.url is not None:
        return AddressRemote(settings.url, read_bucket_credentials(keys))
    return PagesRemote(settings.urls, settings.url_list)
