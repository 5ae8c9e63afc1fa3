"""The inventory of a workspace: its tables, index, caches and runs."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from backstory.base.errors import SearchIndexError, StateError
from backstory.index.snapshot import current_version, read_manifest
from backstory.pipeline.chats.copies import find_stale_copies
from backstory.pipeline.history.history import find_trouble
from backstory.pipeline.run.cache_use import CacheUse, measure_caches
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.schemas import SERVED_TABLES

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
