"""Documents that the windows of a partition may see, where written posts are documents for later windows.

A window sees every document that people wrote, subject to its date, and the posts of windows that ended before it
began. So a partition depends on the posts before its last window only: a later post changes nothing before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.ledger import Entry
from backstory.storage.tables.parquet import scan_table

_COLUMNS: Final = (
    "document_id",
    "revision",
    "uri",
    "title",
    "slug",
    "published_at",
    "tags",
    "kind",
    "tenant",
)
_SEARCHED: Final = "searched_documents"
"""Name in the ledger of the documents in which each partition was searched."""

_STAGES: Final = ("documents", "document_chunks", "search_index")


class Earlier(NamedTuple):
    """The documents that the windows of a partition may see.

    Attributes:
        by_people: Hash of all documents that people wrote.
        posts: Hash of the posts that were written before the last window of the partition began.
    """

    by_people: str
    posts: str

    @property
    def version(self) -> str:
        """One hash of both, which counts as the snapshot that the partition was searched in."""
        return digest(self)


def name_earlier_documents(workspace: Workspace, partitions: Sequence[str]) -> dict[str, Earlier]:
    """Hash the documents that the windows of each partition may see.

    Args:
        workspace: An open workspace with the table ``documents``.
        partitions: Keys of the partitions.

    Returns:
        The hashes for each partition.
    """
    by_people, posts, dates = _name_documents(
        workspace.tables,
        _digest_contents(workspace, "documents"),
        tuple(hash_dependencies(workspace, stage) for stage in _STAGES),
    )
    began = _find_beginnings(workspace.tables, _digest_contents(workspace, "windows"))
    places = {key: bisect_right(dates, began[key]) if key in began else 0 for key in partitions}
    return {key: Earlier(by_people, posts[place]) for key, place in places.items()}


def record_searched(workspace: Workspace, searched: Mapping[str, Earlier]) -> None:
    """Record in which documents partitions have been searched."""
    known = workspace.ledger.read(_SEARCHED)
    entries = {key: Entry(earlier.by_people, earlier.posts, 0) for key, earlier in searched.items()}
    if news := {key: entry for key, entry in entries.items() if known.get(key) != entry}:
        workspace.ledger.record(_SEARCHED, news)


def read_searched(workspace: Workspace) -> dict[str, Earlier]:
    """Read in which documents each partition has been searched; partitions that never were are absent."""
    return {
        key: Earlier(entry.inputs, entry.content) for key, entry in workspace.ledger.read(_SEARCHED).items()
    }


def _digest_contents(workspace: Workspace, table: str) -> str:
    """Hash the recorded content of a table, which names its rows."""
    entries = workspace.ledger.read(table)
    return digest(part for key, entry in sorted(entries.items()) for part in (key, entry.content))


@lru_cache(maxsize=2)
def _name_documents(
    tables: Path, _content: str, stages: tuple[str, ...]
) -> tuple[str, Sequence[str], Sequence[datetime]]:
    """Hash the documents of people; and no post, the first post, the first two posts and so on.

    A run asks for each table and partition: the answer is kept as long as the table has the same content.

    Returns:
        The hash of the documents of people, the hashes of the posts, and the times of the posts.
    """
    documents = (
        scan_table(tables, "documents")
        .filter(pl.col("status") == "ok")
        .select(_COLUMNS)
        .collect()
        .sort("published_at", "uri", nulls_last=False)
    )
    is_dated_post = pl.col("uri").str.starts_with(WRITTEN_PREFIX) & pl.col("published_at").is_not_null()
    posts = documents.filter(is_dated_post)
    states = [""]
    for name in _name_rows(posts):
        states.append(digest([states[-1], name]))
    by_people = digest([*stages, *_name_rows(documents.filter(~is_dated_post))])
    return by_people, states, posts["published_at"].to_list()


@lru_cache(maxsize=2)
def _find_beginnings(tables: Path, _content: str) -> Mapping[str, datetime]:
    """Find when the last window of each partition began."""
    windows = scan_table(tables, "windows").group_by("partition").agg(pl.col("started_at").max()).collect()
    return dict(windows.iter_rows())


def _name_rows(documents: pl.DataFrame) -> list[str]:
    return [digest(map(str, row)) for row in documents.iter_rows()]
