"""Incremental builds: only partitions whose inputs changed are rebuilt, and each file is replaced atomically."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl

from backstory.errors import ContractError, WorkspaceError
from backstory.ids import digest
from backstory.pipeline.inputs import code_version
from backstory.pipeline.stage_report import StageReport, log_report
from backstory.tables import hash_partitions, list_partitions, read_table, write_partition, write_partitions
from backstory.tables.contracts import empty, polars_schema
from backstory.tables.ledger import Entry
from backstory.tables.locks import writing_table
from backstory.tables.schemas import TABLES
from backstory.telemetry import describe_range, observe
from backstory.workspace import Workspace

WHOLE = "all"
"""Key of the only partition of a table without partitions."""

_PREVIEW_ROWS = 5
_MADE_BY = "made by"
_NOT_MADE = "not made"
_CHANGED = "changed while it was read"

logger = logging.getLogger(__name__)

Compute = Callable[[list[str]], Mapping[str, pl.DataFrame]]
Weigh = Callable[[list[str]], Mapping[str, int]]


def content_of(workspace: Workspace, table: str, partitions: Sequence[str]) -> dict[str, str]:
    """Return a hash of each partition's rows: empty for no rows, ``not made`` for a partition never built."""
    entries = workspace.ledger.read(table)
    return {key: entries[key].content if key in entries else _NOT_MADE for key in partitions}


def read_made(workspace: Workspace, table: str, partitions: Sequence[str]) -> pl.DataFrame:
    """Read the input partitions of a stage. A partition that was never built is an error, not an empty table.

    Args:
        workspace: An open workspace.
        table: A name of :data:`backstory.tables.schemas.TABLES`.
        partitions: Keys of the partitions.

    Returns:
        Their rows, as :func:`backstory.tables.read_table` gives them.

    Raises:
        WorkspaceError: A partition was never built, or a process was killed while writing it.
        DamagedTableError: A file is absent, damaged, or differs from the one that was written.
    """
    entries = workspace.ledger.read(table)
    if any(key not in entries for key in partitions):
        # Another run may be replacing them: their entries are back when it has written them.
        with writing_table(workspace.tables, table):
            entries = workspace.ledger.read(table)
    absent = [key for key in partitions if key not in entries]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise WorkspaceError(
            f"{table} {absent[0]}{more} is not made, or was not finished; materialize {table} for the same days "
            "first, or run `backstory run`"
        )
    return read_table(workspace.tables, table, partitions)


def read_previous(workspace: Workspace, table: str) -> pl.DataFrame | None:
    """Read the previous output of a stage, so that its unchanged rows can be reused.

    Returns:
        All rows of the table; None if they are not recorded or are damaged, which is logged.
    """
    if WHOLE not in workspace.ledger.read(table):
        return None
    try:
        return read_table(workspace.tables, table)
    except ContractError as error:
        logger.warning("%s", error)
        return None


def find_pending(workspace: Workspace, table: str, inputs: Mapping[str, str]) -> list[str]:
    """List the partitions of a table that a run would rebuild.

    Args:
        workspace: An open workspace.
        table: A name of :data:`backstory.tables.schemas.TABLES`.
        inputs: Hash of the inputs of each wanted partition.

    Returns:
        Partitions whose inputs changed, or whose file differs from the one written, in the order of ``inputs``.
    """
    contents = hash_partitions(workspace.tables, table)
    return workspace.ledger.pending(table, _with_columns(table, inputs), contents)


def write_beside(workspace: Workspace, table: str, frames: Mapping[str, pl.DataFrame], inputs: str) -> None:
    """Write partitions of a stage's secondary table, and record their inputs."""
    with writing_table(workspace.tables, table):
        workspace.ledger.forget(table, frames)
        written = write_partitions(workspace.tables, table, frames)
        workspace.ledger.record(
            table, {key: Entry(inputs, done.content_hash, done.rows) for key, done in written.items()}
        )


def materialize_partitions(
    workspace: Workspace,
    table: str,
    inputs: Mapping[str, str],
    compute: Compute,
    *,
    weigh: Weigh | None = None,
    read_inputs_again: Callable[[], Mapping[str, str]] | None = None,
    counts: dict[str, int | float | str] | None = None,
) -> StageReport:
    """Rebuild the partitions of a table whose inputs changed, or whose file differs from the one written.

    Neighbouring partitions are built in groups. Each group is written and recorded before the next one starts, so
    that memory does not grow with the range and a killed process loses one group at most. The rows of a partition
    do not depend on its group. Ledger entries of a group are removed before its first file is written.

    Args:
        workspace: An open workspace.
        table: A name of :data:`backstory.tables.schemas.TABLES`.
        inputs: Hash of the inputs of each wanted partition.
        compute: Returns the rows of the given partitions.
        weigh: Returns the number of input rows of each partition, so that the setting
            ``partitions.rows_at_once`` can limit the groups; None to build all at once.
        read_inputs_again: For inputs that may change while they are read: returns ``inputs`` after the rows
            were computed. A partition whose inputs changed meanwhile is written, and rebuilt by the next run.
        counts: Figures of the stage; ``compute`` may add to it.

    Returns:
        What was done.

    Raises:
        StoppedError: A budget or a limit was reached; the groups before it are written and recorded.
    """
    started = time.perf_counter()
    counts = {} if counts is None else counts
    _drop_other_grain(workspace, table, inputs)
    pending = find_pending(workspace, table, inputs)
    preview = pl.DataFrame()
    weights = weigh(pending) if weigh and pending else {}
    finished = 0
    for group in group_partitions(pending, weights, workspace.settings.partitions.rows_at_once):
        workspace.runs.advance(table, group[0], finished, len(pending))
        with (
            observe("partitions", **describe_range(group), count=len(group)),
            workspace.runs.pricing(counts),
        ):
            frames = compute(group)
        again = inputs if read_inputs_again is None else read_inputs_again()
        read = {key: inputs[key] if again[key] == inputs[key] else _CHANGED for key in group}
        made_from = _with_columns(table, read)
        with writing_table(workspace.tables, table):
            workspace.ledger.forget(table, group)
            written = write_partitions(workspace.tables, table, {key: frames[key] for key in group})
            workspace.ledger.record(
                table,
                {key: Entry(made_from[key], done.content_hash, done.rows) for key, done in written.items()},
            )
        finished += len(group)
        if preview.is_empty():
            preview = next((_copy_head(frames[key]) for key in group if len(frames[key])), preview)
    workspace.ledger.record(
        _MADE_BY, {table: Entry(code_version(table), workspace.settings.partitions.grain, 0)}
    )
    known = workspace.ledger.read(table)
    report = StageReport(
        table=table,
        rows=sum(known[key].rows for key in inputs),
        partitions=len(inputs),
        computed=len(pending),
        seconds=time.perf_counter() - started,
        counts=dict(counts),
        preview=preview,
    )
    log_report(report)
    return report


def is_made_by_this_code(workspace: Workspace, table: str) -> bool:
    """Check whether the current version of its stage built the table, so that its rows can be reused."""
    known = workspace.ledger.read(_MADE_BY).get(table)
    return known is not None and known.inputs == code_version(table)


def _with_columns(table: str, inputs: Mapping[str, str]) -> dict[str, str]:
    columns = polars_schema(TABLES[table]).names()
    return {key: digest([*columns, value]) for key, value in inputs.items()}


def _drop_other_grain(workspace: Workspace, table: str, wanted: Iterable[str]) -> None:
    """Remove the partitions of another calendar grain, whose rows would duplicate those of the current grain."""
    grain = workspace.settings.partitions.grain
    known = workspace.ledger.read(_MADE_BY).get(table)
    if WHOLE in wanted or known is None or known.content == grain:
        return
    partitions = list_partitions(workspace.tables, table)
    workspace.ledger.forget(table, workspace.ledger.read(table))
    for key in partitions:
        write_partition(workspace.tables, table, key, empty(TABLES[table]))
    logger.warning(
        "partitions.grain is %s and was %s: dropped all %d partitions of %s, which the old grain made",
        grain,
        known.content,
        len(partitions),
        table,
    )


def group_partitions(partitions: Sequence[str], weights: Mapping[str, int], most: int) -> list[list[str]]:
    """Cut a list of partitions into runs of limited weight.

    Args:
        partitions: Keys of partitions, in order.
        weights: Weight of each; 0 for one that is absent.
        most: Maximum weight of a run; a heavier partition forms a run alone.

    Returns:
        The runs, which are the given list when joined.
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


def rows_of(workspace: Workspace, table: str) -> Weigh:
    """Return a function that weighs partitions by their number of rows in a table."""

    def weigh(partitions: list[str]) -> Mapping[str, int]:
        entries = workspace.ledger.read(table)
        return {key: entries[key].rows for key in partitions if key in entries}

    return weigh


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


def _copy_head(frame: pl.DataFrame) -> pl.DataFrame:
    """Copy the first rows: a slice of a frame keeps all of it in memory."""
    head = frame.head(_PREVIEW_ROWS)
    return pl.DataFrame(head.rows(), schema=head.schema, orient="row")
