"""The inventory of a workspace: its tables, index, caches and runs, and the outcome of every file."""

from __future__ import annotations

from typing import Final

import polars as pl
from pydantic import BaseModel, ConfigDict

from backstory.base.errors import SearchIndexError, StateError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.wording import name_some
from backstory.index.snapshot import current_version, read_manifest
from backstory.ingest.documents.rows import DRAFT
from backstory.operations.inspection.probes import Examination
from backstory.pipeline.chats.copies import find_stale_copies
from backstory.pipeline.history.history import find_trouble
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

_MOST_FILES: Final = 20
_MOST_NAMES: Final = 5
_LATEST_RUNS: Final = 20


class TableSize(BaseModel):
    """How many rows and partitions a table has, and which partitions are its first and last."""

    model_config = ConfigDict(frozen=True)

    rows: int
    partitions: int
    first: str | None
    last: str | None


class Status(BaseModel):
    """The status of a workspace.

    ``storage`` has the addresses of ``files`` and ``database``, None for the folder; ``index_recall`` the share of the
    exact best five that the HNSW index found; ``runs`` a sentence for each running run, and for the latest ended one
    unless it succeeded; ``stale_copies`` the copies of data that has left the tables, each with its remedy.
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
        entries = sorted(workspace.tables.entries(name).items())
        keys = [key for key, entry in entries if entry.rows]
        tables[name] = TableSize(
            rows=sum(entry.rows for _, entry in entries),
            partitions=len(keys),
            first=keys[0] if keys else None,
            last=keys[-1] if keys else None,
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
        runs=[record.describe() for record in (*under_way, *ended)],
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
    for part in sorted(seen & {"conversations", "documents"}):
        folder = getattr(workspace.settings, part).folder
        found += _examine_folder(f"files in {folder}/", sources.filter(folder=part))
    if "documents" in seen:
        found.append(_examine_documents(workspace, sources.filter(folder="documents")))
    return found


def _examine_folder(name: str, files: pl.DataFrame) -> list[Examination]:
    counts = dict(files["status"].value_counts().iter_rows())
    parts = [f"{counts[status]} {words}" for status, words in STATUS_WORDS.items() if status in counts]
    if lines := int(files["unread"].sum()):
        parts.append(f"{lines} of their lines or records could not be read; the table quarantine lists them")
    for status in sorted(counts.keys() & {"needs_ocr", "unsupported"}):
        of_it = files.filter(status=status)
        parts.append(f"{STATUS_WORDS[status]}: {_list_names(of_it['source'])} ({of_it['reason'][0]})")
    unsettled = files.filter(pl.col("status").is_in(UNREAD_STATUSES))
    found = [Examination(name, unsettled.is_empty(), f"in the last run: {'; '.join(parts) or 'no file'}")]
    rows = unsettled.select("source", "status", "reason").iter_rows()
    each = [
        Examination(f"file {source}", False, f"{status.replace('_', ' ')}: {reason}")
        for source, status, reason in rows
    ]
    found += each[:_MOST_FILES]
    if rest := len(each[_MOST_FILES:]):
        more = f"{rest:,} more set aside or failed; the table sources lists them all"
        found.append(Examination(f"further {name}", False, more))
    return found


def _examine_documents(workspace: Workspace, files: pl.DataFrame) -> Examination:
    documents = workspace.tables.read("documents").filter(pl.col("status") == "ok")
    settings = workspace.settings
    if documents.is_empty():
        state = "holds no document to serve" if workspace.documents_dir.is_dir() else "is not there"
        return Examination(
            "documents",
            False,
            f"{settings.documents.folder}/ {state}, so windows get no context; put documents into it, or set "
            "`documents: {folder: ...}`, and run `backstory run`",
        )
    served = "windows of any time" if settings.rag.undated == "serve" else "no window"
    kinds = {
        f"without a date, given to {served} (`rag: {{undated: ...}}`)": documents.filter(
            pl.col("published_at").is_null()
        )["uri"],
        "newer than every window, and so given to none (if a date is wrong, state the right one)": _list_late(
            workspace, documents
        ),
        "left out as drafts (`documents: {drafts: true}` serves them)": files.filter(reason=DRAFT)["source"],
    }
    told = [f"{len(names)} {kind}: {_list_names(names)}" for kind, names in kinds.items() if len(names)]
    return Examination("documents", True, "; ".join([f"{len(documents)} served", *told]))


def _list_late(workspace: Workspace, documents: pl.DataFrame) -> pl.Series:
    """List the documents of people that are dated after every window began."""
    last = workspace.tables.keys("windows")[-1:]  # a window is in the partition in which it began
    starts = workspace.tables.read("windows", last)["started_at"]
    is_late = pl.col("published_at") > pl.lit(starts.max(), starts.dtype)
    is_of_people = ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    return documents.filter(is_late & is_of_people & workspace.settings.rag.as_of)["uri"].sort()


def _list_names(names: pl.Series) -> str:
    return name_some(names.to_list(), _MOST_NAMES)
