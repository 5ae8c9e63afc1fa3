"""Executes the stages of a run as one Dagster job in this process."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from assets.workspace_resource import HeldWorkspaceResource
from backstory.errors import SettingsError
from backstory.inspection.checks import FINDING_LOGGER, Finding
from backstory.making import Tell
from backstory.orchestration import partitions_of
from backstory.pipeline import STAGES, find_partitions, known_first_partition
from backstory.pipeline.batches import find_waiting
from backstory.pipeline.stage_report import REPORT_LOGGER, StageReport
from backstory.runner import Execution
from backstory.settings import SETTINGS_FILE
from backstory.telemetry import current_run
from backstory.workspace import Workspace
from pipelines.definitions import JOB, define
from pipelines.failures import describe_step_failures, find_stop
from pipelines.instance import open_instance
from pipelines.run_plan import tag_range

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_DAY = len("2025-03-04")


def execute_job(workspace: Workspace, partitions: Sequence[str], tell: Tell) -> Execution:
    """Execute the stages and their checks as one run of the Dagster job, for a caller who has taken its turn.

    Args:
        workspace: An open workspace.
        partitions: Keys of consecutive partitions, in order.
        tell: Receives each report and finding as it happens.

    Returns:
        The reports, findings and failures of the run.

    Raises:
        SettingsError: The partitions begin before those that Dagster offers.
    """
    _require_offered(workspace, partitions)
    reports: list[StageReport] = []
    findings: list[Finding] = []

    def receive(told: StageReport | Finding) -> None:
        if isinstance(told, StageReport):
            reports.append(told)
        else:
            findings.append(told)
        tell(told)

    job = define(workspace, HeldWorkspaceResource).resolve_job_def(JOB)
    with open_instance(workspace) as instance, _each_given_to(receive):
        result = job.execute_in_process(
            instance=instance,
            run_id=current_run(),
            tags=tag_range(partitions[0], partitions[-1]),
            run_config=_QUIET,
            raise_on_error=False,
        )
    stopped = find_stop(result.all_events)
    failures = [told for told in describe_step_failures(result.all_events) if told != stopped]
    finished = failures or stopped or STAGES[-1].table in {report.table for report in reports}
    return Execution(reports, findings, failures, "" if finished else find_waiting(workspace), stopped)


def _require_offered(workspace: Workspace, partitions: Sequence[str]) -> None:
    if workspace.settings.partitions.start is None and known_first_partition(workspace) is None:
        find_partitions(workspace)
    offered = partitions_of(workspace).get_first_partition_key()
    if offered is None or partitions[0] >= offered:
        return
    day, first_day = partitions[0][:_DAY], offered[:_DAY]
    # If no partition of the run is offered, a later first day would only raise another error.
    otherwise = f", or give --from {first_day}" if offered <= partitions[-1] else ""
    start = (
        workspace.settings.partitions.start
        or f"not set, so that partitions begin with the first message on {first_day}"
    )
    raise SettingsError(
        f"partitions.start is {start}, after {day}, the first day of this run; set it "
        f"to {day} or earlier in {workspace.root / SETTINGS_FILE}{otherwise}"
    )


@contextmanager
def _each_given_to(receive: Tell) -> Iterator[None]:
    """Pass each stage report and finding that the library logs to a function, as it happens."""
    handler = _Receiver(receive)
    loggers = [logging.getLogger(name) for name in (REPORT_LOGGER, FINDING_LOGGER)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


class _Receiver(logging.Handler):
    def __init__(self, receive: Tell) -> None:
        super().__init__(logging.INFO)
        self._receive = receive

    def emit(self, record: logging.LogRecord) -> None:
        for name, kind in (("report", StageReport), ("finding", Finding)):
            told = getattr(record, name, None)
            if isinstance(told, kind):
                self._receive(told)
