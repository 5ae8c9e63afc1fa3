"""What a run has changed for a reader, by comparing the tables before it with those after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.local_times import localize
from backstory.pipeline.stages.post_folder import FILES
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import TABLES

_EXPRESSIONS: Final[Mapping[str, tuple[pl.Expr, ...]]] = {
    "documents": tuple(
        map(pl.col, ("document_id", "uri", "revision", "content_hash", "status", "published_at"))
    ),
    # Numbers in place of texts, since all messages are held during a run: 32 MB for a million.
    "messages": (
        pl.col("message_id").hash(),
        pl.col("conversation_id").hash(),
        pl.col("timestamp"),
        pl.col("local_time"),
        pl.col("author").is_not_null().alias("by_person"),
        pl.struct("author", "text", "kind").hash().alias("content"),
    ),
    "windows": tuple(map(pl.col, ("window_id", "conversation_id", "started_at", "timezone"))),
    "window_contexts": tuple(map(pl.col, ("window_id", "verdict"))),
    "posts": tuple(map(pl.col, ("window_id", "slug", "path", "status", "reason", "removed_citations"))),
}
"""What of each table is compared."""

_OF_PEOPLE: Final = (pl.col("status") == "ok") & ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
_WITHOUT_POST: Final = ("rejected", "failed", "waiting")


@dataclass(frozen=True)
class DocumentDifferences:
    """Documents by uri. A document whose content now lies under another path is renamed, neither added nor removed.

    Attributes:
        added: Those that are searched now, and were not before.
        changed: Those with another content.
        renamed: Former and present uri.
        removed: Those that are not searched any more.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class MessageDifferences:
    """Messages by id.

    Attributes:
        added: Number of messages that the table did not hold before.
        late: Those of them that are older than the newest message that was known of their conversation.
        changed: Number of messages with another text, kind or author.
        removed: Number of messages that are gone.
        new_days: Days with messages that had none before.
        late_days: Days of the late messages.
        rebuilt: Number of messages that have other ids, since a conversation was read with other pseudonyms or another
            time zone. They count neither as added nor as removed.
    """

    added: int = 0
    late: int = 0
    changed: int = 0
    removed: int = 0
    new_days: tuple[str, ...] = ()
    late_days: tuple[str, ...] = ()
    rebuilt: int = 0


@dataclass(frozen=True)
class VerdictChange:
    """A window whose context serves more or less of it than before.

    Attributes:
        window_id: Its present id, which changes with its messages.
        conversation_id: Its conversation.
        started_at: When it began, by which it is recognised; in the time zone of its conversation.
        before: The former verdict.
        after: The present verdict.
    """

    window_id: str
    conversation_id: str
    started_at: datetime
    before: str
    after: str


@dataclass(frozen=True)
class WindowDifferences:
    """Windows with a context, by conversation and beginning.

    Attributes:
        added: Number of windows that are new, by verdict.
        removed: Number of windows that are gone.
        verdicts: Windows with another verdict, in order of time.
        zones: Conversations whose days and times follow another time zone, with the former one and the present one.
    """

    added: Mapping[str, int] = field(default_factory=dict)
    removed: int = 0
    verdicts: tuple[VerdictChange, ...] = ()
    zones: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class MissingPost:
    """A window without a post.

    Attributes:
        window_id: The window.
        path: Where the post would be.
        status: ``rejected``, ``failed`` or ``waiting``.
        reason: Why, and what to do.
    """

    window_id: str
    path: str
    status: str
    reason: str


@dataclass(frozen=True)
class PostDifferences:
    """Files of posts, by path.

    Attributes:
        written: Files that were not there before.
        rewritten: Files that hold another text.
        edited: Files that a person has edited since the last run; their text stays.
        removed: Files that are gone.
        kept: Number of files that stay as they were.
        removed_citations: Number of links and citations that were removed from those that were written, since the
            writer was not shown their documents.
        missing: Every window that has no post for a reason that may pass.
    """

    written: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: int = 0
    removed_citations: int = 0
    missing: tuple[MissingPost, ...] = ()


@dataclass(frozen=True)
class Differences:
    """What a run has changed for a reader.

    Attributes:
        documents: Documents other than the posts of this workspace; None if the run did not make the table.
        messages: Messages; None likewise.
        windows: Windows and their verdicts; None likewise.
        posts: Files of posts; None likewise.
        unreached: Documents of people that are dated after every window began, so that no window can be given them,
            by uri; empty if the run made no windows, or if a window may be given any document.
        unknown: Tables that could not be compared, because their files were damaged or of another version.
    """

    documents: DocumentDifferences | None = None
    messages: MessageDifferences | None = None
    windows: WindowDifferences | None = None
    posts: PostDifferences | None = None
    unreached: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReaderTables:
    """The compared columns of the tables at one moment.

    Attributes:
        contents: The hashes of the partitions of each table, by the catalog.
        frames: The rows of each table; None for a table that cannot be read.
        files: Hash of each file of a post, by slug.
        parts: The same rows by partition.
    """

    contents: Mapping[str, Mapping[str, str]]
    frames: Mapping[str, pl.DataFrame | None]
    files: Mapping[str, str]
    parts: Mapping[str, Mapping[str, pl.DataFrame]] = field(default_factory=dict)


def read_reader_tables(
    workspace: Workspace, tables: Collection[str], known: ReaderTables | None = None
) -> ReaderTables:
    """Read what a reader sees of the tables.

    Args:
        workspace: An open workspace.
        tables: Names of tables; those that no reader sees are passed over.
        known: An earlier reading, whose rows are taken of the partitions that were not written since.
    """
    contents: dict[str, dict[str, str]] = {}
    frames: dict[str, pl.DataFrame | None] = {}
    parts: dict[str, Mapping[str, pl.DataFrame]] = {}
    for table in filter(tables.__contains__, _EXPRESSIONS):
        contents[table] = {key: entry.content for key, entry in workspace.catalog.read(table).items()}
        same = {} if known is None else _find_same(known, table, contents[table])
        try:
            parts[table] = same | _read_others(workspace, table, same)
        except ContractError:
            frames[table] = None  # the stage makes it again, and the answer names it as not known
        else:
            nothing = empty(TABLES[table]).select(_EXPRESSIONS[table])
            frames[table] = pl.concat([nothing, *(parts[table][key] for key in sorted(parts[table]))])
    files = {slug: entry.content for slug, entry in workspace.catalog.read(FILES).items()}
    return ReaderTables(contents, frames, files, parts)


def _read_others(workspace: Workspace, table: str, same: Collection[str]) -> dict[str, pl.DataFrame]:
    """Read what is compared of the partitions that are not known yet."""
    expressions = _EXPRESSIONS[table]
    columns = {column for expression in expressions for column in expression.meta.root_names()}
    wanted = [key for key in workspace.tables.keys(table) if key not in same]
    read = workspace.tables.read_each(table, wanted, columns=sorted(columns))
    return {key: rows.select(expressions) for key, rows in read.items()}


def _find_same(known: ReaderTables, table: str, contents: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Return the rows of the partitions that were not written since an earlier reading."""
    former, parts = known.contents.get(table, {}), known.parts.get(table, {})
    return {key: parts[key] for key in parts if key in former and former[key] == contents.get(key)}


def compare_tables(before: ReaderTables, after: ReaderTables, *, as_of: bool = True) -> Differences:
    """Compare the tables before a run with those after it.

    Args:
        before: The tables before.
        after: The tables after.
        as_of: Whether a window is given only documents dated before it began.
    """
    pairs = {table: (before.frames[table], after.frames[table]) for table in after.frames}
    known = {
        table: (first, second)
        for table, (first, second) in pairs.items()
        if first is not None and second is not None
    }
    return Differences(
        documents=_compare_documents(*known["documents"]) if "documents" in known else None,
        messages=_compare_messages(*known["messages"]) if "messages" in known else None,
        windows=(
            _compare_windows(
                _join_verdicts(known["windows"][0], known["window_contexts"][0]),
                _join_verdicts(known["windows"][1], known["window_contexts"][1]),
            )
            if {"windows", "window_contexts"} <= known.keys()
            else None
        ),
        posts=(
            _compare_posts(before.files, after.files, *known["posts"])
            if "posts" in known and (len(known["posts"][1]) or before.files)
            else None
        ),
        unreached=_find_unreached(after.frames) if as_of else (),
        unknown=tuple(table for table in pairs if table not in known),
    )


def _find_unreached(frames: Mapping[str, pl.DataFrame | None]) -> tuple[str, ...]:
    documents, windows = frames.get("documents"), frames.get("windows")
    if documents is None or windows is None or windows.is_empty():
        return ()
    is_late = pl.col("published_at") > windows["started_at"].max()
    return tuple(documents.filter(_OF_PEOPLE, is_late)["uri"].sort())


def _compare_documents(before: pl.DataFrame, after: pl.DataFrame) -> DocumentDifferences:
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


def _compare_messages(before: pl.DataFrame, after: pl.DataFrame) -> MessageDifferences:
    added = after.join(before, on="message_id", how="anti")
    removed = before.join(after, on="message_id", how="anti")
    rebuilt = _find_rebuilt(before, added, removed)
    made_again = added.join(rebuilt, on="conversation_id", how="semi")
    added, removed = (
        messages.join(rebuilt, on="conversation_id", how="anti") for messages in (added, removed)
    )
    newest = before.group_by("conversation_id").agg(pl.col("timestamp").max().alias("newest"))
    late = added.join(newest, on="conversation_id").filter(pl.col("timestamp") < pl.col("newest"))
    both = after.join(before.select("message_id", former="content"), on="message_id")
    return MessageDifferences(
        added=len(added),
        late=len(late),
        changed=len(both.filter(pl.col("content") != pl.col("former"))),
        removed=len(removed),
        new_days=tuple(sorted(_days(added) - _days(before))),
        late_days=tuple(sorted(_days(late))),
        rebuilt=len(made_again),
    )


def _find_rebuilt(before: pl.DataFrame, added: pl.DataFrame, removed: pl.DataFrame) -> pl.DataFrame:
    """Find the conversations of which people's messages all have other ids, at the times that they had."""
    times = ["conversation_id", "local_time"]
    counts = [messages.group_by(times).len("number") for messages in (removed, added)]
    differing = pl.concat(
        counts[one].join(counts[1 - one], on=[*times, "number"], how="anti") for one in (0, 1)
    )
    kept = before.filter("by_person").join(removed, on="message_id", how="anti")
    return (
        removed.select("conversation_id")
        .unique()
        .join(
            pl.concat([differing.select("conversation_id"), kept.select("conversation_id")]),
            on="conversation_id",
            how="anti",
        )
    )


def _days(messages: pl.DataFrame) -> set[str]:
    return {day.isoformat() for day in messages["local_time"].dt.date().unique()}


def _join_verdicts(windows: pl.DataFrame, contexts: pl.DataFrame) -> pl.DataFrame:
    """Name each window that has a context by its conversation and beginning, and by its place among those alike."""
    named = windows.join(contexts, on="window_id").sort("started_at", "conversation_id", "window_id")
    return named.with_columns(pl.int_range(pl.len()).over("conversation_id", "started_at").alias("place"))


def _compare_windows(before: pl.DataFrame, after: pl.DataFrame) -> WindowDifferences:
    name = ["conversation_id", "started_at", "place"]
    added = after.join(before, on=name, how="anti")
    both = after.join(before.select(*name, former="verdict"), on=name, maintain_order="left")
    changes = both.filter(pl.col("verdict") != pl.col("former"))
    zones, former = (
        dict(frame.select("conversation_id", "timezone").unique().iter_rows()) for frame in (after, before)
    )
    return WindowDifferences(
        added=dict(added["verdict"].value_counts().sort("verdict").iter_rows()),
        removed=len(before.join(after, on=name, how="anti")),
        verdicts=tuple(
            VerdictChange(
                row["window_id"],
                row["conversation_id"],
                localize(row["started_at"], row["timezone"]),
                row["former"],
                row["verdict"],
            )
            for row in changes.iter_rows(named=True)
        ),
        zones=tuple(
            (name, former[name], zones[name])
            for name in sorted(zones.keys() & former.keys())
            if zones[name] != former[name]
        ),
    )


def _compare_posts(
    files_before: Mapping[str, str], files: Mapping[str, str], before: pl.DataFrame, after: pl.DataFrame
) -> PostDifferences:
    paths = dict(pl.concat([before, after]).select("slug", "path").iter_rows())
    edited = set(after.filter(pl.col("status") == "edited")["slug"])
    other = {slug for slug in files.keys() & files_before.keys() if files[slug] != files_before[slug]}

    def name(slugs: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(paths.get(slug, f"{slug}.md") for slug in slugs))

    made = (files.keys() - files_before.keys()) | (other - edited)
    missing = after.filter(pl.col("status").is_in(_WITHOUT_POST)).sort("status", "path")
    return PostDifferences(
        written=name(files.keys() - files_before.keys()),
        rewritten=name(other - edited),
        edited=name(other & edited),
        removed=name(files_before.keys() - files.keys()),
        kept=len(files.keys() & files_before.keys()) - len(other),
        removed_citations=int(after.filter(pl.col("slug").is_in(made))["removed_citations"].sum()),
        missing=tuple(
            MissingPost(*row) for row in missing.select("window_id", "path", "status", "reason").iter_rows()
        ),
    )
