"""The posts that Backstory wrote, as documents: their names, and their files."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, is_written
from backstory.ingest.documents.files import DocumentFolder, FileRules
from backstory.ingest.walk import Listing, Skipped

DRAFT_SUFFIX: Final = ".draft.md"
"""End of the name of a draft that lies beside a post which a person has edited."""

SOURCE_MARK: Final = "://"
"""What stands in the uri of a document of a further source between the source's name and the path below its root.

No path of a file holds it, so that no two sources have the same uri.
"""

JUST_AFTER: Final = timedelta(microseconds=1)
"""How long after the end of its window a post is out. A window of one moment must not find its own post."""

_DRAFT_BESIDE: Final = "a draft beside a post that a person has edited; merge the two and remove it"


def drop_former_posts(documents: pl.DataFrame) -> pl.DataFrame:
    """Drop earlier revisions and tombstones of written posts: what Backstory wrote before is no history to keep."""
    is_former = pl.col("status").is_in(["superseded", "deleted"])
    return documents.filter(~(is_former & pl.col("uri").str.starts_with(WRITTEN_PREFIX)))


def is_of_source(uri: str) -> bool:
    """Return whether a document comes from a further source, and not from the folder of documents."""
    return SOURCE_MARK in uri


def locate(uri: str, folder: str) -> str:
    """Return the path of a document relative to the workspace; one of a further source has its name as first folder."""
    if is_of_source(uri):
        return str(PurePosixPath(uri))
    return uri.removeprefix(WRITTEN_PREFIX) if is_written(uri) else str(PurePosixPath(folder) / uri)


def name_source(folder: str, uri: str) -> str:
    """Return a file's name in the table ``sources``: its path in the workspace, or its uri in a further source."""
    if is_of_source(uri):
        return uri
    below = "/" if uri.endswith("/") else ""
    return f"{PurePosixPath(locate(uri, folder))}{below}"


def list_written(folder: Path, name: str) -> Listing:
    """List the written posts of a workspace."""
    listing = (
        DocumentFolder(folder, FileRules(pattern="*.md")).list_all().put_below(f"{WRITTEN_PREFIX}{name}/")
    )
    drafts = sorted(file.uri for file in listing.files if file.uri.endswith(DRAFT_SUFFIX))
    return replace(
        listing,
        files=tuple(file for file in listing.files if not file.uri.endswith(DRAFT_SUFFIX)),
        skipped=(*listing.skipped, *(Skipped(uri, "ignored", _DRAFT_BESIDE) for uri in drafts)),
    )


def is_unlisted(uri: str, places: Set[str]) -> bool:
    """Return whether a document lies where a listing could not look, so that what was read of it is kept."""
    if "" in places and not is_of_source(uri) and not is_written(uri):
        return True
    above = (place for place, letter in enumerate(uri) if letter == "/")
    return uri in places or any(uri[:place] in places or uri[: place + 1] in places for place in above)
