"""Which documents the windows of a partition may see, where written posts are documents for later windows.

A window sees every document that people wrote, subject to its date, and the posts of windows that ended before it
began. So a partition depends on the posts before its last window only: a later post changes nothing before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import polars as pl

from backstory.documents.written import WRITTEN_PREFIX
from backstory.ids import digest
from backstory.pipeline.inputs import hash_dependencies
from backstory.tables import scan_table
from backstory.workspace import Workspace

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
_STAGES: Final = ("documents", "document_chunks", "search_index")


def name_earlier_documents(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    """Hash the documents that the windows of each partition may see.

    Args:
        workspace: An open workspace with the table ``documents``.
        partitions: Keys of the partitions.

    Returns:
        A hash for each partition. It covers all documents that people wrote, and the posts that were written before its
        last window began.
    """
    documents = (
        scan_table(workspace.tables, "documents")
        .filter(pl.col("status") == "ok")
        .select(_COLUMNS)
        .collect()
        .sort("published_at", "uri", nulls_last=False)
    )
    written = pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    stages = [hash_dependencies(workspace, stage) for stage in _STAGES]
    state = digest([*stages, *_name_rows(documents.filter(~written))])
    posts = documents.filter(written)
    states = [state]
    for name in _name_rows(posts):
        states.append(digest([states[-1], name]))
    dates = posts["published_at"].to_list()
    windows = (
        scan_table(workspace.tables, "windows")
        .group_by("partition")
        .agg(pl.col("started_at").max())
        .collect()
    )
    began = dict(windows.iter_rows())
    return {key: states[bisect_right(dates, began[key]) if key in began else 0] for key in partitions}


def _name_rows(documents: pl.DataFrame) -> list[str]:
    return [digest(map(str, row)) for row in documents.iter_rows()]
