"""The posts that Backstory wrote, as documents: their names, and their files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl

from backstory.documents.files import DocumentFile, FolderListing, LeftOut, list_files

WRITTEN_PREFIX: Final = "../"
"""Start of the uri of a written post: ``../`` and its path relative to the workspace. No other uri starts so."""

DRAFT_SUFFIX: Final = ".draft.md"
"""End of the name of a draft that lies beside a post which a person has edited."""

JUST_AFTER: Final = timedelta(microseconds=1)
"""How long after the end of its window a post is out. A window of one moment must not find its own post."""

_PATTERN: Final = "*.md"
_DRAFT_BESIDE: Final = "a draft beside a post that a person has edited; merge the two and remove it"


def is_written(uri: str) -> bool:
    """Return whether a document is a post that Backstory wrote."""
    return uri.startswith(WRITTEN_PREFIX)


def drop_former_posts(documents: pl.DataFrame) -> pl.DataFrame:
    """Drop earlier revisions and tombstones of written posts: what Backstory wrote before is no history to keep.

    Args:
        documents: Rows of the table ``documents``.
    """
    is_former = pl.col("uri").str.starts_with(WRITTEN_PREFIX) & pl.col("status").is_in(
        ["superseded", "deleted"]
    )
    return documents.filter(~is_former)


def locate(uri: str, folder: str) -> str:
    """Give the path of a document relative to the workspace.

    Args:
        uri: Its uri.
        folder: Folder of the documents, relative to the workspace.
    """
    return uri.removeprefix(WRITTEN_PREFIX) if is_written(uri) else str(PurePosixPath(folder) / uri)


def list_written(folder: Path, name: str) -> FolderListing:
    """List the written posts of a workspace.

    Args:
        folder: Their folder.
        name: The folder relative to the workspace.
    """
    listing = list_files(folder, _PATTERN)
    prefix = f"{WRITTEN_PREFIX}{name}/"
    drafts = {file.uri for file in listing.files if file.uri.endswith(DRAFT_SUFFIX)}
    left_out = [
        *(replace(entry, uri=f"{prefix}{entry.uri}") for entry in listing.left_out),
        *(LeftOut(f"{prefix}{uri}", "ignored", _DRAFT_BESIDE) for uri in sorted(drafts)),
    ]
    return FolderListing(
        present=listing.present,
        files=tuple(_with_prefix(listing, prefix, drafts)),
        left_out=tuple(left_out),
        unlisted=tuple(f"{prefix}{uri}" for uri in listing.unlisted),
    )


def _with_prefix(listing: FolderListing, prefix: str, drafts: set[str]) -> Iterator[DocumentFile]:
    for file in listing.files:
        if file.uri not in drafts:
            yield replace(file, uri=f"{prefix}{file.uri}")


def join_listings(first: FolderListing, second: FolderListing) -> FolderListing:
    """Join the files of two folders."""
    return FolderListing(
        present=first.present,
        files=(*first.files, *second.files),
        left_out=(*first.left_out, *second.left_out),
        unlisted=(*first.unlisted, *second.unlisted),
    )
