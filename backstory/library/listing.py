"""The files that are the documents of a workspace."""

from __future__ import annotations

from backstory.documents.files import FolderListing, list_files
from backstory.documents.written import join_listings, list_written
from backstory.pipeline.corpus import list_other_parts
from backstory.workspace import Workspace


def list_listing(workspace: Workspace) -> FolderListing:
    """List the files as the pipeline does, with those of the written posts if they are documents, too."""
    listing = list_files(workspace.posts, workspace.settings.documents.pattern, list_other_parts(workspace))
    if not workspace.feeds_back:
        return listing
    return join_listings(listing, list_written(workspace.written, workspace.settings.writers.folder))
