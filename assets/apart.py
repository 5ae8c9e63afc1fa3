"""Isolates the partitions that fail, so that the remaining partitions are still built."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import polars as pl

from backstory.errors import BackstoryError, BatchesPendingError, RemovalError
from backstory.inspection.checks import Check, Finding, make_check
from backstory.pipeline.stage_report import StageReport
from backstory.tables import read_table
from backstory.workspace import Workspace

Reasons = dict[str, str]
"""Partition key to the reason why the partition could not be built."""

_WINDOW = "window_id"


class MadeApart(NamedTuple):
    """Result of building a set of partitions.

    Attributes:
        reports: One report per group of partitions that was built together.
        failures: The partitions that could not be built.
    """

    reports: list[StageReport]
    failures: Reasons


def make_apart(make: Callable[[Sequence[str]], StageReport], partitions: Sequence[str]) -> MadeApart:
    """Build partitions together; on failure, bisect them until each failing partition is isolated.

    Args:
        make: Builds the partitions with the given keys, or raises.
        partitions: Keys of all partitions to build.

    Returns:
        Reports and failures. If both halves fail for the same reason, bisecting stops, and the reason is recorded
        for every partition of both.
    """
    tried = _try(make, partitions)
    return MadeApart([tried], {}) if isinstance(tried, StageReport) else _divide(make, partitions, tried)


def _divide(
    make: Callable[[Sequence[str]], StageReport], partitions: Sequence[str], reason: str
) -> MadeApart:
    if len(partitions) == 1:
        return MadeApart([], {partitions[0]: reason})
    middle = len(partitions) // 2
    halves = [partitions[:middle], partitions[middle:]]
    tried = [_try(make, half) for half in halves]
    if all(outcome == reason for outcome in tried):
        return MadeApart([], dict.fromkeys(partitions, reason))
    reports: list[StageReport] = []
    failures: Reasons = {}
    for half, outcome in zip(halves, tried, strict=True):
        if isinstance(outcome, StageReport):
            reports.append(outcome)
        else:
            part = _divide(make, half, outcome)
            reports += part.reports
            failures |= part.failures
    return MadeApart(reports, failures)


def _try(make: Callable[[Sequence[str]], StageReport], partitions: Sequence[str]) -> StageReport | str:
    """Build partitions, or return the reason why they cannot be built.

    Raises:
        RemovalError: The run would remove messages that an earlier run read.
        BatchesPendingError: Texts are in batch jobs that are not done.
    """
    try:
        return make(partitions)
    except BatchesPendingError:
        raise  # all texts are ordered, and the partitions wait together
    except RemovalError:
        raise  # it forbids writing any partition, so a retry with half of them must not write
    except BackstoryError as error:
        return str(error)


class Looked(NamedTuple):
    """Result of running a check on a set of partitions.

    Attributes:
        finding: The cases of all partitions together.
        cases: Number of cases per partition; partitions without cases are absent.
        failures: The partitions on which the check raised an error.
    """

    finding: Finding
    cases: dict[str, int]
    failures: Reasons


def look_apart(workspace: Workspace, check: Check, partitions: Sequence[str]) -> Looked:
    """Run a check, and count its cases per partition.

    Args:
        workspace: An open workspace.
        check: A check of a partitioned table.
        partitions: Keys of the partitions to check.
    """
    try:
        finding = make_check(workspace, check, partitions)
    except BackstoryError as error:
        if len(partitions) > 1:
            return _look_at_halves(workspace, check, partitions)
        nothing = Finding(check, pl.DataFrame())
        return Looked(nothing, {}, dict.fromkeys(partitions, str(error)))
    if finding.passed:
        return Looked(finding, {}, {})
    if len(partitions) == 1:
        return Looked(finding, {partitions[0]: len(finding.cases)}, {})
    if _WINDOW in finding.cases.columns and finding.cases.schema[_WINDOW] == pl.String:
        of_windows = read_table(workspace.tables, "windows", partitions).select(_WINDOW, "partition")
        named = finding.cases.select(_WINDOW).join(of_windows, on=_WINDOW)
        if len(named) == len(finding.cases):
            return Looked(finding, dict(named["partition"].value_counts().iter_rows()), {})
    parts = _look_at_halves(workspace, check, partitions)
    return Looked(finding, parts.cases, parts.failures)


def _look_at_halves(workspace: Workspace, check: Check, partitions: Sequence[str]) -> Looked:
    middle = len(partitions) // 2
    first, second = (
        look_apart(workspace, check, half) for half in (partitions[:middle], partitions[middle:])
    )
    found = [part.finding for part in (first, second) if not part.finding.passed]
    cases = pl.concat([finding.cases for finding in found]) if found else pl.DataFrame()
    rows = [part.finding.rows for part in (first, second) if part.finding.rows is not None]
    return Looked(
        Finding(check, cases, sum(rows) if rows else None),
        first.cases | second.cases,
        first.failures | second.failures,
    )
