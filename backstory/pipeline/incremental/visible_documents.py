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
from functools import cache, lru_cache
from typing import Final, NamedTuple

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.hits import PostsOf
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import Tables

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


def name_earlier_documents(workspace: Workspace, partitions: Sequence[str]) -> dict[str, Earlier]:
    """Hash the documents that the windows of each partition may see.

    Returns:
        The hashes for each partition.
    """
    by_people, posts = _read_documents(workspace)
    began = _find_beginnings(workspace.tables, _digest_contents(workspace, "windows"))
    return {
        key: Earlier(
            by_people,
            digest(
                part
                for conversation, moment in began.get(key, ())
                for part in (conversation, posts.of(conversation).name_before(moment))
            ),
        )
        for key in partitions
    }


def name_documents_of_people(workspace: Workspace) -> str:
    """Hash the documents that people wrote, and how their chunks and the index are made."""
    return _read_documents(workspace)[0]


def _read_documents(workspace: Workspace) -> tuple[str, _PostsByConversation]:
    return _name_documents(
        workspace.tables,
        _digest_contents(workspace, "documents"),
        tuple(hash_dependencies(workspace, stage) for stage in _STAGES),
        _keeps_apart(workspace),
    )


def find_posts_of(workspace: Workspace) -> PostsOf | None:
    """Find which posts the windows of each conversation may find, by the table ``documents``; None for all posts."""
    if not _keeps_apart(workspace):
        return None

    @cache
    def read() -> pl.DataFrame:
        is_post = (pl.col("status") == "ok") & pl.col("uri").str.starts_with(WRITTEN_PREFIX)
        columns = ("conversation_id", "document_id", "status", "uri")
        return workspace.tables.read("documents", columns=columns).filter(is_post)

    def list_ids(conversation: str) -> list[str]:
        return read().filter(_is_seen_by(conversation))["document_id"].to_list()

    return list_ids


def _is_seen_by(conversation: str) -> pl.Expr:
    """Return whether a file in the folder of the posts is a document for the windows of a conversation."""
    return pl.col("conversation_id").is_null() | (pl.col("conversation_id") == conversation)


def _keeps_apart(workspace: Workspace) -> bool:
    """Return whether each conversation has posts of its own."""
    return workspace.feeds_back and workspace.settings.writers.feedback_scope == "conversation"


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


class _PostsByConversation(NamedTuple):
    """The posts that each conversation may see.

    Attributes:
        own: Those of each conversation that has any.
        other: Those of every other conversation.
    """

    own: Mapping[str, _Posts]
    other: _Posts

    def of(self, conversation: str) -> _Posts:
        """Return the posts that a conversation may see."""
        return self.own.get(conversation, self.other)


@lru_cache(maxsize=2)
def _name_documents(
    tables: Tables, _content: str, stages: tuple[str, ...], keeps_apart: bool
) -> tuple[str, _PostsByConversation]:
    """Hash the documents of people, and the posts that each conversation may see.

    A run asks for each table and partition: the answer is kept as long as the table has the same content.
    """
    documents = (
        tables.read("documents", columns=(*_COLUMNS, "status"))
        .filter(pl.col("status") == "ok")
        .select(_COLUMNS)
        .sort("published_at", "uri", nulls_last=False)
    )
    is_dated_post = pl.col("uri").str.starts_with(WRITTEN_PREFIX) & pl.col("published_at").is_not_null()
    posts = documents.filter(is_dated_post)
    by_people = digest([*stages, *_name_rows(documents.filter(~is_dated_post))])
    if not keeps_apart:
        return by_people, _PostsByConversation({}, _Posts.make(posts))
    own = {
        conversation: _Posts.make(posts.filter(_is_seen_by(conversation)))
        for conversation in posts["conversation_id"].drop_nulls().unique()
    }
    others = posts.filter(pl.col("conversation_id").is_null())
    return by_people, _PostsByConversation(own, _Posts.make(others))


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
