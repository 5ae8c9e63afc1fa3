"""The history as the table ``runs``: one Parquet file per month."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from backstory.base.errors import ContractError
from backstory.pipeline.history.record import RUNNING, RunRecord, month_of, read_records, to_frame
from backstory.storage.state import State
from backstory.storage.tables.parquet import list_partitions, read_table, write_partition

TABLE = "runs"

_MONTHS = 12


def publish_runs(tables: Path, state: State, months: Iterable[str]) -> None:
    """Write months of the table anew.

    Args:
        tables: Folder of the tables.
        state: What the history lies in.
        months: The months, YYYY-MM. One without runs loses its file.
    """
    # The transaction makes rival processes write one after another, each what the history holds then.
    with state.begin() as session:
        for month in sorted(months):
            records = read_records(session, "started_at >= ? AND started_at < ?", _bounds(month))
            begun = [record for record in records if not record.waits_its_turn]
            write_partition(tables, TABLE, month, to_frame(begun))


def publish_damaged(tables: Path, state: State) -> None:
    """Write the months anew whose file is absent, damaged or foreign."""
    if damaged := find_damaged_months(tables, state):
        publish_runs(tables, state, damaged)


def find_damaged_months(tables: Path, state: State, *, may_lag: bool = False) -> list[str]:
    """Compare the runs that have ended with the table, and return the months in which they differ.

    Args:
        tables: Folder of the tables.
        state: What the history lies in.
        may_lag: Whether the table may lack runs, since other machines add to the history. It may then also lack
            months after the last one that it has, and all of them where nothing has run on this machine.
    """
    with state.reading() as session:
        records = read_records(session, "status != ?", (RUNNING,))
    here = list_partitions(tables, TABLE)
    months = {month_of(record.started_at) for record in records}
    if may_lag:
        # The last run of this machine has written every month up to its own.
        last = here[-1] if here else ""
        lost = (tables / TABLE).is_dir() and not here
        months = {month for month in months if month <= last or lost}
    return [
        month
        for month in sorted(months.union(here))
        if not _is_published(
            tables, month, [one for one in records if month_of(one.started_at) == month], may_lag=may_lag
        )
    ]


def _is_published(tables: Path, month: str, ended: Sequence[RunRecord], *, may_lag: bool) -> bool:
    try:
        found = read_table(tables, TABLE, [month])
    except ContractError:
        return False  # damaged, or of a release with other columns
    may_lag = may_lag and not found.is_empty()  # no month with runs is written without any
    found = found.filter(pl.col("status") != RUNNING)
    if may_lag:
        known = set(found["run_id"])
        ended = [record for record in ended if record.run_id in known]
    return found.equals(to_frame(ended))


def _bounds(month: str) -> tuple[float, float]:
    """Return the start of a month and of the next; nothing lies within what is no month."""
    try:
        first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        return 0.0, 0.0
    following = first.replace(year=first.year + first.month // _MONTHS, month=first.month % _MONTHS + 1)
    return first.timestamp(), following.timestamp()
