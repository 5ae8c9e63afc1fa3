"""The library's checks as Dagster asset checks.

The result of a check covers the whole table. The catalog keeps the cases found in a partition until that partition is
checked again, so that a pass tomorrow does not hide a failure today. Dagster could also store a result per check and
partition, but for a year of days that would be ten thousand rows per run.
"""

import dagster as dg

from assets.materialization_events import Events
from assets.metadata import describe_cases, name_partitions
from backstory.interfaces.dagster_specs.asset_keys import asset_key
from backstory.pipeline.checks.cases import CheckResult, remembered_cases
from backstory.pipeline.checks.checks import CHECKS, Check
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import WHOLE


def specify_checks(workspace: Workspace) -> list[dg.AssetCheckSpec]:
    """Describe every check of the library, for the assets of a workspace.

    The step itself runs the checks before it reports a partition as materialized. It leaves the partitions out in which
    a blocking check finds cases.
    """
    return [
        dg.AssetCheckSpec(
            check.name,
            asset=asset_key(workspace, check.table),
            description=f"Looks for {check.what}. "
            + ("A partition with cases is left out." if check.blocking else "Warns."),
            blocking=check.blocking,
        )
        for check in CHECKS
    ]


def report_check(events: Events, workspace: Workspace, check: Check, finding: CheckResult | None) -> None:
    """Report the result of a check to Dagster.

    It is not yielded: Dagster would fail the run for cases that a blocking check found in other partitions.

    Args:
        events: Where the event goes.
        workspace: An open workspace.
        check: The check.
        finding: What it found; None if it could not run, which counts as a failure.
    """
    events.report(_evaluate(workspace, check, finding, key_of(workspace, check)))


def key_of(workspace: Workspace, check: Check) -> dg.AssetCheckKey:
    """Return the key of a check among the assets of a workspace."""
    return dg.AssetCheckKey(asset_key(workspace, check.table), check.name)


def _evaluate(
    workspace: Workspace, check: Check, finding: CheckResult | None, key: dg.AssetCheckKey
) -> dg.AssetCheckEvaluation:
    severity = dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN
    if finding is None:
        return dg.AssetCheckEvaluation(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=False,
            metadata={},
            severity=severity,
            description=f"not run, because the run could not build {check.table}; see the run's failure",
            blocking=check.blocking,
        )
    remembered = remembered_cases(workspace, check)
    elsewhere = [name for name in sorted(remembered) if name != WHOLE]
    places = f" Partitions with cases: {name_partitions(elsewhere)}." if elsewhere else ""
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=finding.passed and not remembered,
        metadata=describe_cases(finding.cases, finding.rows, remembered),
        severity=severity,
        description=f"{finding.message}{places}",
        blocking=check.blocking,
    )
