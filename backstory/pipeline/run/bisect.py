"""Isolates the partitions that fail, so that the remaining partitions are still built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from backstory.base.errors import (
    AuthenticationError,
    BackstoryError,
    ModelFileError,
    QuotaExhaustedError,
    RemovalError,
    StateError,
    StoppedError,
)
from backstory.pipeline.checks.checks import Check, CheckResult, make_check
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.stages.stage import RunResources, Stage
from backstory.pipeline.workspace import Workspace

Reasons: TypeAlias = dict[str, str]
"""Partition key to the reason why the partition could not be built."""

_WINDOW: Final = "window_id"
_OF_EVERY_PARTITION: Final = (
    *(AuthenticationError, QuotaExhaustedError),
    *(ModelFileError, StateError),
)
"""Errors independent of the partition; bisecting would only repeat them."""


class BisectResult(NamedTuple):
    """What became of a set of partitions: which were built, could not be built, or were left.

    It holds several :class:`StageResult`, each of one call that built something. None of them knows of the partitions
    that no call could build.

    Attributes:
        reports: One report per group of partitions that was built together.
        failures: The partitions that could not be built.
        left: The partitions that were not made to the end, since a budget or a limit was reached.
        stopped: Which one; None if none was.
    """

    reports: list[StageResult]
    failures: Reasons
    left: Sequence[str] = ()
    stopped: str | None = None


def isolate_failures(resources: RunResources, stage: type[Stage], partitions: Sequence[str]) -> BisectResult:
    """Build partitions together; on failure, bisect them until each failing partition is isolated.

    Args:
        resources: What the stages of the run share.
        stage: The stage that builds them.
        partitions: Keys of all partitions to build.

    Returns:
        Reports and failures. If both halves fail for the same reason, bisecting stops, and the reason is recorded
        for every partition of both. So it is after an error that concerns every partition, for those not yet built.

    Raises:
        RemovalError: The run would remove messages that an earlier run read, so that no partition may be written.
    """
    tried = _try(resources, stage, partitions)
    return tried.made if tried.reason is None else _divide(resources, stage, partitions, tried)


@dataclass(frozen=True)
class _Attempt:
    """Result of one attempt: what was made, and why not everything was."""

    made: BisectResult
    reason: str | None = None
    of_every_partition: bool = False


def _divide(
    resources: RunResources, stage: type[Stage], partitions: Sequence[str], failed: _Attempt
) -> BisectResult:
    if len(partitions) == 1 or failed.of_every_partition:
        return failed.made
    middle = len(partitions) // 2
    halves = [partitions[:middle], partitions[middle:]]
    tried = [_try(resources, stage, half) for half in halves]
    if all(half.reason == failed.reason for half in tried):
        return failed.made
    parts = [
        outcome.made if outcome.reason is None else _divide(resources, stage, half, outcome)
        for half, outcome in zip(halves, tried, strict=True)
    ]
    return BisectResult(
        reports=[report for part in parts for report in part.reports],
        failures={key: reason for part in parts for key, reason in part.failures.items()},
        left=[key for part in parts for key in part.left],
        stopped=next((part.stopped for part in parts if part.stopped is not None), None),
    )


def _try(resources: RunResources, stage: type[Stage], partitions: Sequence[str]) -> _Attempt:
    try:
        report = stage.make(resources, partitions)
        if report.stopped is None:
            return _Attempt(BisectResult([report], {}))
        return _Attempt(
            BisectResult([report], {}, stage.find_stale(resources.workspace, partitions), report.stopped)
        )
    except RemovalError:
        raise  # it forbids writing any partition
    except StoppedError as error:
        reports, left = _keep_made(resources, stage, partitions)
        return _Attempt(BisectResult(reports, {}, left, str(error)), str(error), of_every_partition=True)
    except _OF_EVERY_PARTITION as error:
        reports, left = _keep_made(resources, stage, partitions)
        failures = dict.fromkeys(left, str(error))
        return _Attempt(BisectResult(reports, failures), str(error), of_every_partition=True)
    except BackstoryError as error:
        return _Attempt(BisectResult([], dict.fromkeys(partitions, str(error))), str(error))


def _keep_made(
    resources: RunResources, stage: type[Stage], partitions: Sequence[str]
) -> tuple[list[StageResult], list[str]]:
    """Report the partitions that were built before an error, or need not be built, and list the others."""
    if not stage.partitioned:
        return [], list(partitions)
    try:
        pending = set(stage.find_stale(resources.workspace, partitions))
        made = [key for key in partitions if key not in pending]
        reports = [stage.make(resources, made)] if made else []
    except BackstoryError:  # of the same cause, such as the file of a model
        return [], list(partitions)
    return reports, [key for key in partitions if key in pending]


def check_per_partition(workspace: Workspace, check: Check, partitions: Sequence[str]) -> CheckResult:
    """Run a check, count its cases per partition, and isolate the partitions on which it raises an error.

    Args:
        workspace: An open workspace.
        check: A check of a partitioned table.
        partitions: Keys of the partitions to check.
    """
    try:
        finding = make_check(workspace, check, partitions)
    except BackstoryError as error:
        if len(partitions) > 1:
            return _check_halves(workspace, check, partitions)
        return CheckResult(check, pl.DataFrame(), failures=dict.fromkeys(partitions, str(error)))
    if finding.passed:
        return finding
    if len(partitions) == 1:
        return replace(finding, by_partition={partitions[0]: len(finding.cases)})
    if _WINDOW in finding.cases.columns and finding.cases.schema[_WINDOW] == pl.String:
        of_windows = workspace.tables.read("windows", partitions).select(_WINDOW, "partition")
        named = finding.cases.select(_WINDOW).join(of_windows, on=_WINDOW)
        if len(named) == len(finding.cases):
            return replace(finding, by_partition=dict(named["partition"].value_counts().iter_rows()))
    parts = _check_halves(workspace, check, partitions)
    return replace(finding, by_partition=parts.by_partition, failures=parts.failures)


def _check_halves(workspace: Workspace, check: Check, partitions: Sequence[str]) -> CheckResult:
    middle = len(partitions) // 2
    first, second = (
        check_per_partition(workspace, check, half) for half in (partitions[:middle], partitions[middle:])
    )
    found = [part.cases for part in (first, second) if not part.passed]
    rows = [part.rows for part in (first, second) if part.rows is not None]
    return CheckResult(
        check,
        pl.concat(found) if found else pl.DataFrame(),
        rows=sum(rows) if rows else None,
        by_partition=first.by_partition | second.by_partition,
        failures=first.failures | second.failures,
    )
