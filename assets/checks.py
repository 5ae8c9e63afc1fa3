"""The library's checks as Dagster asset checks.

The result of a check covers the whole table. The ledger keeps the cases found in a partition until that partition is
checked again, so that a pass tomorrow does not hide a failure today. Dagster could also store a result per check and
partition, but for a year of days that would be ten thousand rows per run.
"""

from collections.abc import Collection, Iterator

import dagster as dg

from assets.metadata import describe_cases, name_partitions
from backstory.inspection.checks import CHECKS, Check
from backstory.making import Making, remembered_cases
from backstory.orchestration import asset_key
from backstory.tables.parquet import WHOLE
from backstory.workspace import Workspace


def specify_checks(workspace: Workspace) -> list[dg.AssetCheckSpec]:
    """Describe every check of the library, for the assets of a workspace.

    None blocks in Dagster's sense: the step itself runs the checks before it reports a partition as materialized.
    """
    return [
        dg.AssetCheckSpec(
            check.name,
            asset=asset_key(workspace, check.table),
            description=f"Looks for {check.what}. "
            + ("A partition that has any is not made." if check.blocking else "Warns."),
            metadata={"blocking": check.blocking},
        )
        for check in CHECKS
    ]


def evaluate_checks(
    workspace: Workspace, making: Making, selected: Collection[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of each selected check; a check that could not run yields a failure that says so.

    Args:
        workspace: An open workspace.
        making: What the step built, and what its checks found.
        selected: The checks for which Dagster expects a result.
    """
    for check in CHECKS:
        key = dg.AssetCheckKey(asset_key(workspace, check.table), check.name)
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
