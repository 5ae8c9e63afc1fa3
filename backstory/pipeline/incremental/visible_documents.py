"""Documents that the windows of a partition may see, where written posts are documents for later windows.

A window sees every document that people wrote, subject to its date, and the posts of windows that ended before it
began: those of its own conversation, or with ``writers.feedback_scope: workspace`` those of all. So a partition depends
on the posts before its last window only: a later post changes nothing before it.

A file in the folder of the posts that is no post is a document of a person, for every conversation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.hits import PostsOf
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import Tables

IS_POST: Final = pl.col("uri").str.starts_with(WRITTEN_PREFIX)
"""Whether a document lies in the folder of the posts."""

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
    "conversation_id",
)
_SEARCHED: Final = "searched_documents"
"""Name in the catalog of the documents in which each partition was searched."""

_STAGES: Final = ("documents", "document_chunks", "search_index")


class Earlier(NamedTuple):
    """The documents that the windows of a partition may see.

    Attributes:
        by_people: Hash of all documents that people wrote.
        posts: Hash of the posts that were written before the last window of the partition began, of each conversation
            that it has windows of.
    """

    by_people: str
    posts: str

    @property
    def version(self) -> str:
        """One hash of both, which counts as the snapshot that the partition was searched in."""
        return digest(self)


class VisibleDocuments:
    """The documents of a workspace at one moment, and which of them the windows of each partition may see."""

    def __init__(self, workspace: Workspace, documents: pl.DataFrame) -> None:
        """Take rows of table ``documents``, with any of its columns that are named here."""
        self._workspace = workspace
        self._documents = (
            documents.filter(pl.col("status") == "ok")
            .select(_COLUMNS)
            .sort("published_at", "uri", nulls_last=False)
        )
        self._keeps_apart = workspace.feeds_back and not workspace.shares_posts

    def with_posts(self, posts: pl.DataFrame) -> VisibleDocuments:
        """Put posts, as rows of table ``documents``, in the place of those that are known."""
        people = self._documents.filter(~IS_POST).with_columns(status=pl.lit("ok"))
        columns = (*_COLUMNS, "status")
        return VisibleDocuments(self._workspace, pl.concat([people, posts.select(columns)]))

    def name_earlier(self, partitions: Sequence[str]) -> dict[str, Earlier]:
        """Hash the documents that the windows of each partition may see."""
        by_people, own, others = self._named
        tables = self._workspace.tables
        began = _find_beginnings(tables, _digest_contents(self._workspace, "windows"))
        return {
            key: Earlier(
                by_people,
                digest(
                    part
                    for conversation, moment in began.get(key, ())
                    for part in (conversation, own.get(conversation, others).name_before(moment))
                ),
            )
            for key in partitions
        }

    @property
    def posts_of(self) -> PostsOf | None:
        """Lists the posts that the windows of a conversation may find; None for all posts."""
        return self._list_posts if self._keeps_apart else None

    def _list_posts(self, conversation: str) -> list[str]:
        return self._documents.filter(IS_POST, _is_seen_by(conversation))["document_id"].to_list()

    @cached_property
    def _named(self) -> tuple[str, Mapping[str, _Posts], _Posts]:
        """Hash the documents of people, the posts of each conversation, and those that every other one may see."""
        is_dated_post = IS_POST & pl.col("published_at").is_not_null()
        posts = self._documents.filter(is_dated_post)
        stages = (hash_dependencies(self._workspace, stage) for stage in _STAGES)
        by_people = digest([*stages, *_name_rows(self._documents.filter(~is_dated_post))])
        if not self._keeps_apart:
            return by_people, {}, _Posts.make(posts)
        own = {
            conversation: _Posts.make(posts.filter(_is_seen_by(conversation)))
            for conversation in posts["conversation_id"].drop_nulls().unique()
        }
        others = posts.filter(pl.col("conversation_id").is_null())
        return by_people, own, _Posts.make(others)


def read_visible(workspace: Workspace) -> VisibleDocuments:
    """Read which documents windows may see, by the table ``documents`` as it is now."""
    return VisibleDocuments(workspace, workspace.tables.read("documents", columns=(*_COLUMNS, "status")))


def _is_seen_by(conversation: str) -> pl.Expr:
    """Return whether a file in the folder of the posts is a document for the windows of a conversation."""
    return pl.col("conversation_id").is_null() | (pl.col("conversation_id") == conversation)


def record_searched(workspace: Workspace, searched: Mapping[str, Earlier]) -> None:
    """Record in which documents partitions have been searched."""
    known = workspace.catalog.read(_SEARCHED)
    entries = {key: Entry(earlier.by_people, earlier.posts, 0) for key, earlier in searched.items()}
    if news := {key: entry for key, entry in entries.items() if known.get(key) != entry}:
        workspace.catalog.record(_SEARCHED, news)


def read_searched(workspace: Workspace) -> dict[str, Earlier]:
    """Read in which documents each partition has been searched; partitions that never were are absent."""
    return {
        key: Earlier(entry.inputs, entry.content) for key, entry in workspace.catalog.read(_SEARCHED).items()
    }


def _digest_contents(workspace: Workspace, table: str) -> str:
    """Hash the recorded content of a table, which names its rows."""
    entries = workspace.catalog.read(table)
    return digest(part for key, entry in sorted(entries.items()) for part in (key, entry.content))


class _Posts(NamedTuple):
    """The posts that a conversation may see, in the order of time.

    Attributes:
        states: Hash of no post, of the first post, of the first two posts and so on.
        dates: The times of the posts.
    """

    states: Sequence[str]
    dates: Sequence[datetime]

    @classmethod
    def make(cls, posts: pl.DataFrame) -> _Posts:
        """Hash posts, which are in the order of time."""
        states = [""]
        for name in _name_rows(posts):
            states.append(digest([states[-1], name]))
        return cls(states, posts["published_at"].to_list())

    def name_before(self, moment: datetime) -> str:
        """Return the hash of the posts that were written before a moment, or at it."""
        return self.states[bisect_right(self.dates, moment)]


@lru_cache(maxsize=2)
def _find_beginnings(tables: Tables, _content: str) -> Mapping[str, Sequence[tuple[str, datetime]]]:
    """Find when the last window of each conversation began in each partition."""
    last = (
        tables.read("windows", columns=("partition", "conversation_id", "started_at"))
        .group_by("partition", "conversation_id")
        .agg(pl.col("started_at").max())
        .sort("partition", "conversation_id")
    )
    found: dict[str, list[tuple[str, datetime]]] = {}
    for partition, conversation, began in last.iter_rows():
        found.setdefault(partition, []).append((conversation, began))
    return found


def _name_rows(documents: pl.DataFrame) -> list[str]:
    return [digest(map(str, row)) for row in documents.iter_rows()]


def name_kept_snapshots(
    workspace: Workspace, visible: VisibleDocuments, partitions: Sequence[str]
) -> dict[str, str]:
    """Name the snapshot in which each partition was searched that ``partitions.after_posts`` does not search again.

    Where written posts are documents, this is :attr:`Earlier.version`, and a partition is searched again after a change
    of the posts before it, whatever the setting.
    """
    settings = workspace.settings.partitions
    if settings.after_posts == "all":
        return {}
    latest = sorted(key for key, entry in workspace.catalog.read("messages").items() if entry.rows)
    renewed = latest[-settings.look_back - 1 :] if settings.after_posts == "recent" else []
    kept = [key for key in partitions if key not in renewed]
    if workspace.feeds_back:
        searched, now = read_searched(workspace), visible.name_earlier(kept)
        return {
            key: searched[key].version
            for key in kept
            if key in searched and searched[key].posts == now[key].posts
        }
    entries, files = workspace.catalog.read("window_contexts"), workspace.tables.hash_files("window_contexts")
    intact = [key for key in kept if key in entries and files.get(key, "") == entries[key].content]
    return name_snapshots(workspace, intact)


def name_snapshots(workspace: Workspace, partitions: Sequence[str] | None) -> dict[str, str]:
    """Name the snapshot in which each partition was searched, or by default all that have windows."""
    windows = workspace.tables.read("windows", partitions).select("window_id", "partition")
    contexts = workspace.tables.read("window_contexts", partitions).select("window_id", "index_version")
    named = windows.join(contexts, on="window_id").group_by("partition").agg(pl.col("index_version").min())
    return dict(named.iter_rows())
