"""Documents that the windows of a partition may see, and which partitions are to see those of a later snapshot.

Where written posts are documents, a window sees every document that people wrote, subject to its date, and the posts of
windows that ended before it began: those of its own conversation, or with ``writers.feedback_scope: workspace`` those
of all. So a partition depends on the posts before its last window only: a later post changes nothing before it.

A file in the folder of the posts that is no post is a document of a person, for every conversation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.index.snapshot import current_version
from backstory.pipeline.incremental.inputs import hash_dependencies
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.hits import PostsOf
from backstory.storage.tables.catalog import Entry

IS_POST: Final = pl.col("uri").str.starts_with(WRITTEN_PREFIX)
"""Whether a document lies in the folder of the posts."""

_COLUMNS: Final = (
    *("document_id", "revision", "uri", "title", "slug", "published_at", "tags", "kind", "tenant"),
    "conversation_id",
)
_SEARCHED: Final = "searched_documents"
"""Name in the catalog of the documents in which each partition was searched."""

_Posts: TypeAlias = tuple[Sequence[datetime], Sequence[str]]
"""The times of posts in order, and the hash of no post, of the first post, of the first two posts and so on."""


class Earlier(NamedTuple):
    """The documents that the windows of a partition may see: a hash of all that people wrote, and one of the posts.

    Those are the posts that were written before the last window of the partition began, of each conversation that it
    has windows of.
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
        served = documents.filter(status="ok").select(_COLUMNS)
        self._documents = served.sort("published_at", "uri", nulls_last=False)
        self._keeps_apart = workspace.feeds_back and not workspace.shares_posts

    def with_posts(self, posts: pl.DataFrame) -> VisibleDocuments:
        """Put posts, as rows of table ``documents``, in the place of those that are known."""
        people = self._documents.filter(~IS_POST).with_columns(status=pl.lit("ok"))
        return VisibleDocuments(self._workspace, pl.concat([people, posts.select(people.columns)]))

    def name_earlier(self, partitions: Sequence[str]) -> dict[str, Earlier]:
        """Hash the documents that the windows of each partition may see."""
        by_people, own, others = self._named
        columns = ("partition", "conversation_id", "started_at")
        windows = self._workspace.tables.read("windows", partitions, columns=columns)
        began = windows.group_by("partition", "conversation_id").agg(pl.col("started_at").max())
        parts: dict[str, list[str]] = {key: [] for key in partitions}
        for key, conversation, moment in began.sort("partition", "conversation_id").iter_rows():
            dates, states = own.get(conversation, others)
            parts[key] += [conversation, states[bisect_right(dates, moment)]]
        return {key: Earlier(by_people, digest(named)) for key, named in parts.items()}

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
        stages = ("documents", "document_chunks", "search_index")
        depends = [hash_dependencies(self._workspace, stage) for stage in stages]
        by_people = digest([*depends, *_name_rows(self._documents.filter(~is_dated_post))])
        if not self._keeps_apart:
            return by_people, {}, _name_posts(posts)
        conversations = posts["conversation_id"].drop_nulls().unique()
        own = {one: _name_posts(posts.filter(_is_seen_by(one))) for one in conversations}
        return by_people, own, _name_posts(posts.filter(pl.col("conversation_id").is_null()))


def _is_seen_by(conversation: str) -> pl.Expr:
    """Return whether a file in the folder of the posts is a document for the windows of a conversation."""
    return pl.col("conversation_id").is_null() | (pl.col("conversation_id") == conversation)


def _name_posts(posts: pl.DataFrame) -> _Posts:
    states = accumulate(_name_rows(posts), lambda before, name: digest([before, name]), initial="")
    return posts["published_at"].to_list(), list(states)


def _name_rows(documents: pl.DataFrame) -> list[str]:
    return [digest(map(str, row)) for row in documents.iter_rows()]


def read_visible(workspace: Workspace) -> VisibleDocuments:
    """Read which documents windows may see, by the table ``documents`` as it is now."""
    return VisibleDocuments(workspace, workspace.tables.read("documents", columns=(*_COLUMNS, "status")))


def record_searched(workspace: Workspace, searched: Mapping[str, Earlier]) -> None:
    """Record in which documents partitions have been searched."""
    known = _read_searched(workspace)
    news = {key: Entry(*earlier, 0) for key, earlier in searched.items() if known.get(key) != earlier}
    workspace.catalog.record(_SEARCHED, news)


def _read_searched(workspace: Workspace) -> dict[str, Earlier]:
    searched = workspace.catalog.read(_SEARCHED)
    return {key: Earlier(entry.inputs, entry.content) for key, entry in searched.items()}


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
        searched, now = _read_searched(workspace), visible.name_earlier(kept)
        return {
            key: searched[key].version
            for key in kept
            if key in searched and searched[key].posts == now[key].posts
        }
    damaged = workspace.tables.find_damage("window_contexts")
    return _name_snapshots(workspace, [key for key in kept if key not in damaged])


def _name_snapshots(workspace: Workspace, partitions: Sequence[str] | None) -> dict[str, str]:
    """Name the snapshot in which each partition was searched, or by default all that have windows."""
    windows = workspace.tables.read("windows", partitions, columns=("window_id", "partition"))
    contexts = workspace.tables.read("window_contexts", partitions, columns=("window_id", "index_version"))
    named = windows.join(contexts, on="window_id").group_by("partition").agg(pl.col("index_version").min())
    return dict(named.iter_rows())


def find_outdated(workspace: Workspace) -> list[str]:
    """List the partitions whose contexts name another snapshot than the published one, in order.

    Where written posts are documents, a partition is up to date if it was searched in the documents before it.
    """
    if workspace.feeds_back:
        searched = _read_searched(workspace)
        now = read_visible(workspace).name_earlier(list(searched))
        return sorted(key for key, earlier in now.items() if searched[key] != earlier)
    current = current_version(workspace.index)
    return sorted(key for key, version in _name_snapshots(workspace, None).items() if version != current)
