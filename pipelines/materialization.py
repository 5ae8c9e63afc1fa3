"""One run of the main job in this process, told stage by stage."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from time import perf_counter

import dagster as dg
from rich.console import Console
from rich.text import Text

from backstory import pipeline
from backstory.errors import InputError, SettingsError
from backstory.orchestration import partitions_definition
from backstory.pipeline.stage_report import REPORT_LOGGER, StageReport
from backstory.settings import SETTINGS_FILE
from backstory.tables.partitions import partition_key, partition_range
from backstory.tables.views import write_views
from backstory.workspace import Workspace
from pipelines.definitions import JOB, define
from pipelines.instance import open_instance

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_RANGE_START = "dagster/asset_partition_range_start"
_RANGE_END = "dagster/asset_partition_range_end"


@dataclass(frozen=True)
class Outcome:
    """What a run did.

    Attributes:
        success: Whether every asset was materialized and every blocking check passed.
        partitions: Number of wanted partitions.
        computed: Number of partitions, over all tables, that were made now.
        seconds: Wall-clock time of the run.
        warnings: Names of the checks that warn.
    """

    success: bool
    partitions: int
    computed: int
    seconds: float
    warnings: Sequence[str]


def materialize(workspace: Workspace, first: date | None, last: date | None, console: Console) -> Outcome:
    """Materialize every table for a range of days in one Dagster run.

    Args:
        workspace: The workspace.
        first: First day, or None for the first message's.
        last: Last day, or None for the last message's.
        console: Where progress and failures are told.

    Returns:
        What was done.

    Raises:
        BackstoryError: The range is empty or the exports cannot be read.
    """
    keys = _wanted(workspace, first, last)
    job = define(workspace).resolve_job_def(JOB)
    console.print(
        f"[bold]{workspace.root}[/bold]: {len(keys)} partitions, {keys[0]} to {keys[-1]}", highlight=False
    )
    started = perf_counter()
    if pipeline.is_fresh(workspace, keys):
        console.print("Nothing has changed since the last run: no partition was made again.", highlight=False)
        return Outcome(True, len(keys), 0, perf_counter() - started, ())
    with open_instance(workspace) as instance, _told(console):
        result = job.execute_in_process(
            instance=instance,
            tags={_RANGE_START: keys[0], _RANGE_END: keys[-1]},
            run_config=_QUIET,
            raise_on_error=False,
        )
    write_views(workspace.tables)
    if result.success:
        pipeline.record_run(workspace, keys)
    for failure in _failures(result):
        console.print(Text.assemble(("failed: ", "red"), failure), soft_wrap=True)
    evaluations = result.get_asset_check_evaluations()
    warnings = [
        f"{check.asset_key.to_user_string()}: {check.check_name}" for check in evaluations if not check.passed
    ]
    for warning in warnings:
        console.print(f"[yellow]check:[/yellow] {warning}", highlight=False)
    return Outcome(result.success, len(keys), _computed(result), perf_counter() - started, warnings)


def _wanted(workspace: Workspace, first: date | None, last: date | None) -> list[str]:
    grain = workspace.settings.partitions.grain
    found = pipeline.find_partitions(workspace) if first is None or last is None else []
    start = found[0] if first is None else partition_key(datetime.combine(first, time(0), UTC), grain)
    end = found[-1] if last is None else partition_key(datetime.combine(last, time(23), UTC), grain)
    if end < start:
        raise InputError(
            f"--from {first} lies after the last message ({end})"
            if last is None
            else f"--to {last} lies before the first message ({start})"
        )
    offered = partitions_definition(workspace.settings.partitions).get_first_partition_key()
    if offered is not None and start < offered:
        raise SettingsError(
            f"partitions.start is {workspace.settings.partitions.start}, after {start}, the first partition of "
            f"this run; set it to that day or earlier in {workspace.root / SETTINGS_FILE}, or give --from {offered}"
        )
    return partition_range(start, end, grain)


@contextmanager
def _told(console: Console) -> Iterator[None]:
    """Print what the library reports of each stage, as it happens."""
    handler = _StageLines(console)
    logger = logging.getLogger(REPORT_LOGGER)
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _StageLines(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        report = getattr(record, "report", None)
        if isinstance(report, StageReport):
            done = "unchanged" if report.unchanged else f"{report.computed} of {report.partitions} made"
            self._console.print(
                f"  {report.table:<16} {report.rows:>7} rows   {done:<18} {report.seconds:6.1f} s",
                highlight=False,
            )


def _failures(result: dg.ExecuteInProcessResult) -> list[str]:
    failures = []
    for event in result.all_events:
        if event.is_step_failure and event.step_failure_data.error is not None:
            cause = event.step_failure_data.error
            while cause.cause is not None:
                cause = cause.cause
            failures.append(f"{event.step_key}: {cause.message.strip()}")
    return failures


def _computed(result: dg.ExecuteInProcessResult) -> int:
    """Sum the partitions that each asset made; every materialization event of an asset repeats its figure."""
    computed: dict[str, int] = {}
    for event in result.all_events:
        if event.is_step_materialization:
            value = event.step_materialization_data.materialization.metadata.get("computed")
            if isinstance(value, dg.IntMetadataValue):
                computed[str(event.asset_key)] = value.value or 0
    return sum(computed.values())
