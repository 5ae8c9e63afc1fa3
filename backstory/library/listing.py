"""The files that are the documents of a workspace, and where each of them lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from backstory.documents.files import FolderListing, join_listings
from backstory.documents.written import SOURCE_MARK, list_written, locate
from backstory.library.names import NamedDocument
from backstory.sources import list_sources
from backstory.sources.listing import list_documents
from backstory.workspace import Workspace


def list_all_files(workspace: Workspace) -> FolderListing:
    """List the files as the pipeline does, with those of the written posts if they are documents, too."""
    listing = list_documents(workspace, workspace.list_other_parts())
    if not workspace.feeds_back:
        return listing
    return join_listings(listing, list_written(workspace.written, workspace.settings.writers.folder))


def make_locator(workspace: Workspace) -> Callable[[str], Path]:
    """Make a function that gives the absolute path of a document's file, whether the file is there or not.

    Args:
        workspace: The workspace, whose sources are read once.
    """
    roots = {source.name: source.root for source in list_sources(workspace)}

    def locate_file(uri: str) -> Path:
        name, mark, below = uri.partition(SOURCE_MARK)
        root = roots.get(name) if mark else None
        if root is None:
            return workspace.root / locate(uri, workspace.settings.documents.folder)
        return root.with_name(below) if root.is_file() else root / below

    return locate_file


def name_documents(workspace: Workspace, documents: pl.DataFrame) -> list[NamedDocument]:
    """Give documents by all their names.

    Args:
        workspace: The workspace.
        documents: Their ``document_id``, ``uri``, ``title`` and ``slug``.
    """
    locate_file = make_locator(workspace)
    return [
        NamedDocument(document_id, uri, title, slug, locate_file(uri))
        for document_id, uri, title, slug in documents.select(
            "document_id", "uri", "title", "slug"
        ).iter_rows()
    ]
