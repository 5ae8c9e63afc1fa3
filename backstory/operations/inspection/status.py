"""The size of a workspace's tables, and the state of its index, its caches and its runs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from backstory.base.errors import SearchIndexError, StateError
from backstory.index.snapshot import HnswRecord, current_version, read_manifest
from backstory.pipeline.chats.copies import find_stale_copies
from backstory.pipeline.history.record import describe_status, describe_trouble, find_trouble
from backstory.pipeline.run.cache_use import CacheUse, measure_caches
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.schemas import SERVED_TABLES

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
        index_recall: The recall of its HNSW index; None without such an index.
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
    index_recall: HnswRecord | None
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
    hnsw, caches, damage, cache_error = None, None, None, None
    try:
        hnsw = read_manifest(workspace.index / version).hnsw if version else None
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
        index_recall=hnsw,
        tables=tables,
        caches=caches,
        cache_error=cache_error,
        runs=[*map(describe_status, under_way), *map(describe_trouble, ended)],
        stale_copies=find_stale_copies(workspace),
    )
