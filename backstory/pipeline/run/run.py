"""A run: what is wanted of it, and what became of it. Commands, Dagster, alerts and the history read this object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from backstory.base.wording import name_some
from backstory.pipeline.checks.checks import Check, CheckResult, checks_after, remembered_cases
from backstory.pipeline.history.history import BY_COMMAND, FAILED, STOPPED, SUCCEEDED, RunEnd
from backstory.pipeline.incremental.report import UNREAD_STATUSES, StageResult
from backstory.pipeline.run.differences import Differences
from backstory.pipeline.run.plan import ALL_TABLES, STAGES
from backstory.pipeline.stages.posts import POSTS
from backstory.pipeline.stages.stage import Stage
from backstory.pipeline.stages.writer_material import find_neighbours
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.partitions import previous_partition
from backstory.storage.tables.schemas import Sources
from backstory.storage.tables.tables import WHOLE

_SHOWN_PARTITIONS: Final = 3


class RunPosition(NamedTuple):
    """Where a run stands: the table that it makes, and how many of its steps (tables, or days by turns) are done."""

    table: str
    done: int
    total: int


RunEvent: TypeAlias = StageResult | CheckResult | RunPosition
"""The report of a stage, the finding of a check, or where the run stands when it begins to make a table."""

OnProgress: TypeAlias = Callable[[RunEvent], None]
"""Callback for the events of a run, called as soon as there is one."""


def ignore_progress(event: RunEvent) -> None:
    """Do nothing with an event."""


@dataclass
class Run:
    """One run over a workspace. The caller fills in what is wanted, up to ``keeps_contexts``; the run the rest.

    Without ``partitions``, only tables without them are built; the run adds those that hold names of people who joined
    later. With ``keeps_contexts``, ``partitions.after_posts`` chooses the partitions to search again after changed
    documents, and ``kept`` are those that keep their contexts. Unless a run ``isolates_failures``, the first is raised.
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
    """Whether nothing had changed, so that all stages were skipped."""
    made: dict[str, StageResult] = field(default_factory=dict)
    broken: dict[str, dict[str, str]] = field(default_factory=dict)
    """By table and partition, or :data:`WHOLE`, why it could not be built or is damaged."""
    found: dict[Check, CheckResult] = field(default_factory=dict)
    stopped: str | None = None
    """Which budget or limit stopped the run, and what is left."""
    errors: list[str] = field(default_factory=list)
    """Failures outside of the stages, a sentence each."""
    differences: Differences = field(default_factory=Differences)
    seconds: float = 0.0
    sources: pl.DataFrame = field(default_factory=lambda: empty(Sources), repr=False)
    _causes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

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
        return not self.troubles

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
        return sum(int(made.counts.get(figure, 0)) for made in self.made.values())

    def good(self, table: str, partitions: Sequence[str]) -> list[str]:
        """Return those of the partitions that are not broken."""
        broken = self.broken.get(table, {})
        return [] if WHOLE in broken else [key for key in partitions if key not in broken]

    def fail(self, table: str, reasons: Mapping[str, str]) -> None:
        """Record why partitions are broken by themselves, not because a table that they read is broken."""
        self.leave(table, reasons)
        for key, reason in reasons.items():
            self._causes.setdefault(reason, []).append((table, key))

    def leave(self, table: str, reasons: Mapping[str, str]) -> None:
        """Record why partitions are not built, such as another table, or a stop."""
        if reasons:
            self.broken.setdefault(table, {}).update(reasons)


def find_broken(workspace: Workspace, partitions: Sequence[str]) -> Run:
    """Find the partitions in which a blocking check has found cases, and those that read them; nothing is built."""
    run = Run(partitions)
    for stage in STAGES:
        places = partitions if stage.partitioned else [WHOLE]
        run.leave(stage.table, find_inherited(workspace, stage, places, run))
        for check in filter(lambda check: check.blocking, checks_after(stage.table)):
            reason = f"{check.table}, check {check.name}"
            run.leave(check.table, dict.fromkeys(remembered_cases(workspace, check), reason))
    return run


def find_inherited(
    workspace: Workspace, stage: type[Stage], partitions: Sequence[str], run: Run
) -> dict[str, str]:
    """Find the partitions that cannot be built because a table that they read is broken."""
    inherited: dict[str, str] = {}
    for table in filter(run.broken.get, stage.reads):
        broken = set(run.broken[table])
        if WHOLE in broken:
            return dict.fromkeys(partitions, f"{table} is broken")
        if table == "messages" and stage.overlaps and workspace.settings.windows.overlap:
            grain = workspace.settings.partitions.grain
            broken |= {key for key in partitions if previous_partition(key, grain) in broken}
        if stage.table == POSTS:  # a letter tells of several partitions
            told = {key: find_neighbours(workspace, key).told for key in partitions}
            broken |= {key for key, others in told.items() if not broken.isdisjoint(others)}
        inherited |= dict.fromkeys(broken.intersection(partitions), f"{table} is broken")
    return inherited
