"""Runs all stages one after another, for scripts and services."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from backstory.pipeline.conversations import find_partitions
from backstory.pipeline.copies import drop_unused_answers
from backstory.pipeline.order import make_in_order
from backstory.pipeline.stage_report import StageReport
from backstory.pipeline.stages import Stage
from backstory.runs import BY_LIBRARY, RunEnd
from backstory.tables.views import write_views
from backstory.workspace import Workspace

logger = logging.getLogger(__name__)


def run_pipeline(workspace: Workspace, partitions: Sequence[str] | None = None) -> list[StageReport]:
    """Materialize every table of a workspace, in the order in which data flows.

    The checks of ``backstory run`` are not part of it; see :mod:`backstory.runner`.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions, or None for all that the chat exports span.

    Returns:
        The reports of the stages, in the order in which they were made. One that has ``stopped`` set says which budget
        of the writer is used up; with feedback, later partitions are left then.

    Raises:
        BackstoryError: A stage failed. The tables that earlier stages wrote stay.
    """
    with workspace.runs.taking_turn(BY_LIBRARY, partitions or []):
        return run_in_turn(workspace, partitions)


def run_in_turn(workspace: Workspace, partitions: Sequence[str] | None = None) -> list[StageReport]:
    """Do what :func:`run_pipeline` does, for callers that have taken their turn (:mod:`backstory.tables.locks`)."""
    keys = list(partitions) if partitions is not None else find_partitions(workspace)
    reports: list[StageReport] = []
    stopped: list[str] = []

    def make(stage: Stage, wanted: Sequence[str]) -> StageReport:
        workspace.runs.enter(stage.table)
        report = stage.make(workspace, wanted)
        reports.append(report)
        stopped.extend([report.stopped] if report.stopped else [])
        return report

    with workspace.ledger.kept_open():
        with workspace.runs.record(BY_LIBRARY, keys) as finish:
            left = make_in_order(workspace, keys, make, lambda: not stopped)
            if not left and not stopped:
                drop_unused_answers(workspace)
            changed = any(report.computed for report in reports)
            finish(RunEnd(changed=changed, failure=next(iter(stopped), None), stopped=bool(stopped)))
        write_views(workspace.tables)
    logger.info(
        "pipeline done partitions=%d computed=%d seconds=%.2f",
        len(keys),
        sum(report.computed for report in reports),
        sum(report.seconds for report in reports),
    )
    return reports
