"""One run over a workspace, for every caller: a command, a script, the library, forgetting, or a step of Dagster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime, time, timedelta
from time import perf_counter
from typing import TypeAlias

from backstory.base.errors import BackstoryError, ContractError, InputError, naming_faults_of_system
from backstory.base.telemetry import PRINTED, log_event, observe_run
from backstory.pipeline.history.history import BY_LIBRARY
from backstory.pipeline.incremental.report import CLEARED, StageResult
from backstory.pipeline.run.builder import Builder
from backstory.pipeline.run.differences import compare, look
from backstory.pipeline.run.plan import ALL_TABLES, TABLES_OF_DOCUMENTS, is_fresh, record_run
from backstory.pipeline.run.run import OnProgress, Run, ignore_progress
from backstory.pipeline.sharing import require_keys
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.partitions import partition_key
from backstory.storage.turns import running

logger = logging.getLogger(__name__)

Report: TypeAlias = Callable[[Run], None]
"""Reports a run whose tables are built."""


def find_wanted(workspace: Workspace, first: date | None, last: date | None) -> list[str]:
    """List the partitions of a range of days that have messages, or had some in an earlier run.

    They are in order, and at least one. Without a first or last day, the range begins and ends with the messages.
    """
    if first is not None and last is not None and last < first:
        raise InputError(f"--to {last} lies before --from {first}; swap the two", code="swapped_range")
    grain = workspace.settings.partitions.grain
    require_keys(workspace, workspace.tables)
    found = find_partitions(workspace)
    start = found[0] if first is None else partition_key(datetime.combine(first, time(0), UTC), grain)
    end = found[-1] if last is None else partition_key(datetime.combine(last, time(23), UTC), grain)
    wanted = [key for key in found if start <= key <= end]
    if not wanted:
        raise InputError(
            f"there is no message from {start} to {end}: the first is of {found[0]}, the last of {found[-1]}",
            code="empty_range",
        )
    return wanted


def run_pipeline(workspace: Workspace, partitions: Sequence[str] | None = None) -> list[StageResult]:
    """Build every table of a workspace, without the checks; raise at the first failure.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions, or None for all that the chat exports span. A workspace without
            chats gets the tables of its documents.

    Returns:
        The result of each stage, in the order in which data flows. One that has ``stopped`` set says which budget of
        the writer is used up; with feedback, later partitions are left then.

    Raises:
        BackstoryError: A stage failed. The tables that earlier stages wrote stay.
    """
    require_keys(workspace, workspace.tables)
    keys = list(partitions) if partitions is not None else find_partitions(workspace)
    run = Run(keys, list_tables(workspace), BY_LIBRARY, isolates_failures=False, checks=False)
    return list(execute_run(workspace, run).made.values())


def list_tables(workspace: Workspace) -> frozenset[str]:
    """Return the tables of all stages that have something to read: without chats, those of the documents."""
    return ALL_TABLES if workspace.has_chats else TABLES_OF_DOCUMENTS


def execute_run(
    workspace: Workspace,
    run: Run,
    on_progress: OnProgress = ignore_progress,
    report: Report | None = None,
    *,
    skips_unchanged: bool = False,
    holds_lock: bool = False,
) -> Run:
    """Build tables of a workspace; every run is this function.

    A second run of the same workspace, in this process or another, waits until the first has ended. ``report`` is
    called with the run when its tables are built, while no other run may change them. With ``skips_unchanged``, nothing
    is built if nothing has changed since the last run of these partitions. Errors of the workspace, its settings or its
    catalog are raised; those of a stage only if the run does not isolate failures.
    """
    started, divides_days = perf_counter(), may_divide_days(workspace)
    days = run.partitions if divides_days else ()
    turn = nullcontext() if holds_lock else running(workspace.catalog.state, run.by, days=days)
    with observe_run(run.partitions, run.dagster_run_id) as run.id:
        with naming_faults_of_system(workspace.root), turn:
            require_keys(workspace, workspace.tables)
            files = [name for names in workspace.tables.list_files().values() for name in names.values()]
            run.fresh = skips_unchanged and is_fresh(workspace, run.partitions)
            try:
                with workspace.runs.record(
                    run.by, run.partitions, dagster_run_id=run.dagster_run_id
                ) as finish:
                    if not run.fresh:
                        before = look(workspace)
                        Builder(workspace, run, on_progress).build()
                        run.differences = compare(workspace, before, run.tables)
                    finish(run.end)
            except BackstoryError:
                workspace.publish_tables()  # the end of the run is in the table of runs
                raise
            if report is not None:
                report(run)
            # Also if nothing has changed: the folder may have moved, or the file of the views may be lost or damaged.
            # Of what holds rows that the run has removed, only what another run has begun with stays for a while.
            has_cleared = any(CLEARED in made.counts for made in run.made.values())
            if has_cleared and not divides_days:
                workspace.publish_tables(timedelta(0))
            else:
                workspace.publish_tables(discarded=files if has_cleared else ())
            if run.is_complete and not run.fresh:
                record_run(workspace, run.partitions)
            try:
                run.sources = workspace.tables.read("sources")
            except ContractError:  # a failed stage may leave it damaged
                if run.finished:
                    raise
        run.seconds = perf_counter() - started
        for failure in run.failures:
            log_event(logger, "run failed", level=logging.ERROR, reason=failure, extra=PRINTED)
        log_event(
            logger,
            "run ended",
            success=run.success,
            fresh=run.fresh,
            computed=run.computed,
            files_not_read=len(run.unfinished),
            seconds=run.seconds,
        )
    return run


def may_divide_days(workspace: Workspace) -> bool:
    """Return whether several machines may make different partitions at the same time.

    They must share both a database and a store of files, and every partition must follow from exports and documents
    alone: written posts that are documents, and letters over several days, make a chain.
    """
    storage, writers = workspace.settings.storage, workspace.settings.writers
    is_shared = storage.database is not None and storage.files is not None
    return is_shared and not workspace.feeds_back and not writers.letter_grains
