"""The library's checks as asset checks.

A check stands for the whole table: what it found in a partition is kept until it looks there again, so that tomorrow's
pass does not hide today's failure. Dagster can keep a check for each partition, too, which stores a row for each check
and partition of every run: for a year of days that is ten thousand rows a run.
"""

from collections.abc import Collection, Iterator

import dagster as dg

from assets.making import Making, remembered_cases
from assets.metadata import describe_cases, name_partitions
from backstory.inspection.checks import CHECKS, Check
from backstory.tables.parquet import WHOLE
from backstory.workspace import Workspace


def specify_checks() -> list[dg.AssetCheckSpec]:
    """Describe every check of the library.

    None blocks in Dagster's sense: the step itself looks before it says that a partition was made.
    """
    return [
        dg.AssetCheckSpec(
            check.name,
            asset=check.table,
            description=f"Looks for {check.what}. "
            + ("A partition that has any is not made." if check.blocking else "Warns."),
            metadata={"blocking": check.blocking},
        )
        for check in CHECKS
    ]


def evaluate_checks(
    workspace: Workspace, making: Making, selected: Collection[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """Give the result of each selected check; of one that could not be made, a failure that says so.

    Args:
        workspace: An open workspace.
        making: What was made and found.
        selected: The checks of which Dagster waits for a result.
    """
    for check in CHECKS:
        key = dg.AssetCheckKey(dg.AssetKey(check.table), check.name)
        if key in selected:
            yield _evaluate(workspace, making, check, key)


def _evaluate(
    workspace: Workspace, making: Making, check: Check, key: dg.AssetCheckKey
) -> dg.AssetCheckResult:
    finding = making.findings.get(check)
    remembered = remembered_cases(workspace, check)
    severity = dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN
    if finding is None:
        return dg.AssetCheckResult(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=False,
            severity=severity,
            description=f"not made, because {check.table} could not be made; see the run's failure",
        )
    elsewhere = [name for name in sorted(remembered) if name != WHOLE]
    places = f" Partitions with cases: {name_partitions(elsewhere)}." if elsewhere else ""
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=finding.passed and not remembered,
        severity=severity,
        description=f"{finding.message}{places}",
        metadata=describe_cases(finding.cases, finding.rows, remembered),
    )
