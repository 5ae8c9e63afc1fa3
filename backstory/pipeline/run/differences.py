"""What a run has changed for a reader: the partitions that it wrote, as they were before it and are after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.wording import count, name_some
from backstory.pipeline.stages.posts import FILES
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import Tables

MOST_NAMES: Final = 5
"""Most documents, days or posts that a line names."""

_OF_PEOPLE: Final = (pl.col("status") == "ok") & ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
_COMPARED: Final = ("documents", "messages", "windows", "posts")
_MISSING: Final = ("window_id", "path", "status", "reason")


@dataclass(frozen=True)
class DocumentDifferences:
    """Documents by uri. One whose content now lies under another path is renamed, from the first uri to the second."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class MessageDifferences:
    """Numbers of messages by id. A late one is older than the newest that was known of its conversation."""

    added: int = 0
    late: int = 0
    changed: int = 0
    removed: int = 0
    new_days: tuple[str, ...] = ()
    late_days: tuple[str, ...] = ()


@dataclass(frozen=True)
class WindowDifferences:
    """Numbers of windows with a context, by conversation and beginning; the added ones by verdict."""

    added: Mapping[str, int] = field(default_factory=dict)
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True)
class PostDifferences:
    """Files of posts by path; an edited one keeps a person's text. Citations were removed from what was written.

    ``missing`` has id and path of the windows without a post, and why it is ``rejected``, ``failed`` or ``waiting``.
    """

    written: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: int = 0
    removed_citations: int = 0
    missing: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class Differences:
    """What a run has changed for a reader, by table; None for one that the run did not make.

    ``unreached`` are documents that are dated after every window, so that no window is given them, and ``unknown`` are
    tables whose former files were damaged or of another version.
    """

    documents: DocumentDifferences | None = None
    messages: MessageDifferences | None = None
    windows: WindowDifferences | None = None
    posts: PostDifferences | None = None
    unreached: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class ReaderView(NamedTuple):
    """What a reader sees at one moment: the tables, and the hash of each file of a post, by path."""

    tables: Tables
    files: Mapping[str, str]


def look(workspace: Workspace) -> ReaderView:
    """Take what a reader sees now. No row is read."""
    folder, files = workspace.settings.writers.folder, workspace.catalog.read(FILES)
    hashes = {f"{folder}/{slug}.md": entry.content for slug, entry in files.items()}
    return ReaderView(workspace.tables.pin(), hashes)


def compare(workspace: Workspace, before: ReaderView, made: Collection[str]) -> Differences:
    """Compare what a reader saw before a run with what is there now. The files of ``before`` must still be there."""
    after, found, unknown = look(workspace), dict[str, Any](), []
    comparisons = (compare_documents, compare_messages, _compare_windows, _compare_posts)
    for table, compare_table in zip(_COMPARED, comparisons, strict=True):
        try:
            if table in made:
                found[table] = compare_table(before, after)
        except ContractError:
            unknown.append(table)
    if {"documents", "windows"} <= found.keys() and workspace.settings.rag.as_of:
        began = after.tables.read("windows", columns=("started_at",))["started_at"]
        documents = after.tables.read("documents", columns=("uri", "status", "published_at"))
        is_later = pl.col("published_at") > pl.lit(began.max(), began.dtype)
        found["unreached"] = tuple(documents.filter(_OF_PEOPLE, is_later)["uri"].sort())
    return Differences(**found, unknown=tuple(unknown))


def _read(
    before: ReaderView, after: ReaderView, table: str, columns: Sequence[str], changed_in: str = ""
) -> list[pl.DataFrame]:
    """Read a table before and after, only the partitions that have changed, in it or in another table."""
    views = (before.tables, after.tables)
    former, present = (
        {key: one.content for key, one in view.entries(changed_in or table).items()} for view in views
    )
    changed = sorted({key for key, _ in former.items() ^ present.items()})
    return [view.read(table, changed, columns=columns) for view in views]


def _match(
    before: pl.DataFrame, after: pl.DataFrame, on: list[str], content: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the rows that came, those of both with another content, and those that are gone."""
    come = after.join(before, on=on, how="anti", maintain_order="left")
    both = after.join(before, on=on, maintain_order="left")
    is_other = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_right")) for name in content)
    return come, both.filter(is_other), before.join(after, on=on, how="anti", maintain_order="left")


def compare_documents(before: ReaderView, after: ReaderView) -> DocumentDifferences:
    """Compare the documents that people wrote."""
    columns = ("document_id", "uri", "revision", "content_hash", "status")
    former, present = (
        rows.filter(_OF_PEOPLE).sort("uri") for rows in _read(before, after, "documents", columns)
    )
    come, changed, gone = _match(former, present, ["document_id"], ["revision"])
    # Equal contents are paired in the order of their paths, each once.
    place = pl.int_range(pl.len()).over("content_hash")
    gone, come = gone.with_columns(place=place), come.with_columns(place=place)
    added, renamed, removed = _match(gone, come, ["content_hash", "place"], ["uri"])
    return DocumentDifferences(
        added=tuple(added["uri"]),
        changed=tuple(changed["uri"]),
        renamed=tuple(renamed.select("uri_right", "uri").sort("uri_right").rows()),
        removed=tuple(removed["uri"]),
    )


def compare_messages(before: ReaderView, after: ReaderView) -> MessageDifferences:
    """Compare the messages, of all conversations together."""
    content, place = ("author", "text", "kind"), ("conversation_id", "timestamp", "local_time")
    former, present = _read(before, after, "messages", ("message_id", *place, *content))
    added, changed, removed = _match(former, present, ["message_id"], content)
    known = before.tables.read("messages", columns=place) if len(added) else former
    newest = known.group_by("conversation_id").agg(newest=pl.col("timestamp").max())
    late = added.join(newest, on="conversation_id").filter(pl.col("timestamp") < pl.col("newest"))
    days, known_days, late_days = (
        {str(day) for day in rows["local_time"].dt.date().unique()} for rows in (added, known, late)
    )
    new_days = tuple(sorted(days - known_days))
    return MessageDifferences(
        len(added), len(late), len(changed), len(removed), new_days, tuple(sorted(late_days))
    )


def _compare_windows(before: ReaderView, after: ReaderView) -> WindowDifferences:
    columns = ("window_id", "conversation_id", "started_at")
    windows = _read(before, after, "windows", columns, changed_in="window_contexts")
    verdicts = _read(before, after, "window_contexts", ("window_id", "verdict"))
    # A window is named by its conversation and beginning, and its place among those with the same ones.
    place = pl.int_range(pl.len()).over("conversation_id", "started_at")
    former, present = (
        rows.join(of_rows, on="window_id").sort("window_id").with_columns(place=place)
        for rows, of_rows in zip(windows, verdicts, strict=True)
    )
    added, changed, removed = _match(former, present, ["conversation_id", "started_at", "place"], ["verdict"])
    counts = added["verdict"].value_counts().sort("verdict")
    return WindowDifferences(dict(counts.iter_rows()), len(changed), len(removed))


def _compare_posts(before: ReaderView, after: ReaderView) -> PostDifferences:
    posts = after.tables.read("posts", columns=(*_MISSING, "removed_citations"))
    edited = set(posts.filter(status="edited")["path"])
    come, gone = after.files.keys() - before.files.keys(), before.files.keys() - after.files.keys()
    other = {path for path in before.files.keys() - gone if after.files[path] != before.files[path]}
    cited = posts.filter(pl.col("path").is_in([*come, *(other - edited)]))["removed_citations"].sum()
    missing = posts.filter(pl.col("status").is_in(("rejected", "failed", "waiting"))).sort("status", "path")
    return PostDifferences(
        written=tuple(sorted(come)),
        rewritten=tuple(sorted(other - edited)),
        edited=tuple(sorted(other & edited)),
        removed=tuple(sorted(gone)),
        kept=len(after.files) - len(come) - len(other),
        removed_citations=int(cited),
        missing=tuple(missing.select(_MISSING).to_dicts()),
    )


def describe_differences(differences: Differences) -> list[str]:
    """Describe what a run has changed, one line for each table; and the windows that have no post.

    The terminal, Dagster and logs have the same lines; one says so if nothing is different.
    """
    lines, posts = [], differences.posts or PostDifferences()
    for table in _COMPARED:
        if found := getattr(differences, table):
            told = {name: value for name, value in vars(found).items() if value and name != "missing"}
            if told.keys() - {"kept"}:
                said = [_describe(name.replace("_", " "), value) for name, value in told.items()]
                lines.append(f"{table.capitalize()}: {'; '.join(said)}")
    if lines and differences.unreached:
        named = name_some(differences.unreached, MOST_NAMES)
        lines.append(f"Newer than every window, so that none is given them: {named}")
    if differences.unknown:
        lines.append(f"Not compared, since the former table was damaged: {', '.join(differences.unknown)}")
    if not lines:
        kept = f"; {count(posts.kept, 'post')} kept" if posts.kept else ""
        lines.append(f"Nothing is different for a reader{kept}")
    alike: dict[tuple[str, str], list[str]] = {}
    for post in posts.missing:
        alike.setdefault((post["status"], post["reason"]), []).append(post["path"])
    for (status, reason), paths in alike.items():
        lines.append(f"No post, {status}: {name_some(paths, MOST_NAMES)}: {reason}")
    return lines


def _describe(name: str, found: int | Mapping[str, int] | Sequence[str | tuple[str, str]]) -> str:
    """Say how many things there are, and which."""
    if isinstance(found, int):
        return f"{found:,} {name}"
    if isinstance(found, Mapping):
        number, which = sum(found.values()), [f"{many:,} {verdict}" for verdict, many in found.items()]
    else:
        number, which = len(found), [" is now ".join(one) if isinstance(one, tuple) else one for one in found]
    return f"{number:,} {name} ({name_some(which, MOST_NAMES)})"
