"""Documents that the windows of a partition may see, and which partitions are to see those of a later snapshot.

Without written posts as documents, those are the documents of a snapshot. With them, a window sees every document that
people wrote, subject to its date, and the posts of windows that ended before it began: those of its own conversation,
or with ``writers.feedback_scope: workspace`` those of all. So a later post changes nothing before it.

A file in the folder of the posts that is no post is a document of a person, for every conversation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.index.snapshot import current_version
from backstory.pipeline.incremental.inputs import hash_dependencies
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.hits import PostsOf
from backstory.storage.tables.catalog import Entry

IS_POST: Final = pl.col("uri").str.starts_with(WRITTEN_PREFIX)
"""Whether a document lies in the folder of the posts."""

_IS_DATED_POST: Final = IS_POST & pl.col("published_at").is_not_null()

_COLUMNS: Final = (
    *("document_id", "revision", "uri", "title", "slug", "published_at", "tags", "kind", "tenant"),
    "conversation_id",
)
_SEARCHED: Final = "searched_documents"
"""Name in the catalog of the documents in which each partition was searched."""


class Visible(NamedTuple):
    """The documents that a partition may see: a hash of all that people wrote, or the snapshot; and one of the posts.

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

    def __init__(self, workspace: Workspace, documents: pl.DataFrame | None = None) -> None:
        """Take rows of table ``documents``, with any of its columns that are named here; by default all as they are."""
        self._workspace = workspace
        self._given = documents
        self._keeps_apart = workspace.feeds_back and not workspace.shares_posts
        self._named: dict[str, tuple[list[datetime], list[str]]] = {}

    @cached_property
    def _documents(self) -> pl.DataFrame:
        documents = self._given
        if documents is None:
            documents = self._workspace.tables.read("documents", columns=(*_COLUMNS, "status"))
        return documents.filter(status="ok").select(_COLUMNS).sort("published_at", "uri", nulls_last=False)

    def with_posts(self, posts: pl.DataFrame) -> VisibleDocuments:
        """Put posts, as rows of table ``documents``, in the place of those that are known."""
        people = self._documents.filter(~IS_POST).with_columns(status=pl.lit("ok"))
        return VisibleDocuments(self._workspace, pl.concat([people, posts.select(people.columns)]))

    def name_visible(self, partitions: Sequence[str]) -> dict[str, Visible]:
        """Hash the documents that the windows of each partition may see."""
        if not self._workspace.feeds_back:
            return dict.fromkeys(partitions, Visible(current_version(self._workspace.index), ""))
        columns = ("partition", "conversation_id", "started_at")
        windows = self._workspace.tables.read("windows", partitions, columns=columns)
        began = windows.group_by("partition", "conversation_id").agg(pl.col("started_at").max())
        parts: dict[str, list[str]] = {key: [] for key in partitions}
        for key, conversation, moment in began.sort("partition", "conversation_id").iter_rows():
            dates, states = self._name_posts(conversation if self._keeps_apart else "")
            parts[key] += [conversation, states[bisect_right(dates, moment)]]
        return {key: Visible(self._by_people, digest(named)) for key, named in parts.items()}

    @property
    def posts_of(self) -> PostsOf | None:
        """Lists the posts that the windows of a conversation may find; None for all posts."""
        if not self._keeps_apart:
            return None
        return lambda one: self._documents.filter(IS_POST, _is_seen_by(one))["document_id"].to_list()

    @cached_property
    def _by_people(self) -> str:
        """The hash of the documents of people."""
        stages = ("documents", "document_chunks", "search_index")
        depends = [hash_dependencies(self._workspace, stage) for stage in stages]
        return digest([*depends, *_name_rows(self._documents.filter(~_IS_DATED_POST))])

    def _name_posts(self, conversation: str) -> tuple[list[datetime], list[str]]:
        """Return the times of the posts of a conversation, or of all, and hashes: of none, the first, two and so on."""
        if conversation not in self._named:
            posts = self._documents.filter(
                _IS_DATED_POST, _is_seen_by(conversation) if conversation else True
            )
            states = accumulate(_name_rows(posts), lambda before, name: digest([before, name]), initial="")
            self._named[conversation] = (posts["published_at"].to_list(), list(states))
        return self._named[conversation]


def _is_seen_by(conversation: str) -> pl.Expr:
    """Return whether a file in the folder of the posts is a document for the windows of a conversation."""
    return pl.col("conversation_id").is_null() | (pl.col("conversation_id") == conversation)


def _name_rows(documents: pl.DataFrame) -> list[str]:
    return [digest(map(str, row)) for row in documents.iter_rows()]


def record_searched(workspace: Workspace, searched: Mapping[str, Visible]) -> None:
    """Record in which documents partitions have been searched."""
    known = _read_searched(workspace)
    news = {key: Entry(*seen, 0) for key, seen in searched.items() if known.get(key) != seen}
    workspace.catalog.record(_SEARCHED, news)


def _read_searched(workspace: Workspace) -> dict[str, Visible]:
    searched = workspace.catalog.read(_SEARCHED)
    return {key: Visible(entry.inputs, entry.content) for key, entry in searched.items()}


def name_kept_versions(
    workspace: Workspace, visible: VisibleDocuments, partitions: Sequence[str]
) -> dict[str, str]:
    """Name the documents in which each partition was searched that ``partitions.after_posts`` does not search again.

    Where written posts are documents, a partition is searched again after a change of the posts before it, whatever
    the setting.
    """
    settings = workspace.settings.partitions
    if settings.after_posts == "all":
        return {}
    latest = sorted(key for key, entry in workspace.catalog.read("messages").items() if entry.rows)
    renewed = latest[-settings.look_back - 1 :] if settings.after_posts == "recent" else []
    searched = _read_searched(workspace)
    now = visible.name_visible([key for key in partitions if key in searched and key not in renewed])
    return {key: searched[key].version for key, seen in now.items() if seen.posts == searched[key].posts}


def find_outdated(workspace: Workspace) -> list[str]:
    """List the partitions whose contexts are those of other documents than they may see now, in order."""
    made, searched = workspace.catalog.read("window_contexts"), _read_searched(workspace)
    now = VisibleDocuments(workspace).name_visible(
        [key for key in searched if key in made and made[key].rows]
    )
    return sorted(key for key, seen in now.items() if seen != searched[key])
