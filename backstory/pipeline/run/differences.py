"""What a run has changed for a reader: the partitions that it wrote, as they were before it and are after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.wording import count, name_some
from backstory.pipeline.stages.post_folder import FILES
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import Tables

MOST_NAMES: Final = 10
"""Most documents or days that a line names."""

NOTHING: Final = "Nothing is different for a reader"

_MOST_PATHS: Final = 3
"""Most posts that a line names: each by its whole path, and a run may write hundreds."""
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "documents": ("document_id", "uri", "revision", "content_hash", "status"),
    "messages": ("message_id", "conversation_id", "timestamp", "local_time", "author", "text", "kind"),
    "windows": ("window_id", "conversation_id", "started_at"),
    "window_contexts": ("window_id", "verdict"),
}
"""What of each table is compared."""

_OF_PEOPLE: Final = (pl.col("status") == "ok") & ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
_WITHOUT_POST: Final = ("rejected", "failed", "waiting")


@dataclass(frozen=True)
class DocumentDifferences:
    """Documents by uri. A document whose content now lies under another path is renamed, neither added nor removed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """Former and present uri."""
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class MessageDifferences:
    """Numbers of messages by id. A late one is older than the newest that was known of its conversation."""

    added: int = 0
    late: int = 0
    changed: int = 0
    removed: int = 0
    new_days: tuple[str, ...] = ()
    """Days with messages that had none before."""
    late_days: tuple[str, ...] = ()


@dataclass(frozen=True)
class WindowDifferences:
    """Numbers of windows with a context, by conversation and beginning."""

    added: Mapping[str, int] = field(default_factory=dict)
    """By verdict."""
    changed: int = 0
    """With another verdict."""
    removed: int = 0


@dataclass(frozen=True)
class MissingPost:
    """A window without a post: where the post would be, and why it is ``rejected``, ``failed`` or ``waiting``."""

    window_id: str
    path: str
    status: str
    reason: str


@dataclass(frozen=True)
class PostDifferences:
    """Files of posts, by path."""

    written: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    """Those that a person has edited since the last run; their text stays."""
    removed: tuple[str, ...] = ()
    kept: int = 0
    removed_citations: int = 0
    """Links and citations that were removed from what was written, since the writer was not shown their documents."""
    missing: tuple[MissingPost, ...] = ()
    """Every window that has no post for a reason that may pass."""


@dataclass(frozen=True)
class Differences:
    """What a run has changed for a reader, by table; None for one that the run did not make."""

    documents: DocumentDifferences | None = None
    messages: MessageDifferences | None = None
    windows: WindowDifferences | None = None
    posts: PostDifferences | None = None
    unreached: tuple[str, ...] = ()
    """Documents of people that are dated after every window began, so that no window can be given them."""
    unknown: tuple[str, ...] = ()
    """Tables that could not be compared, because their files were damaged or of another version."""


class ReaderView(NamedTuple):
    """What a reader sees at one moment: the tables, and the hash of each file of a post, by slug."""

    tables: Tables
    files: Mapping[str, str]


def look(workspace: Workspace) -> ReaderView:
    """Take what a reader sees now. No row is read."""
    files = {slug: entry.content for slug, entry in workspace.catalog.read(FILES).items()}
    return ReaderView(workspace.tables.pin(), files)


def compare(workspace: Workspace, before: ReaderView, made: Collection[str]) -> Differences:
    """Compare what a reader saw before a run with what is there now. Only partitions that have changed are read.

    The files of ``before`` must still be there.
    """
    after, found, unknown = look(workspace), dict[str, Any](), []
    finders: dict[str, Callable[[], object]] = {
        "documents": lambda: compare_documents(*_read(before, after, "documents")),
        "messages": lambda: _compare_messages(before, after),
        "windows": lambda: _compare_windows(before, after),
        "posts": lambda: _compare_posts(workspace, before, after),
    }
    for table in filter(made.__contains__, finders):
        try:
            found[table] = finders[table]()
        except ContractError:
            unknown.append(table)
    if {"documents", "windows"} <= found.keys() and workspace.settings.rag.as_of:
        found["unreached"] = _find_unreached(after.tables)
    return Differences(**found, unknown=tuple(unknown))


def _read(before: ReaderView, after: ReaderView, *tables: str) -> list[pl.DataFrame]:
    """Read the compared columns of each table before and after, where a partition of any of them has changed."""
    views = (before.tables, after.tables)
    changed = set()
    for table in tables:
        former, present = (
            {(key, entry.content) for key, entry in view.entries(table).items()} for view in views
        )
        changed |= {key for key, _ in former ^ present}
    return [view.read(table, sorted(changed), columns=_COLUMNS[table]) for table in tables for view in views]


def _find_unreached(tables: Tables) -> tuple[str, ...]:
    began = tables.read("windows", columns=("started_at",))["started_at"].max()
    if began is None:
        return ()
    documents = tables.read("documents", columns=("uri", "status", "published_at"))
    return tuple(documents.filter(_OF_PEOPLE, pl.col("published_at") > began)["uri"].sort())


def compare_documents(before: pl.DataFrame, after: pl.DataFrame) -> DocumentDifferences:
    """Compare rows of table ``documents``."""
    first, second = before.filter(_OF_PEOPLE).sort("uri"), after.filter(_OF_PEOPLE).sort("uri")
    gone = first.join(second, on="document_id", how="anti", maintain_order="left")
    come = second.join(first, on="document_id", how="anti", maintain_order="left")
    # Equal contents are paired in the order of their paths, each once.
    numbered = pl.int_range(pl.len()).over("content_hash").alias("place")
    renamed = gone.with_columns(numbered).join(
        come.with_columns(numbered), on=["content_hash", "place"], suffix="_now", maintain_order="left"
    )
    changed = second.join(first, on="document_id", maintain_order="left").filter(
        pl.col("revision") != pl.col("revision_right")
    )
    return DocumentDifferences(
        added=tuple(come.filter(~pl.col("uri").is_in(renamed["uri_now"].implode()))["uri"]),
        changed=tuple(changed["uri"]),
        renamed=tuple(renamed.select("uri", "uri_now").rows()),
        removed=tuple(gone.filter(~pl.col("uri").is_in(renamed["uri"].implode()))["uri"]),
    )


def _compare_messages(before: ReaderView, after: ReaderView) -> MessageDifferences:
    former, present = _read(before, after, "messages")
    if former.is_empty() and present.is_empty():
        return MessageDifferences()
    columns = ("conversation_id", "timestamp", "local_time")
    return compare_messages(former, present, before.tables.read("messages", columns=columns))


def compare_messages(before: pl.DataFrame, after: pl.DataFrame, known: pl.DataFrame) -> MessageDifferences:
    """Compare rows of table ``messages``, of the partitions that have changed, where all of ``known`` were there."""
    added = after.join(before, on="message_id", how="anti")
    newest = known.group_by("conversation_id").agg(pl.col("timestamp").max().alias("newest"))
    late = added.join(newest, on="conversation_id").filter(pl.col("timestamp") < pl.col("newest"))
    both = after.join(before, on="message_id")
    content = ("author", "text", "kind")
    is_same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_right")) for name in content)
    return MessageDifferences(
        added=len(added),
        late=len(late),
        changed=len(both.filter(~is_same)),
        removed=len(before.join(after, on="message_id", how="anti")),
        new_days=tuple(sorted(_days(added) - _days(known))),
        late_days=tuple(sorted(_days(late))),
    )


def _days(messages: pl.DataFrame) -> set[str]:
    return {day.isoformat() for day in messages["local_time"].dt.date().unique()}


def _compare_windows(before: ReaderView, after: ReaderView) -> WindowDifferences:
    windows_before, windows, contexts_before, contexts = _read(before, after, "windows", "window_contexts")
    return compare_windows(
        windows_before.join(contexts_before, on="window_id"), windows.join(contexts, on="window_id")
    )


def compare_windows(before: pl.DataFrame, after: pl.DataFrame) -> WindowDifferences:
    """Compare windows with their verdicts. One is named by conversation and beginning, and its place among those."""
    name = ["conversation_id", "started_at", "place"]
    place = pl.int_range(pl.len()).over("conversation_id", "started_at").alias("place")
    former, present = (windows.sort("window_id").with_columns(place) for windows in (before, after))
    added = present.join(former, on=name, how="anti")
    both = present.join(former, on=name)
    return WindowDifferences(
        added=dict(added["verdict"].value_counts().sort("verdict").iter_rows()),
        changed=len(both.filter(pl.col("verdict") != pl.col("verdict_right"))),
        removed=len(former.join(present, on=name, how="anti")),
    )


def _compare_posts(workspace: Workspace, before: ReaderView, after: ReaderView) -> PostDifferences | None:
    columns = ("window_id", "slug", "path", "status", "reason", "removed_citations")
    posts = after.tables.read("posts", columns=columns)
    if posts.is_empty() and not before.files:
        return None
    edited = set(posts.filter(pl.col("status") == "edited")["slug"])
    come, gone = after.files.keys() - before.files.keys(), before.files.keys() - after.files.keys()
    stay = after.files.keys() & before.files.keys()
    other = {slug for slug in stay if after.files[slug] != before.files[slug]}
    is_made = pl.col("slug").is_in([*come, *(other - edited)])
    missing = posts.filter(pl.col("status").is_in(_WITHOUT_POST)).sort("status", "path")

    def name(slugs: Collection[str]) -> tuple[str, ...]:
        return tuple(f"{workspace.settings.writers.folder}/{slug}.md" for slug in sorted(slugs))

    return PostDifferences(
        written=name(come),
        rewritten=name(other - edited),
        edited=name(other & edited),
        removed=name(gone),
        kept=len(stay - other),
        removed_citations=int(posts.filter(is_made)["removed_citations"].sum()),
        missing=tuple(
            MissingPost(*row) for row in missing.select("window_id", "path", "status", "reason").iter_rows()
        ),
    )


def describe_differences(differences: Differences) -> list[str]:
    """Describe what a run has changed, one line for each kind of thing; and each window that has no post.

    The terminal, Dagster and logs have the same lines; one says so if nothing is different.
    """
    documents = differences.documents or DocumentDifferences()
    messages = differences.messages or MessageDifferences()
    windows = differences.windows or WindowDifferences()
    posts = differences.posts or PostDifferences()
    late = f", {messages.late:,} of them late" if messages.late else ""
    verdicts = ", ".join(f"{number:,} {verdict}" for verdict, number in windows.added.items())
    changed_posts = [
        _name(posts.written, "written", most=_MOST_PATHS),
        _name(posts.rewritten, "written again", most=_MOST_PATHS),
        _name(posts.edited, "edited by a person, whose text stays", most=_MOST_PATHS),
        _name(posts.removed, "removed", most=_MOST_PATHS),
    ]
    citations = count(posts.removed_citations, "link or citation removed", "links or citations removed")
    unknown = f"what has changed in {', '.join(differences.unknown)}, whose files were damaged or of another version"
    said = {
        "Documents": [
            _name(documents.added, "added"),
            _name(documents.changed, "changed"),
            _name([f"{former} is now {present}" for former, present in documents.renamed], "renamed"),
            _name(documents.removed, "removed"),
        ],
        "Messages": [
            f"{messages.added:,} new{late}" if messages.added else "",
            f"{messages.changed:,} changed" if messages.changed else "",
            f"{messages.removed:,} removed" if messages.removed else "",
            _name(messages.new_days, "with messages for the first time", "day"),
            _name(messages.late_days, "with late messages", "day"),
        ],
        "Windows": [
            f"{sum(windows.added.values()):,} new ({verdicts})" if windows.added else "",
            f"{windows.changed:,} with another verdict" if windows.changed else "",
            f"{windows.removed:,} gone" if windows.removed else "",
        ],
        "Posts": [
            *changed_posts,
            f"{posts.kept:,} kept" if posts.kept and any(changed_posts) else "",
            citations if posts.removed_citations else "",
        ],
        "Not known": [unknown if differences.unknown else ""],
    }
    lines = [f"{title}: {'; '.join(filter(None, parts))}" for title, parts in said.items() if any(parts)]
    if lines and (late_documents := differences.unreached):
        given = "it" if len(late_documents) == 1 else "them"
        named = f"{count(len(late_documents), 'document')} ({name_some(late_documents, MOST_NAMES)})"
        lines.append(f"Newer than every window, so that none is given {given}: {named}")
    if not lines:
        lines = [f"{NOTHING}; {count(posts.kept, 'post')} kept" if posts.kept else NOTHING]
    return [*lines, *_describe_missing(posts.missing)]


def _describe_missing(missing: Sequence[MissingPost]) -> list[str]:
    """Describe the windows without a post, one line for all that have the same reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for post in missing:
        groups.setdefault((post.status, post.reason), []).append(post.path)
    return [
        f"No post, {status}: {name_some(paths, _MOST_PATHS)}: {reason}"
        for (status, reason), paths in groups.items()
    ]


def _name(names: Sequence[str], what: str, noun: str = "", most: int = MOST_NAMES) -> str:
    """Count things, and name the first of them; empty for none."""
    number = count(len(names), noun) if noun else f"{len(names):,}"
    return f"{number} {what} ({name_some(names, most)})" if names else ""
