"""All documents of a workspace: those of the folder of documents and of its further sources, in one listing."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from backstory.base.errors import ReadError
from backstory.base.ids import digest
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.documents.file_rules import make_rules
from backstory.ingest.documents.files import (
    DocumentFile,
    FolderListing,
    LeftOut,
    join_listings,
    list_file,
    list_files,
    put_below,
)
from backstory.ingest.documents.written import SOURCE_MARK
from backstory.ingest.sources.mirror import list_mirror
from backstory.ingest.sources.roots import Source, list_sources
from backstory.settings.inputs import DocumentSettings, SourceSettings
from backstory.settings.paths import WorkspacePaths


def list_documents(workspace: WorkspacePaths, apart: Collection[Path]) -> FolderListing:
    """List the files of the folder of documents and of all further sources.

    A source whose root lies in another one, or in the folder of documents, is read by itself alone.

    It raises ``SettingsError`` if the sources are invalid. It raises ``WorkspaceError`` if the list of added sources
    is damaged.
    """
    sources = list_sources(workspace)
    roots = [source.root for source in sources]
    settings = workspace.settings.documents
    folder = list_files(workspace.documents_dir, settings.pattern, [*apart, *roots], make_rules(settings))
    others = [list_source(source, settings, [*apart, workspace.documents_dir, *roots]) for source in sources]
    return join_listings(folder, *others)


def hash_sources(workspace: WorkspacePaths, apart: Collection[Path], hashes: FileHashes) -> str:
    """Hash every file of the further sources by its content, and every skipped entry; empty without sources.

    It raises ``SettingsError`` if the sources are invalid. It raises ``WorkspaceError`` if the list of added sources
    is damaged.
    """
    sources = list_sources(workspace)
    if not sources:
        return ""
    around = [*apart, workspace.documents_dir, *(source.root for source in sources)]
    settings = workspace.settings.documents
    return digest(
        line for source in sources for line in _hash_listing(list_source(source, settings, around), hashes)
    )


def list_source(source: Source, documents: DocumentSettings, apart: Collection[Path]) -> FolderListing:
    """List the files of one source; one that cannot be reached is a failed entry, and its files are unknown."""
    prefix = f"{source.name}{SOURCE_MARK}"
    settings = source.settings
    rules = make_rules(documents, settings)
    if settings.is_remote:
        return _take_defaults(put_below(list_mirror(source.root, source.name, rules), prefix), settings)
    try:
        is_folder = source.root.is_dir()
        if not is_folder:
            source.root.stat()
    except OSError as error:
        reason = (
            f"{source.settings.path} cannot be reached ({error.strerror}); its earlier documents are kept. "
            "Make it available, or remove the source"
        )
        return FolderListing(False, (), (LeftOut(prefix, "failed", reason),), (prefix,))
    found = list_files(source.root, "**/*", apart, rules) if is_folder else list_file(source.root, rules)
    return _take_defaults(put_below(found, prefix), settings)


def _take_defaults(listing: FolderListing, settings: SourceSettings) -> FolderListing:
    files = tuple(replace(file, kind=settings.kind, tenant=settings.tenant) for file in listing.files)
    return replace(listing, files=files)


def _hash_listing(listing: FolderListing, hashes: FileHashes) -> Iterator[str]:
    for entry in listing.left_out:
        yield f"{entry.uri} {entry.status} {entry.reason}"
    archives: dict[Path, str] = {}
    for file in listing.files:
        if file.archive is None:
            yield f"{file.uri} {_hash_file(file, hashes)}"
        else:  # which changes with any of its members
            if file.path not in archives:
                archives[file.path] = _hash_file(file, hashes)
            yield f"{file.uri} {archives[file.path]}"


def _hash_file(file: DocumentFile, hashes: FileHashes) -> str:
    try:
        return hashes.hash(os.fspath(file.path), file.open)
    except FileNotFoundError:
        return "gone"
    except ReadError as error:
        return str(error)  # reading the documents reports this file
