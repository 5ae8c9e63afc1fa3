"""What a run has changed for a reader: the partitions that it wrote, as they were before it and are after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.wording import count, name_some
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import Tables
from backstory.writing.posts import PUBLISHED

MOST_NAMES: Final = 5
"""Most documents, days or posts that a line names."""

_OF_PEOPLE: Final = (pl.col("status") == "ok") & ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
_HAS_FILE: Final = pl.col("status").is_in(PUBLISHED)
_MISSING: Final = ("window_id", "path", "status", "reason")

Figures: TypeAlias = Mapping[str, Any]
"""Numbers, numbers by verdict, and lists of names, each under the word by which a reader knows it."""


@dataclass(frozen=True)
class Differences:
    """What a run has changed for a reader, by table; None for one that the run did not make.

    Documents and posts are lists of uris and of paths; a document is ``renamed``, from the first uri to the second, if
    its content now lies under another path. Messages and windows are numbers; a message is ``late`` if a newer one of
    its conversation was known. Posts have the windows that are ``missing`` one, and why. ``unreached`` are documents
    that are dated after every window, so that no window is given them, and ``unknown`` are tables whose former files
    were damaged or of another version.
    """

    documents: Figures | None = None
    messages: Figures | None = None
    windows: Figures | None = None
    posts: Figures | None = None
    unreached: Sequence[str] = ()
    unknown: Sequence[str] = ()


def compare(workspace: Workspace, before: Tables, made: Collection[str]) -> Differences:
    """Compare the pinned tables before a run with those of now. The files of ``before`` must still be there."""
    after, found, unknown = workspace.tables.pin(), dict[str, Any](), list[str]()
    for table, compare_table in _COMPARED.items():
        try:
            if table in made:
                found[table] = compare_table(before, after)
        except ContractError:
            unknown.append(table)
    if {"documents", "windows"} <= found.keys() and workspace.settings.rag.as_of:
        began = after.read("windows", columns=("started_at",))["started_at"]
        documents = after.read("documents", columns=("uri", "status", "published_at"))
        is_later = pl.col("published_at") > pl.lit(began.max(), began.dtype)
        found["unreached"] = documents.filter(_OF_PEOPLE, is_later)["uri"].sort().to_list()
    return Differences(**found, unknown=unknown)


def _read(
    before: Tables, after: Tables, table: str, columns: Sequence[str], changed_in: str = ""
) -> list[pl.DataFrame]:
    """Read a table before and after, only the partitions that have changed, in it or in another table."""
    former, present = (
        {(key, one.content) for key, one in tables.entries(changed_in or table).items()}
        for tables in (before, after)
    )
    changed = sorted({key for key, _ in former ^ present})
    return [tables.read(table, changed, columns=columns) for tables in (before, after)]


def _match(
    before: pl.DataFrame, after: pl.DataFrame, on: list[str], content: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the rows that came, those of both with another content, and those that are gone."""
    come = after.join(before, on=on, how="anti", maintain_order="left")
    both = after.join(before, on=on, maintain_order="left")
    is_other = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_right")) for name in content)
    return come, both.filter(is_other), before.join(after, on=on, how="anti", maintain_order="left")


def compare_documents(before: Tables, after: Tables) -> Figures:
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
    return {
        "added": added["uri"].to_list(),
        "changed": changed["uri"].to_list(),
        "renamed": renamed.select("uri_right", "uri").sort("uri_right").rows(),
        "removed": removed["uri"].to_list(),
    }


def compare_messages(before: Tables, after: Tables) -> Figures:
    """Compare the messages, of all conversations together."""
    content, place = ("author", "text", "kind"), ("conversation_id", "timestamp", "local_time")
    former, present = _read(before, after, "messages", ("message_id", *place, *content))
    added, changed, removed = _match(former, present, ["message_id"], content)
    known = before.read("messages", columns=place) if len(added) else former
    newest = known.group_by("conversation_id").agg(newest=pl.col("timestamp").max())
    late = added.join(newest, on="conversation_id").filter(pl.col("timestamp") < pl.col("newest"))
    days, known_days, late_days = (
        {str(day) for day in rows["local_time"].dt.date().unique()} for rows in (added, known, late)
    )
    numbers = {"added": len(added), "late": len(late), "changed": len(changed), "removed": len(removed)}
    return {**numbers, "new_days": sorted(days - known_days), "late_days": sorted(late_days)}


def _compare_windows(before: Tables, after: Tables) -> Figures:
    """Compare the windows that have a context; they are named by their conversation and beginning."""
    columns = ("window_id", "conversation_id", "started_at")
    windows = _read(before, after, "windows", columns, changed_in="window_contexts")
    verdicts = _read(before, after, "window_contexts", ("window_id", "verdict"))
    former, present = (
        rows.join(of_rows, on="window_id").unique(columns[1:], keep="first", maintain_order=True)
        for rows, of_rows in zip(windows, verdicts, strict=True)
    )
    added, changed, removed = _match(former, present, [*columns[1:]], ["verdict"])
    counts = added["verdict"].value_counts().sort("verdict")
    return {"added": dict(counts.iter_rows()), "changed": len(changed), "removed": len(removed)}


def _compare_posts(before: Tables, after: Tables) -> Figures:
    """Compare the posts, by path. If a person has edited a file, its row has what a writer would have written."""
    shown = ("path", "status", "title", "text", "published_at", "tags", "cited_documents")
    former, present = (
        rows.filter(_HAS_FILE).sort("path")
        for rows in _read(before, after, "posts", (*shown, "removed_citations"))
    )
    written, changed, removed = _match(former, present, ["path"], shown[1:])
    rewritten = changed.filter(status="written")
    edited = changed.filter(status="edited", status_right="written")
    posts = after.read("posts", columns=_MISSING)
    missing = posts.filter(pl.col("status").is_in(("rejected", "failed", "waiting"))).sort("status", "path")
    return {
        "written": written["path"].to_list(),
        "rewritten": rewritten["path"].to_list(),
        "edited": edited["path"].to_list(),
        "removed": removed["path"].to_list(),
        "kept": len(posts.filter(_HAS_FILE)) - len(written) - len(rewritten) - len(edited),
        "removed_citations": sum(int(rows["removed_citations"].sum()) for rows in (written, rewritten)),
        "missing": missing.to_dicts(),
    }


_COMPARED: Final = {
    "documents": compare_documents,
    "messages": compare_messages,
    "windows": _compare_windows,
    "posts": _compare_posts,
}


def describe_differences(differences: Differences) -> list[str]:
    """Describe what a run has changed, one line for each table; and the windows that have no post.

    The terminal, Dagster and logs have the same lines; one says so if nothing is different.
    """
    lines, posts = [], differences.posts or {}
    for table in _COMPARED:
        told = {name: value for name, value in (getattr(differences, table) or {}).items() if value}
        told.pop("missing", None)
        if told.keys() - {"kept"}:
            said = [_describe(name.replace("_", " "), value) for name, value in told.items()]
            lines.append(f"{table.capitalize()}: {'; '.join(said)}")
    if lines and differences.unreached:
        named = name_some(differences.unreached, MOST_NAMES)
        lines.append(f"Newer than every window, so that none is given them: {named}")
    if differences.unknown:
        lines.append(f"Not compared, since the former table was damaged: {', '.join(differences.unknown)}")
    if not lines:
        kept = f"; {count(posts['kept'], 'post')} kept" if posts.get("kept") else ""
        lines.append(f"Nothing is different for a reader{kept}")
    alike: dict[tuple[str, str], list[str]] = {}
    for post in posts.get("missing", ()):
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
