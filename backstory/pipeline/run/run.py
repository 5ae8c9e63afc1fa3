"""A run: what is wanted of it, and what became of it. Commands, Dagster, alerts and the history read this object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from backstory.base.wording import name_some
from backstory.pipeline.checks.cases import CheckResult
from backstory.pipeline.checks.checks import Check
from backstory.pipeline.history.history import BY_COMMAND
from backstory.pipeline.history.record import FAILED, STOPPED, SUCCEEDED, RunEnd
from backstory.pipeline.incremental.report import UNREAD_STATUSES, StageResult
from backstory.pipeline.run.differences import Differences
from backstory.pipeline.run.plan import ALL_TABLES
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import Sources
from backstory.storage.tables.tables import WHOLE

_SHOWN_PARTITIONS: Final = 3

Reasons: TypeAlias = Mapping[str, str]
"""Partition key to the reason why the partition could not be built."""


class RunPosition(NamedTuple):
    """Where a run stands. Of the positions of one run, no later one has less done or another total.

    Attributes:
        table: The table that it makes.
        done: Finished steps of the run: tables, or with feedback the partitions that are made in turn.
        total: All of them.
        has_turns: Whether this step is one partition of all tables, so that a table is only a part of it.
    """

    table: str
    done: int
    total: int
    has_turns: bool = False


RunEvent: TypeAlias = StageResult | CheckResult | RunPosition
"""The report of a stage, the finding of a check, or where the run stands when it begins to make a table."""


@dataclass
class Run:
    """One run over a workspace. The caller fills in what is wanted; the run fills in what became of it.

    Attributes:
        partitions: Keys of the wanted partitions, in order; empty to build only tables without partitions. The run adds
            those that hold names of people who joined later.
        tables: Names of the tables to build.
        by: What runs, for the history and for the runs that wait for this one.
        dagster_run_id: Id of the run in Dagster; None outside of Dagster.
        isolates_failures: Whether to build all that a failure does not concern, and to describe the failure.
            Otherwise the first failure is raised.
        checks: Whether to run the checks of each table after it.
        keeps_contexts: Whether ``partitions.after_posts`` chooses the partitions to search again after changed
            documents; otherwise all are.
        id: Id of the run; also that of the Dagster run, if the stages ran as one.
        kept: Partitions that keep their contexts of an earlier snapshot.
        fresh: Whether nothing had changed, so that all stages were skipped.
        made: What was made of each table of which anything was.
        broken: By table and partition, why the partition could not be built or is damaged. The key is :data:`WHOLE`
            for a table without partitions.
        found: The finding of each check that ran.
        stopped: Which budget or limit stopped the run, and what is left; None if none did.
        refused_at: The table at which the run stopped, since it would have removed messages or documents.
        errors: Failures outside of the stages, a sentence each.
        differences: What is different for a reader.
        seconds: Wall-clock time.
        sources: Table ``sources`` after the run.
    """

    partitions: Sequence[str]
    tables: frozenset[str] = ALL_TABLES
    by: str = BY_COMMAND
    dagster_run_id: str | None = None
    isolates_failures: bool = True
    checks: bool = True
    keeps_contexts: bool = False
    id: str = ""
    kept: frozenset[str] = frozenset()
    fresh: bool = False
    made: dict[str, StageResult] = field(default_factory=dict)
    broken: dict[str, dict[str, str]] = field(default_factory=dict)
    found: dict[Check, CheckResult] = field(default_factory=dict)
    stopped: str | None = None
    refused_at: str = ""
    errors: list[str] = field(default_factory=list)
    differences: Differences = field(default_factory=Differences)
    seconds: float = 0.0
    sources: pl.DataFrame = field(default_factory=lambda: empty(Sources), repr=False)
    _causes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether the run builds and checks every table."""
        return self.checks and bool(self.partitions) and self.tables >= ALL_TABLES

    @property
    def failures(self) -> list[str]:
        """Each cause of failure, in a sentence that names the table and its broken partitions."""
        sentences = list(self.errors)
        for reason, places in self._causes.items():
            table = places[0][0]
            keys = [key for name, key in places if name == table and key != WHOLE]
            where = f" ({name_some(keys, _SHOWN_PARTITIONS)})" if keys else ""
            sentences.append(f"{reason}{where}" if reason.startswith(table) else f"{table}{where}: {reason}")
        return sentences

    @property
    def troubles(self) -> list[str]:
        """The failures, and what stopped the run; empty if everything was built."""
        return [*self.failures, *filter(None, [self.stopped])]

    @property
    def success(self) -> bool:
        """Whether no stage failed and no blocking check found a problem; the run may be stopped."""
        return not (self._causes or self.errors)

    @property
    def finished(self) -> bool:
        """Whether everything was built: nothing failed or was left by a stop."""
        return self.success and self.stopped is None

    @property
    def computed(self) -> int:
        """Number of rebuilt partitions over all tables."""
        return sum(made.computed for made in self.made.values())

    @property
    def unfinished(self) -> pl.DataFrame:
        """Rows of ``sources`` of files that were set aside or could not be read."""
        return self.sources.filter(pl.col("status").is_in(UNREAD_STATUSES))

    @property
    def end(self) -> RunEnd:
        """How the run ended, without the reasons of failures, which may name people and files."""
        failed = next((places[0][0] for places in self._causes.values()), None)
        why = f"{failed}: partitions failed; the output of the run says which and why" if failed else None
        status = FAILED if failed else STOPPED if self.stopped else SUCCEEDED
        return RunEnd(status, why or self.stopped, len(self._causes), self.computed > 0)

    def total(self, figure: str) -> int:
        """Add up a figure that stages count, such as ``embedding_tokens``; 0 if no stage counts it."""
        values = [made.counts.get(figure, 0) for made in self.made.values()]
        return sum(int(value) for value in values if isinstance(value, int | float))

    def good(self, table: str, partitions: Sequence[str]) -> list[str]:
        """Return those of the partitions that are not broken."""
        broken = self.broken.get(table, {})
        return [] if WHOLE in broken else [key for key in partitions if key not in broken]

    def fail(self, table: str, reasons: Reasons) -> None:
        """Record partitions that are broken by themselves, not because a table that they read is broken."""
        self.leave(table, reasons)
        for key, reason in reasons.items():
            self._causes.setdefault(reason, []).append((table, key))

    def leave(self, table: str, reasons: Reasons) -> None:
        """Record partitions that are not built because of another table, or of a stop."""
        if reasons:
            self.broken.setdefault(table, {}).update(reasons)
