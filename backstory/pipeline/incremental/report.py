"""Result of one stage of the pipeline, in numbers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import polars as pl

from backstory.base.telemetry import PRINTED, log_event
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE

UNREAD_STATUSES: Final = ("set_aside", "failed")
"""Statuses of files that need a person's attention."""

CLEARED: Final = "cleared"
"""Count that holds a sentence: which copies of dropped rows were deleted, and which are left."""

_SPENT: Final = ("embedding_", "rerank", "writing_", "api_cost", CLEARED)
"""Beginnings of the names of the counts of work, not of rows."""

Counts: TypeAlias = Mapping[str, int | float | str]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageResult:
    """Counts and timings of one stage of one run.

    ``rows`` and ``keys`` are those of the wanted partitions that are made, of which this run rebuilt ``computed``.
    ``failures`` says why others could not be made, and ``stopped`` which budget or limit ``left`` some for a later run.
    """

    table: str
    rows: int = 0
    keys: Sequence[str] = ()
    computed: int = 0
    seconds: float = 0.0
    counts: Counts = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    stopped: str | None = None
    left: Sequence[str] = ()

    @property
    def figures(self) -> Counts:
        """All figures by name, for logs and traces."""
        known = {"rows": self.rows, "partitions": len(self.keys), "computed": self.computed}
        return {**known, "seconds": round(self.seconds, 3), **self.counts}


def join_rounds(rounds: Sequence[StageResult], entries: Mapping[str, Entry]) -> StageResult:
    """Join the results of one stage that was made several times, for one partition after another.

    Most figures describe rows: of the results about the same partitions, the last that rebuilt some counts. What was
    spent is added up.
    """
    rebuilt = {tuple(made.keys): made for made in rounds if made.computed}
    counts, spent = dict[str, int | float | str](), dict[str, int | float | str]()
    for made in rebuilt.values() or rounds[-1:]:
        add_counts(counts, made.counts)
    keys = sorted({key for made in rounds for key in made.keys})
    # Of a table without partitions, the last round says what holds.
    added = _SPENT if WHOLE in keys else (*_SPENT, "notice")
    for made in rounds:
        add_counts(spent, {name: value for name, value in made.counts.items() if name.startswith(added)})
    return replace(
        rounds[-1],
        rows=sum(entries[key].rows for key in keys),
        keys=keys,
        computed=sum(made.computed for made in rebuilt.values()),
        seconds=sum(made.seconds for made in rounds),
        counts=counts | spent,
    )


def add_counts(counts: dict[str, int | float | str], more: Counts) -> None:
    """Add a group's figures to the totals of the earlier groups. Texts that differ are listed."""
    for name, value in more.items():
        known = counts.get(name, "" if isinstance(value, str) else 0)
        if not isinstance(value, str) and not isinstance(known, str):
            counts[name] = known + value
        elif str(value) not in str(known):
            counts[name] = f"{known}; {value}" if known else value


def log_unread(sources: pl.DataFrame) -> None:
    """Log each file that was set aside or could not be read."""
    unread = sources.filter(pl.col("status").is_in(UNREAD_STATUSES))
    for row in unread.select("folder", "source", "status", "reason").iter_rows(named=True):
        log_event(logger, "file not read", row, level=logging.WARNING, extra=PRINTED)
