"""How every partitioned table is made: only the partitions whose inputs changed, each file at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from backstory import __version__
from backstory.ids import digest, digest_json
from backstory.ledger import Entry
from backstory.schemas import TABLES, polars_schema
from backstory.settings import Stage
from backstory.stage_report import StageReport, log_report
from backstory.tables import list_partitions, write_partition
from backstory.workspace import Workspace

WHOLE = "all"
"""Partition of a table that has none."""

_PREVIEW_ROWS = 5

Compute = Callable[[list[str]], Mapping[str, pl.DataFrame]]


def settings_digest(*stages: Stage, extra: Sequence[str] = ()) -> str:
    """Hash settings and further strings that rows depend on."""
    return digest([*(digest_json(stage.model_dump(mode="json")) for stage in stages), *extra], length=16)


def content_of(workspace: Workspace, table: str, partitions: Sequence[str]) -> dict[str, str]:
    """Give the hash of the rows of each partition; empty for one that has none."""
    entries = workspace.ledger.read(table)
    return {key: entries[key].content if key in entries else "" for key in partitions}


def materialize_partitions(
    workspace: Workspace,
    table: str,
    inputs: Mapping[str, str],
    compute: Compute,
    *,
    counts: dict[str, int | float | str] | None = None,
    at_once: int | None = None,
) -> StageReport:
    """Make the partitions of a table whose inputs changed.

    Args:
        workspace: The workspace.
        table: Name of the table.
        inputs: Hash of the inputs of each wanted partition.
        compute: Gives the rows of the partitions that it is asked for.
        counts: Figures of the stage; ``compute`` may add to it.
        at_once: Partitions that are computed before they are written, or None for all of them; a stop loses what
            is computed and not written.

    Returns:
        What was done.
    """
    started = time.perf_counter()
    # Another version of the library may make other rows, or other columns, of the same inputs.
    columns = polars_schema(TABLES[table]).names()
    inputs = {key: digest([__version__, *columns, value]) for key, value in inputs.items()}
    pending = workspace.ledger.pending(table, inputs, list_partitions(workspace.tables, table))
    preview = pl.DataFrame()
    size = at_once or max(len(pending), 1)
    for start in range(0, len(pending), size):
        keys = pending[start : start + size]
        frames = compute(keys)
        entries = {}
        for key in keys:
            written = write_partition(workspace.tables, table, key, frames[key])
            entries[key] = Entry(inputs[key], written.content_hash, written.rows)
            if preview.is_empty():
                preview = frames[key].head(_PREVIEW_ROWS)
        workspace.ledger.record(table, entries)
    known = workspace.ledger.read(table)
    report = StageReport(
        table=table,
        rows=sum(known[key].rows for key in inputs),
        partitions=len(inputs),
        computed=len(pending),
        seconds=time.perf_counter() - started,
        counts=dict(counts or {}),
        preview=preview,
    )
    log_report(report)
    return report


def split_by_partition(
    frame: pl.DataFrame, partitions: Sequence[str], *, keep_key: bool = False
) -> dict[str, pl.DataFrame]:
    """Cut a frame by its ``partition`` column.

    Args:
        frame: Rows with a column ``partition``.
        partitions: The wanted keys; one without rows gives an empty frame.
        keep_key: Whether the column stays.

    Returns:
        The rows of each wanted key, in their order.
    """
    groups = frame.partition_by("partition", as_dict=True, maintain_order=True, include_key=keep_key)
    absent = frame.clear() if keep_key else frame.drop("partition").clear()
    return {key: groups.get((key,), absent) for key in partitions}
