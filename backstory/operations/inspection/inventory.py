"""The inventory of a workspace: its tables, index, caches and runs, and the outcome of every file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from pydantic import BaseModel, ConfigDict

from backstory.base.errors import SearchIndexError, StateError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.wording import inflect, name_some
from backstory.index.snapshot import current_version, read_manifest
from backstory.ingest.documents.rows import DRAFT
from backstory.operations.inspection.probes import Examination
from backstory.pipeline.chats.copies import find_stale_copies
from backstory.pipeline.history.record import describe_status, describe_trouble, find_trouble
from backstory.pipeline.incremental.report import UNREAD_STATUSES
from backstory.pipeline.run.cache_use import CacheUse, measure_caches
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.schemas import SERVED_TABLES

STATUS_WORDS: Final = {
    "read": "read",
    "empty": "without text",
    "needs_ocr": "whose text is in images",
    "unsupported": "of a kind that is not read",
    "set_aside": "waiting for your answer",
    "failed": "that could not be read",
    "ignored": "left out by a rule",
}
"""Words for people by status of the table ``sources``."""

_MOST_FILES = 20
_MOST_NAMES = 5
_LATEST_RUNS = 20


class TableSize(BaseModel):
    """How many rows and partitions a table has, and which partitions are its first and last."""

    model_config = ConfigDict(frozen=True)

    rows: int
    partitions: int
    first: str | None
    last: str | None


class Status(BaseModel):
    """The status of a workspace.

    Attributes:
        root: Its folder.
        storage: The addresses of ``files`` and ``database``; None for the folder.
        embedder: Its provider.
        index_version: Version of the snapshot; None before the first one.
        index_error: Why the index cannot be opened, or None.
        index_recall: Share of the exact best five that its HNSW index found when it was built; None without one.
        tables: The size of each table.
        caches: The size of the caches; None if they cannot be read.
        cache_error: Why the caches cannot be read, or None.
        runs: Where running runs stand, and the latest ended one unless it succeeded, in a sentence each.
        stale_copies: Copies of data that has left the tables, each with its remedy.
    """

    model_config = ConfigDict(frozen=True)

    root: str
    storage: dict[str, str | None]
    embedder: str
    index_version: str | None
    index_error: str | None
    index_recall: float | None
    tables: dict[str, TableSize]
    caches: CacheUse | None
    cache_error: str | None
    runs: list[str]
    stale_copies: list[str]


def read_status(workspace: Workspace) -> Status:
    """Read the status of a workspace, before or after its first run; the rows are those that the catalog counts."""
    tables = {}
    for name in SERVED_TABLES:
        rows = {
            key: entry.rows for key, entry in sorted(workspace.tables.entries(name).items()) if entry.rows
        }
        tables[name] = TableSize(
            rows=sum(rows.values()),
            partitions=len(rows),
            first=next(iter(rows), None),
            last=next(reversed(rows), None),
        )
    version = current_version(workspace.index)
    recall, caches, damage, cache_error = None, None, None, None
    try:
        recall = read_manifest(workspace.index / version).recall_at_5 if version else None
    except SearchIndexError as error:
        damage = str(error)
    try:
        caches = measure_caches(workspace)
    except StateError as error:
        cache_error = str(error)
    records = workspace.runs.read(_LATEST_RUNS)
    under_way = [record for record in records if record.ended_at is None]
    ended = [record for record in find_trouble(records) if record.ended_at is not None]
    return Status(
        root=str(workspace.root),
        storage=workspace.settings.storage.model_dump(include={"files", "database"}),
        embedder=workspace.settings.embedding.provider,
        index_version=version or None,
        index_error=damage,
        index_recall=recall,
        tables=tables,
        caches=caches,
        cache_error=cache_error,
        runs=[*map(describe_status, under_way), *map(describe_trouble, ended)],
        stale_copies=find_stale_copies(workspace),
    )


def examine_files(workspace: Workspace) -> list[Examination]:
    """Check that the last run read every chat export and document.

    There is one examination per folder, and one per file that is set aside or failed, with what to do. A folder does
    not pass while it has such a file, or while there is no document to serve.
    """
    sources = workspace.tables.read("sources")
    seen = {*workspace.catalog.read("sources"), *workspace.tables.keys("sources")}
    found: list[Examination] = []
    for folder, name in (
        ("conversations", workspace.settings.conversations.folder),
        ("documents", workspace.settings.documents.folder),
    ):
        if folder in seen:
            found += _examine_folder(f"files in {name}/", sources.filter(pl.col("folder") == folder))
    if "documents" in seen:
        found.append(_examine_documents(workspace, sources.filter(pl.col("folder") == "documents")))
    return found


def _examine_folder(name: str, files: pl.DataFrame) -> list[Examination]:
    unsettled = files.filter(pl.col("status").is_in(UNREAD_STATUSES))
    counts = dict(files["status"].value_counts().iter_rows())
    parts = [f"{counts[status]} {words}" for status, words in STATUS_WORDS.items() if status in counts]
    lines = int(files["unread"].sum())
    if lines:
        parts.append(f"{lines} of their lines or records could not be read; the table quarantine lists them")
    unsupported = files.filter(pl.col("status") == "unsupported")["source"].to_list()
    if unsupported:
        parts.append(f"of a kind that is not read: {_list_names(unsupported)}")
    pictures = files.filter(pl.col("status") == "needs_ocr")
    if len(pictures):
        parts.append(f"text in images: {_list_names(pictures['source'].to_list())} ({pictures['reason'][0]})")
    summary = Examination(name, unsettled.is_empty(), f"in the last run: {'; '.join(parts) or 'no file'}")
    each = [
        Examination(
            f"file {source}",
            False,
            f"{'waits for your answer' if status == 'set_aside' else 'could not be read'}: {reason}",
        )
        for source, status, reason in unsettled.select("source", "status", "reason")
        .head(_MOST_FILES)
        .iter_rows()
    ]
    if (more := len(unsettled) - _MOST_FILES) > 0:
        rest = f"{more:,} more {inflect(more, 'is', 'are')} set aside or failed; the table sources lists them all"
        each.append(Examination(f"further {name}", False, rest))
    return [summary, *each]


def _examine_documents(workspace: Workspace, files: pl.DataFrame) -> Examination:
    documents = workspace.tables.read("documents").filter(pl.col("status") == "ok")
    folder = workspace.settings.documents.folder
    if documents.is_empty():
        state = "holds no document to serve" if workspace.documents_dir.is_dir() else "is not there"
        return Examination(
            "documents",
            False,
            f"{folder}/ {state}, so windows get no context; put documents into it, or set "
            "`documents: {folder: ...}`, and run `backstory run`",
        )
    parts = [f"{len(documents)} served"]
    undated = documents.filter(pl.col("published_at").is_null())["uri"].to_list()
    if undated:
        served = "windows of any time" if workspace.settings.rag.undated == "serve" else "no window"
        parts.append(
            f"{len(undated)} of them without a date, given to {served} (`rag: {{undated: ...}}`): "
            f"{_list_names(undated)}"
        )
    if late := _list_late(workspace, documents):
        parts.append(
            f"{len(late)} of them newer than every window, so no window is given them: {_list_names(late)}; if a date "
            "is wrong, state the right one in the file or its name"
        )
    drafts = files.filter(pl.col("reason") == DRAFT)["source"].to_list()
    if drafts:
        parts.append(
            f"{len(drafts)} left out as drafts (`documents: {{drafts: true}}` serves them): {_list_names(drafts)}"
        )
    return Examination("documents", True, "; ".join(parts))


def _list_late(workspace: Workspace, documents: pl.DataFrame) -> list[str]:
    """List the documents of people that are dated after every window began."""
    last = workspace.tables.keys("windows")[-1:]  # a window is in the partition in which it began
    starts = workspace.tables.read("windows", last)["started_at"]
    if not workspace.settings.rag.as_of or starts.is_empty():
        return []
    is_late = (pl.col("published_at") > starts.max()) & ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    return documents.filter(is_late)["uri"].sort().to_list()


def _list_names(names: Sequence[str]) -> str:
    return name_some(names, _MOST_NAMES)
