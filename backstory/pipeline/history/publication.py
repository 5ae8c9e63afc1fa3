"""The history as the table ``runs``: one Parquet file per month."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import polars as pl

from backstory.base.errors import ContractError
from backstory.pipeline.history.record import RUNNING, RunRecord, month_of, read_records, to_frame
from backstory.storage.state import State
from backstory.storage.tables.tables import Made, Tables

TABLE = "runs"

_MONTHS = 12


def publish_runs(tables: Tables, state: State, months: Iterable[str]) -> None:
    """Write months of the table anew."""
    # The transaction makes rival processes write one after another, each what the history holds then.
    with state.begin() as session:
        for month in sorted(months):
            records = read_records(session, "started_at >= ? AND started_at < ?", _bounds(month))
            begun = [record for record in records if not record.waits_its_turn]
            tables.commit({(TABLE, month): Made(to_frame(begun), "")})


def publish_damaged(tables: Tables, state: State) -> None:
    """Write the months anew whose file is absent, damaged or foreign."""
    if damaged := find_damaged_months(tables, state):
        publish_runs(tables, state, damaged)


def find_damaged_months(tables: Tables, state: State) -> list[str]:
    """Compare the runs that have ended with the table, and return the months in which they differ."""
    with state.reading() as session:
        records = read_records(session, "status != ?", (RUNNING,))
    months = {month_of(record.started_at) for record in records}
    return [
        month
        for month in sorted(months.union(tables.keys(TABLE)))
        if not _is_published(tables, month, [one for one in records if month_of(one.started_at) == month])
    ]


def _is_published(tables: Tables, month: str, ended: Sequence[RunRecord]) -> bool:
    try:
        found = tables.read(TABLE, [month])
    except ContractError:
        return False  # damaged, or of a release with other columns
    return found.filter(pl.col("status") != RUNNING).equals(to_frame(ended))


def _bounds(month: str) -> tuple[float, float]:
    """Return the start of a month and of the next; nothing lies within what is no month."""
    try:
        first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        return 0.0, 0.0
    following = first.replace(year=first.year + first.month // _MONTHS, month=first.month % _MONTHS + 1)
    return first.timestamp(), following.timestamp()
