"""The size of a workspace's tables, and the state of its index."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from backstory.base.errors import SearchIndexError, StateError
from backstory.index.snapshot import current_version, read_manifest
from backstory.pipeline.chats.copies import find_stale_copies
from backstory.pipeline.history.record import describe_status, describe_trouble, find_trouble
from backstory.pipeline.run.cache_use import measure_caches
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.schemas import SERVED_TABLES

_LATEST_RUNS = 20


def read_status(workspace: Workspace) -> dict[str, Any]:
    """Count rows and partitions of every table.

    Args:
        workspace: A workspace, before or after its first run.

    Returns:
        ``root``, ``storage`` (the addresses of ``files`` and ``database``; None for the folder), ``embedder``,
        ``index_version`` (None before the first snapshot), ``index_error`` (why the index cannot be opened, or None),
        ``index_recall`` (``recall_at_5`` and ``sampled_rows`` of its HNSW index; None without such an index),
        ``tables``: per table ``rows``, ``partitions``, ``first`` and ``last`` partition, and ``caches``: the figures of
        :class:`~backstory.pipeline.run.cache_use.CacheUse`, or ``error``, and ``runs``: where running runs stand, and
        the latest ended one unless it succeeded, in a sentence each, and ``stale_copies``: copies of data that has left
        the tables, each with its remedy.
    """
    tables = {}
    for name in SERVED_TABLES:
        keys = workspace.tables.keys(name)
        tables[name] = {
            "rows": int(workspace.tables.scan(name).select(pl.len()).collect().item()),
            "partitions": len(keys),
            "first": keys[0] if keys else None,
            "last": keys[-1] if keys else None,
        }
    version = current_version(workspace.index)
    hnsw, damage = None, None
    try:
        hnsw = read_manifest(workspace.index / version).hnsw if version else None
    except SearchIndexError as error:
        damage = str(error)
    caches, runs = _measure_caches(workspace), _describe_runs(workspace)
    return {
        "root": str(workspace.root),
        "storage": workspace.settings.storage.model_dump(include={"files", "database"}),
        "embedder": workspace.settings.embedding.provider,
        "index_version": version or None,
        "index_error": damage,
        "index_recall": None if hnsw is None else hnsw.model_dump(),
        "tables": tables,
        "caches": caches,
        "runs": runs,
        "stale_copies": find_stale_copies(workspace),
    }


def _measure_caches(workspace: Workspace) -> dict[str, Any]:
    try:
        return asdict(measure_caches(workspace))
    except StateError as error:
        return {"error": str(error)}


def _describe_runs(workspace: Workspace) -> list[str]:
    records = workspace.runs.read(_LATEST_RUNS)
    under_way = [record for record in records if record.ended_at is None]
    ended = [record for record in find_trouble(records) if record.ended_at is not None]
    return [*map(describe_status, under_way), *map(describe_trouble, ended)]
