"""One run over a workspace, for every caller: a command, a script, the library, forgetting, or a step of Dagster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from time import perf_counter
from typing import TypeAlias

import polars as pl

from backstory.base.errors import ContractError, InputError
from backstory.base.files.disk_full import naming_full_disk
from backstory.base.telemetry.logs import PRINTED, log_event
from backstory.base.telemetry.scope import observe_run
from backstory.ingest.chats.export_files import require_exports
from backstory.pipeline.checks.checks import CheckResult
from backstory.pipeline.history.history import BY_COMMAND, BY_LIBRARY
from backstory.pipeline.incremental.report import CLEARED, UNREAD_STATUSES, StageResult
from backstory.pipeline.run.differences import Differences, compare_tables, read_reader_tables
from backstory.pipeline.run.executor import OnProgress, execute_tables, ignore_progress
from backstory.pipeline.run.freshness import is_fresh, record_run
from backstory.pipeline.run.plan import CORPUS, STAGES
from backstory.pipeline.run.state import RunState
from backstory.pipeline.sharing import require_keys
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.partitions import partition_key, partition_range
from backstory.storage.tables.schemas import Sources

logger = logging.getLogger(__name__)

ALL_TABLES = frozenset(stage.table for stage in STAGES)
"""Tables of all stages."""

TABLES_OF_DOCUMENTS = frozenset(stage.table for stage in CORPUS)
"""Tables of the stages that read no chat."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a run is to build, and how.

    Attributes:
        partitions: Keys of the wanted partitions, in order; empty to build only tables without partitions.
        tables: Names of the tables to build.
        by: What runs, for the history and for the runs that wait for this one.
        run_id: Id of the run in Dagster; None outside of Dagster.
        skips_unchanged: Whether to build nothing if nothing has changed since the last run of these partitions.
        isolates_failures: Whether to build all that a failure does not concern, and to describe the failure in the
            result. Otherwise the first failure is raised.
        checks: Whether to run the checks of each table after it.
        holds_lock: Whether the caller holds the lock of the workspace.
    """

    partitions: Sequence[str]
    tables: frozenset[str] = ALL_TABLES
    by: str = BY_COMMAND
    run_id: str | None = None
    skips_unchanged: bool = False
    isolates_failures: bool = True
    checks: bool = True
    holds_lock: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the run builds and checks every table."""
        return self.checks and bool(self.partitions) and self.tables >= ALL_TABLES


@dataclass(frozen=True)
class RunResult:
    """Result of a run.

    Attributes:
        run_id: Id of the run; also that of the Dagster run, if the stages ran as one.
        partitions: Keys of the wanted partitions.
        fresh: Whether nothing had changed, so that all stages were skipped.
        state: What was built, what is broken, and what the checks found; empty if nothing had changed.
        seconds: Wall-clock time.
        sources: Table ``sources`` after the run.
    """

    run_id: str
    partitions: Sequence[str]
    fresh: bool
    state: RunState
    seconds: float
    sources: pl.DataFrame = field(repr=False)

    @property
    def reports(self) -> list[StageResult]:
        """The reports of the stages; several of one stage if some of its partitions failed."""
        return [report for reports in self.state.reports.values() for report in reports]

    @property
    def differences(self) -> Differences:
        """What is different for a reader."""
        return self.state.differences or Differences()

    @property
    def findings(self) -> list[CheckResult]:
        """The finding of each check that ran."""
        return list(self.state.findings.values())

    @property
    def failures(self) -> list[str]:
        """What is broken and why, a sentence for each cause; empty if everything was built."""
        return self.state.describe_failures()

    @property
    def stopped(self) -> str | None:
        """Which budget or limit stopped the run, what is left, and when it can go on; None if none did."""
        return self.state.stopped

    @property
    def finished(self) -> bool:
        """Whether everything was built: nothing failed or was left by a stop."""
        return self.state.finished

    @property
    def success(self) -> bool:
        """Whether no stage failed and no blocking check found a problem; the run may be stopped."""
        return not self.failures

    @property
    def computed(self) -> int:
        """Number of rebuilt partitions over all tables."""
        return sum(report.computed for report in self.reports)

    @property
    def unfinished(self) -> pl.DataFrame:
        """Rows of ``sources`` of files that were set aside or could not be read."""
        return self.sources.filter(pl.col("status").is_in(UNREAD_STATUSES))

    def total(self, figure: str) -> int:
        """Add up a figure that stages count, such as ``embedding_tokens``; 0 if no stage counts it."""
        values = [report.counts.get(figure, 0) for report in self.reports]
        return sum(int(value) for value in values if isinstance(value, int | float))


Execute: TypeAlias = Callable[[Workspace, RunRequest, OnProgress], RunState]
"""Executes the stages of a run within :func:`execute_run`."""


def find_wanted(workspace: Workspace, first: date | None, last: date | None) -> list[str]:
    """List the partitions of a range of days.

    Args:
        workspace: An open workspace.
        first: First day of the conversations, or None for that of the first message.
        last: Last day, inclusive, or None for that of the last message.

    Returns:
        Keys without gaps, at least one.

    Raises:
        InputError: The range is empty.
        WorkspaceError: There is no message to read, or for a range with both ends, no folder of exports.
        ReadError: An export as a whole cannot be read.
    """
    if first is not None and last is not None and last < first:
        raise InputError(f"--to {last} lies before --from {first}; swap the two", code="swapped_range")
    grain = workspace.settings.partitions.grain
    require_keys(workspace, workspace.tables)
    require_exports(workspace.chats_dir)
    found = find_partitions(workspace) if first is None or last is None else []
    start = found[0] if first is None else partition_key(datetime.combine(first, time(0), UTC), grain)
    end = found[-1] if last is None else partition_key(datetime.combine(last, time(23), UTC), grain)
    if end < start:
        raise InputError(
            f"--from {first} lies after the last message ({end})"
            if last is None
            else f"--to {last} lies before the first message ({start})",
            code="empty_range",
        )
    return partition_range(start, end, grain)


def run_pipeline(workspace: Workspace, partitions: Sequence[str] | None = None) -> list[StageResult]:
    """Build every table of a workspace, without the checks; raise at the first failure.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions, or None for all that the chat exports span. A workspace without
            chats gets the tables of its documents.

    Returns:
        The report of each stage, in the order in which data flows. One that has ``stopped`` set says which budget of
        the writer is used up; with feedback, later partitions are left then.

    Raises:
        BackstoryError: A stage failed. The tables that earlier stages wrote stay.
    """
    require_keys(workspace, workspace.tables)
    keys = list(partitions) if partitions is not None else find_partitions(workspace)
    request = RunRequest(
        partitions=keys,
        tables=list_tables(workspace),
        by=BY_LIBRARY,
        isolates_failures=False,
        checks=False,
    )
    return execute_run(workspace, request).reports


def list_tables(workspace: Workspace) -> frozenset[str]:
    """Return the tables of all stages that have something to read: without chats, those of the documents."""
    return ALL_TABLES if workspace.has_chats else TABLES_OF_DOCUMENTS


def execute_stages(workspace: Workspace, request: RunRequest, on_progress: OnProgress) -> RunState:
    """Execute the stages of a run in this process, each followed by its checks, and record the run.

    Args:
        workspace: An open workspace, whose lock this process holds.
        request: What to build.
        on_progress: Called with each event as soon as there is one.

    Returns:
        What was built, and what is broken.
    """
    with workspace.runs.record(request.by, request.partitions, dagster_run_id=request.run_id) as finish:
        before = read_reader_tables(workspace, request.tables)
        state = execute_tables(
            workspace,
            request.tables,
            request.partitions,
            on_progress,
            isolates_failures=request.isolates_failures,
            checks=request.checks,
        )
        after = read_reader_tables(workspace, request.tables, before)
        state.differences = compare_tables(before, after, as_of=workspace.settings.rag.as_of)
        finish(state.describe_end())
    return state


def execute_run(
    workspace: Workspace,
    request: RunRequest,
    on_progress: OnProgress = ignore_progress,
    execute: Execute = execute_stages,
) -> RunResult:
    """Build tables of a workspace; every run is this function.

    A second run of the same workspace, in this process or another, waits until the first has ended.

    Args:
        workspace: An open workspace.
        request: What to build, and how.
        on_progress: Called with each event as soon as there is one.
        execute: Executes the stages. It is called while the lock is held, so it must not wait for the lock.

    Returns:
        The result. It describes a failed stage, unless the request has failures raised.

    Raises:
        BackstoryError: The workspace, its settings or its catalog cannot be used; with ``isolates_failures`` unset,
            also the first failure of a stage.
    """
    started = perf_counter()
    with observe_run(request.partitions, request.run_id) as run_id:
        with _held(workspace, request):
            fresh = request.skips_unchanged and is_fresh(workspace, request.partitions)
            files = [name for names in workspace.tables.list_files().values() for name in names.values()]
            state = RunState() if fresh else execute(workspace, request, on_progress)
            if fresh:
                workspace.runs.clear_trouble(request.by, request.partitions)
            # Also if nothing has changed: the folder may have moved, or the file of the views may be lost or damaged.
            workspace.runs.repair_table()
            _publish(workspace, state, files)
            if request.is_complete and not fresh and state.finished:
                record_run(workspace, request.partitions)
            sources = _read_sources(workspace, state)
        result = RunResult(run_id, request.partitions, fresh, state, perf_counter() - started, sources)
        log_run(result)
    return result


@contextmanager
def _held(workspace: Workspace, request: RunRequest) -> Iterator[None]:
    """Hold the lock, and keep the databases open that all stages use; a full disk is named."""
    with naming_full_disk(workspace.root), ExitStack() as held:
        if not request.holds_lock:
            days = request.partitions if may_divide_days(workspace) else ()
            held.enter_context(workspace.runs.taking_turn(request.by, request.partitions, days))
            require_keys(workspace, workspace.tables)
        yield


def may_divide_days(workspace: Workspace) -> bool:
    """Return whether several machines may make different partitions at the same time.

    They must share both a database and a store of files, and every partition must follow from exports and documents
    alone: written posts that are documents, and letters over several days, make a chain.
    """
    storage, writers = workspace.settings.storage, workspace.settings.writers
    is_shared = storage.database is not None and storage.files is not None
    return is_shared and not workspace.feeds_back and not writers.letter_grains


def _publish(workspace: Workspace, state: RunState, files: Collection[str]) -> None:
    """Let other programs read the tables; what holds rows that the run has removed does not stay for a while.

    Args:
        workspace: An open workspace.
        state: What the run has built.
        files: The names of the files of the tables before the run.
    """
    if not any(CLEARED in report.counts for reports in state.reports.values() for report in reports):
        workspace.publish_tables()
    elif may_divide_days(workspace):
        workspace.publish_tables(at_once=files)  # what another run has begun with or has yet to record stays
    else:
        workspace.publish_tables(timedelta(0))


def log_run(result: RunResult) -> None:
    """Log the end of a run, with its figures and each failure."""
    for failure in result.failures:
        log_event(logger, "run failed", level=logging.ERROR, reason=failure, extra=PRINTED)
    log_event(
        logger,
        "run ended",
        success=result.success,
        fresh=result.fresh,
        computed=result.computed,
        files_not_read=len(result.unfinished),
        seconds=result.seconds,
    )


def _read_sources(workspace: Workspace, state: RunState) -> pl.DataFrame:
    """Read the status of each file; empty if a failed stage left the table damaged."""
    try:
        return workspace.tables.read("sources")
    except ContractError:
        if state.finished:
            raise
        return empty(Sources)
