"""All documents of a workspace, of its folder and its further sources: fetched from elsewhere, and listed."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from backstory.base.environment import BUCKET_VARIABLE
from backstory.base.errors import ReadError
from backstory.base.ids import digest
from backstory.base.telemetry import log_event
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.documents.files import DocumentFolder, make_rules
from backstory.ingest.documents.reader import find_limits
from backstory.ingest.documents.written import SOURCE_MARK
from backstory.ingest.sources.addresses import AddressRemote, PagesRemote
from backstory.ingest.sources.drive import DriveRemote
from backstory.ingest.sources.mirror import Remote, last_update, list_mirror, update_mirror
from backstory.ingest.sources.roots import Source, list_sources
from backstory.ingest.walk import Listing, Skipped
from backstory.settings.inputs import DocumentSettings
from backstory.settings.paths import WorkspacePaths

SYNC_SECONDS: Final = 3600
"""Time from one fetch to the next."""
logger = logging.getLogger(__name__)


def list_documents(workspace: WorkspacePaths, apart: Collection[Path]) -> Listing:
    """List the files of the folder of documents and of all further sources.

    A source whose root lies in another one, or in the folder of documents, is read by itself alone.
    """
    sources = list_sources(workspace)
    settings, folder = workspace.settings.documents, workspace.documents_dir
    elsewhere = [*apart, *(source.root for source in sources)]
    others = [_list_source(source, settings, [*elsewhere, folder]) for source in sources]
    return DocumentFolder(folder, make_rules(settings)).list_all(elsewhere).join(*others)


def hash_listing(listing: Listing, hashes: FileHashes) -> str:
    """Hash every listed file by its content, a member by that of its archive, and all others by what is said of them.

    An unreadable file counts by the reason.
    """
    entries = [f"{entry.uri} {entry.status} {entry.reason}" for entry in listing.skipped]
    contents: dict[Path, str] = {}
    for file in listing.files:
        if file.path not in contents:
            try:
                contents[file.path] = hashes.hash(file)
            except ReadError as error:
                contents[file.path] = str(error)  # reading the documents reports this file
        entries.append(f"{file.uri} {contents[file.path]}")
    return digest(sorted(entries))


def _list_source(source: Source, documents: DocumentSettings, apart: Collection[Path]) -> Listing:
    """List the files of one source; one that cannot be reached is a failed entry, and its files are unknown."""
    settings = source.settings
    rules = make_rules(documents, settings)
    try:
        if settings.is_remote:
            found = list_mirror(source.root, source.name, rules)
        elif source.root.is_dir():
            found = DocumentFolder(source.root, rules).list_all(apart)
        else:
            source.root.stat()
            found = DocumentFolder(source.root.parent, rules).list_named([source.root.name])
    except OSError as error:
        reason = (
            f"{settings.path or source.root} cannot be reached ({error.strerror}); its earlier documents are kept. "
            "Make it available, or remove the source"
        )
        found = Listing(False, (), (Skipped("", "failed", reason, hides_files=True),))
    return found.put_below(f"{source.name}{SOURCE_MARK}", settings.kind, settings.tenant)


def require_packages(workspace: WorkspacePaths) -> None:
    """Raise ``MissingExtraError`` if a source needs packages that are not installed; it contacts no source."""
    list(_open_remotes(workspace))


def fetch_sources(workspace: WorkspacePaths) -> None:
    """Fetch what has changed in the sources that lie elsewhere. The next listing reports what cannot be fetched."""
    documents = workspace.settings.documents
    limits = find_limits(documents)
    for source, remote in _open_remotes(workspace):
        rules = make_rules(documents, source.settings)
        state = update_mirror(source.root, source.settings.origin, remote, rules, limits.most_bytes)
        log_event(
            logger,
            "fetched",
            source=source.name,
            files=len(state.copies),
            failed=len(state.failed),
            reached=not state.problem,
        )


def _open_remotes(workspace: WorkspacePaths) -> Iterator[tuple[Source, Remote]]:
    """Make what reads each source that lies elsewhere; none where nothing may be written."""
    keys = workspace.keys
    for source in list_sources(workspace) if workspace.writes else ():
        settings = source.settings
        if settings.drive is not None:
            yield source, DriveRemote(settings.drive.files, settings.drive.folder, keys)
        elif settings.url is not None:
            stored = None if keys is None else keys.get(BUCKET_VARIABLE)
            own = {} if stored is None else json.loads(stored.get_secret_value())
            # Without keys of its own, fsspec finds others.
            yield source, AddressRemote(settings.url, None if keys is None else own)
        elif settings.is_remote:
            yield source, PagesRemote(settings.urls, settings.url_list)


def find_next_sync(workspace: WorkspacePaths) -> float | None:
    """Find when a source that lies elsewhere is to be fetched again: an hour after it was last tried, by whatever run.

    It returns seconds since 1970, of the source that comes first; None if no source lies elsewhere.
    """
    tried = [last_update(source.root) for source in list_sources(workspace) if source.settings.is_remote]
    return min(tried) + SYNC_SECONDS if tried else None
