"""One run over a workspace: choose partitions, skip the run if nothing changed, execute stages and checks.

``backstory run`` executes the stages in its own process (:func:`execute_stages`), and ``python -m pipelines`` as a
Dagster job; both share the rest of a run, which is in this module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from time import perf_counter
from typing import TypeAlias

import polars as pl

from backstory import pipeline
from backstory.errors import DamagedTableError, InputError
from backstory.full_disks import naming_full_disk
from backstory.inspection.checks import Finding
from backstory.making import Tell, make_tables
from backstory.messages.export_files import require_exports
from backstory.pipeline.stage_report import UNREAD_STATUSES, StageReport
from backstory.runs import BY_COMMAND
from backstory.tables import read_table
from backstory.tables.contracts import empty
from backstory.tables.partitions import partition_key, partition_range
from backstory.tables.schemas import Sources
from backstory.tables.views import write_views
from backstory.telemetry import observe_run
from backstory.telemetry.logs import PRINTED
from backstory.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Execution:
    """Result of executing the stages.

    Attributes:
        reports: One report for each stage that made something; several if some of its partitions failed.
        findings: One finding for each executed check.
        failures: What is broken and why, a sentence for each cause; empty if everything was made.
        waiting: Which batch jobs the remaining stages wait for; empty if they wait for none.
        stopped: Which budget or limit stopped the run, what is left, and when it can go on; None if none did.
    """

    reports: Sequence[StageReport] = ()
    findings: Sequence[Finding] = ()
    failures: Sequence[str] = ()
    waiting: str = ""
    stopped: str | None = None

    @property
    def finished(self) -> bool:
        """Whether everything was made: nothing failed, waits, or was left by a stop."""
        return not self.failures and not self.waiting and self.stopped is None


Execute: TypeAlias = Callable[[Workspace, Sequence[str], Tell], Execution]


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Attributes:
        run_id: Id of the run; also that of the Dagster run, if the stages ran as one.
        wanted: Keys of the wanted partitions.
        fresh: Whether nothing had changed, so that all stages were skipped.
        execution: Result of the stages and checks; empty if nothing had changed.
        seconds: Wall-clock time.
        sources: Table ``sources`` after the run.
    """

    run_id: str
    wanted: Sequence[str]
    fresh: bool
    execution: Execution
    seconds: float
    sources: pl.DataFrame = field(repr=False)

    @property
    def partitions(self) -> int:
        """Number of wanted partitions."""
        return len(self.wanted)

    @property
    def success(self) -> bool:
        """Whether no stage failed and no blocking check found a problem; the run may be waiting or stopped."""
        return not self.execution.failures

    @property
    def computed(self) -> int:
        """Number of rebuilt partitions over all tables."""
        return sum(report.computed for report in self.execution.reports)

    @property
    def unfinished(self) -> pl.DataFrame:
        """Rows of ``sources`` of files that were set aside or could not be read."""
        return self.sources.filter(pl.col("status").is_in(UNREAD_STATUSES))

    def total(self, figure: str) -> int:
        """Add up a figure that stages count, such as ``embedding_tokens``; 0 if no stage counts it."""
        values = [report.counts.get(figure, 0) for report in self.execution.reports]
        return sum(int(value) for value in values if isinstance(value, int | float))


def find_wanted(workspace: Workspace, first: date | None, last: date | None) -> list[str]:
    """List the partitions of a range of days.

    Args:
        workspace: An open workspace.
        first: First day in UTC, or None for that of the first message.
        last: Last day in UTC, inclusive, or None for that of the last message.

    Returns:
        Keys without gaps, at least one.

    Raises:
        InputError: The range is empty.
        WorkspaceError: There is no message to read, or for a range with both ends, no folder of exports.
        ExportError: An export as a whole cannot be read.
    """
    if first is not None and last is not None and last < first:
        raise InputError(f"--to {last} lies before --from {first}; swap the two")
    grain = workspace.settings.partitions.grain
    require_exports(workspace.exports)
    found = pipeline.find_partitions(workspace) if first is None or last is None else []
    start = found[0] if first is None else partition_key(datetime.combine(first, time(0), UTC), grain)
    end = found[-1] if last is None else partition_key(datetime.combine(last, time(23), UTC), grain)
    if end < start:
        raise InputError(
            f"--from {first} lies after the last message ({end})"
            if last is None
            else f"--to {last} lies before the first message ({start})"
        )
    return partition_range(start, end, grain)


def run_workspace(
    workspace: Workspace, partitions: Sequence[str], tell: Tell, execute: Execute, by: str = BY_COMMAND
) -> Outcome:
    """Build every table for some partitions, unless nothing has changed since the last run.

    A second run of the same workspace, in this process or another, waits until the first has ended. ``execute`` is
    called inside, so that it must not wait for its turn again.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions, from :func:`find_wanted`.
        tell: Called with each report and finding as soon as there is one.
        execute: Runs the stages and checks, such as :func:`execute_stages`.
        by: What executes them, for the runs that wait for this one.

    Returns:
        The outcome. A failed stage is reported in it, not raised.
    """
    with observe_run(partitions) as run_id:
        outcome = _run(workspace, partitions, tell, execute, by, run_id)
        log_run(outcome)
    return outcome


def _run(
    workspace: Workspace, partitions: Sequence[str], tell: Tell, execute: Execute, by: str, run_id: str
) -> Outcome:
    started = perf_counter()
    with (
        naming_full_disk(workspace.root),
        workspace.runs.taking_turn(by, partitions),
        workspace.ledger.kept_open(),
    ):
        fresh = pipeline.is_fresh(workspace, partitions)
        execution = Execution() if fresh else execute(workspace, partitions, tell)
        # Also if nothing has changed: the folder may have moved, or the file of the views may be lost or damaged.
        write_views(workspace.tables)
        workspace.runs.repair_table()
        if not fresh and execution.finished:
            pipeline.record_run(workspace, partitions)
        sources = _read_sources(workspace, execution)
    return Outcome(
        run_id=run_id,
        wanted=partitions,
        fresh=fresh,
        execution=execution,
        seconds=perf_counter() - started,
        sources=sources,
    )


def log_run(outcome: Outcome) -> None:
    """Log the end of a run, with its figures and each failure."""
    for failure in outcome.execution.failures:
        logger.error("run failed reason=%s", failure, extra=PRINTED)
    logger.info(
        "run ended success=%s fresh=%s computed=%d files_not_read=%d seconds=%.2f",
        outcome.success,
        outcome.fresh,
        outcome.computed,
        len(outcome.unfinished),
        outcome.seconds,
    )


def _read_sources(workspace: Workspace, execution: Execution) -> pl.DataFrame:
    """Read the status of each file; empty if a failed stage left the table damaged."""
    try:
        return read_table(workspace.tables, "sources")
    except DamagedTableError:
        if execution.finished:
            raise
        return empty(Sources)


def execute_stages(workspace: Workspace, partitions: Sequence[str], tell: Tell) -> Execution:
    """Execute the stages in this process, each followed by its checks, and record the run.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions.
        tell: Called with each report and finding as soon as there is one.

    Returns:
        The result. What is broken is named in its failures; all other partitions are made.
    """
    with workspace.runs.record(BY_COMMAND, partitions) as finish:
        made = make_tables(workspace, [stage.table for stage in pipeline.STAGES], partitions, tell)
        finish(made.describe_end())
    return Execution(
        [report for reports in made.reports.values() for report in reports],
        list(made.findings.values()),
        made.describe_failures(),
        made.waiting,
        made.stopped,
    )
