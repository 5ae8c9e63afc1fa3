"""Incremental builds: only partitions whose inputs changed are rebuilt, and each file is replaced atomically."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

import polars as pl

from backstory.base.errors import ContractError, WorkspaceError
from backstory.base.ids import digest
from backstory.base.wording import name_some
from backstory.pipeline.incremental.fingerprints import code_version
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.tables import WHOLE, Made

_MADE_BY = "made by"
_NOT_MADE = "not made"

logger = logging.getLogger(__name__)


def content_of(workspace: Workspace, table: str, partitions: Sequence[str]) -> dict[str, str]:
    """Return a hash of each partition's rows: empty for no rows, ``not made`` for a partition never built."""
    entries = workspace.catalog.read(table)
    return {key: entries[key].content if key in entries else _NOT_MADE for key in partitions}


def read_table_rows(workspace: Workspace, table: str, partitions: Sequence[str]) -> pl.DataFrame:
    """Read the input partitions of a stage. A partition that was never built is an error, not an empty table."""
    entries = workspace.catalog.read(table)
    absent = [key for key in partitions if key not in entries]
    if absent:
        raise WorkspaceError(
            f"{table} {name_some(absent, 1)} does not exist; materialize {table} for the same days first, or run "
            "`backstory run`",
            code="unmade_partition",
        )
    return workspace.tables.read(table, partitions)


def read_previous(workspace: Workspace, table: str) -> pl.DataFrame | None:
    """Read the previous output of a stage, so that its unchanged rows can be reused.

    It is None if the rows are not recorded or are damaged, which is logged.
    """
    if WHOLE not in workspace.catalog.read(table):
        return None
    try:
        return workspace.tables.read(table)
    except ContractError as error:
        logger.warning("%s", error)
        return None


def find_stale_partitions(workspace: Workspace, table: str, inputs: Mapping[str, str]) -> list[str]:
    """List the partitions of a table that a run would rebuild.

    Their inputs changed, or their file is not the one that was written.
    """
    return workspace.tables.stale(table, add_columns(table, inputs))


def add_columns(table: str, inputs: Mapping[str, str]) -> dict[str, str]:
    """Return what the catalog records as the inputs of partitions: their hash, with the columns of the table."""
    columns = TABLES[table].schema.names()
    return {key: digest([*columns, value]) for key, value in inputs.items()}


def write_side_output(
    workspace: Workspace,
    table: str,
    frames: Mapping[str, pl.DataFrame],
    inputs: str,
    without: Collection[str] = (),
) -> None:
    """Write partitions of a stage's secondary table with their inputs, and remove others."""
    made = {(table, key): Made(rows, inputs) for key, rows in frames.items()}
    workspace.tables.commit(made, without=[(table, key) for key in without])


def record_maker(workspace: Workspace, table: str) -> None:
    """Record the version of the code and the calendar grain that made a table."""
    entry = Entry(code_version(table), workspace.settings.partitions.grain, 0)
    if workspace.catalog.read(_MADE_BY).get(table) != entry:
        workspace.catalog.record(_MADE_BY, {table: entry})


def is_made_by_this_code(workspace: Workspace, table: str) -> bool:
    """Check whether the current version of its stage built the table, so that its rows can be reused."""
    known = workspace.catalog.read(_MADE_BY).get(table)
    return known is not None and known.inputs == code_version(table)


def drop_other_grain(workspace: Workspace, table: str, wanted: Iterable[str]) -> bool:
    """Remove the partitions of another calendar grain, whose rows would duplicate those of the current grain.

    It returns whether there were any.
    """
    grain = workspace.settings.partitions.grain
    known = workspace.catalog.read(_MADE_BY).get(table)
    if WHOLE in wanted or known is None or known.content == grain:
        return False
    partitions = workspace.tables.keys(table)
    workspace.catalog.forget(table, workspace.catalog.read(table))
    logger.warning(
        "partitions.grain is %s and was %s: dropped all %d partitions of %s, which the old grain made",
        grain,
        known.content,
        len(partitions),
        table,
    )
    return True


def group_partitions(partitions: Sequence[str], weights: Mapping[str, int], most: int) -> list[list[str]]:
    """Cut a list of partitions into runs of limited weight.

    A partition that is heavier than ``most`` is a run alone.
    """
    groups: list[list[str]] = []
    room = 0
    for key in partitions:
        weight = weights.get(key, 0)
        if not groups or weight > room:
            groups.append([])
            room = most
        groups[-1].append(key)
        room -= weight
    return groups


def count_rows(workspace: Workspace, table: str, partitions: Sequence[str]) -> dict[str, int]:
    """Return the number of recorded rows of each partition of a table that was built."""
    entries = workspace.catalog.read(table)
    return {key: entries[key].rows for key in partitions if key in entries}


def split_by_partition(
    frame: pl.DataFrame, partitions: Sequence[str], *, keep_key: bool = False
) -> dict[str, pl.DataFrame]:
    """Cut a frame by its ``partition`` column. A wanted key without rows gets an empty frame."""
    groups = frame.partition_by("partition", as_dict=True, maintain_order=True, include_key=keep_key)
    absent = frame.clear() if keep_key else frame.drop("partition").clear()
    return {key: groups.get((key,), absent) for key in partitions}
