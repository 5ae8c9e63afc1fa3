"""The library's checks as Dagster asset checks.

The result of a check covers the whole table. The catalog keeps the cases found in a partition until that partition is
checked again, so that a pass tomorrow does not hide a failure today. Dagster could also store a result per check and
partition, but for a year of days that would be ten thousand rows per run.
"""

import dagster as dg

from assets.reports import Reporter
from backstory.base.wording import name_some
from backstory.interfaces.dagster_specs.asset_specs import asset_key
from backstory.pipeline.checks.cases import CheckResult, remembered_cases
from backstory.pipeline.checks.checks import CHECKS, Check
from backstory.pipeline.incremental.report import format_preview
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import WHOLE

_EXAMPLE_CHARACTERS = 160
_NAMED_PARTITIONS = 5


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


def report_check(reporter: Reporter, check: Check, finding: CheckResult | None) -> None:
    """Report what a check found to Dagster; None if it could not run, which counts as a failure.

    It is not yielded: Dagster would fail the run for cases that a blocking check found in other partitions.
    """
    key, passed, metadata = (
        key_of(reporter.workspace, check),
        False,
        dict[str, dg.MetadataValue | int | float](),
    )
    description = f"not run, because the run could not build {check.table}; see the run's failure"
    if finding is not None:
        remembered = remembered_cases(reporter.workspace, check)
        passed = finding.passed and not remembered
        examples = format_preview(finding.cases, cell_characters=_EXAMPLE_CHARACTERS)
        metadata = {
            "failing_rows": sum(remembered.values()),
            "failing_share": round(len(finding.cases) / max(finding.rows, 1), 4),
            "examples": dg.MetadataValue.md("*none in this run*" if finding.passed else examples),
        }
        elsewhere = name_some([name for name in sorted(remembered) if name != WHOLE], _NAMED_PARTITIONS)
        description = finding.message + (f" Partitions with cases: {elsewhere}." if elsewhere else "")
    evaluation = dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=passed,
        metadata=metadata,
        severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
        description=description,
        blocking=check.blocking,
    )
    reporter.store([evaluation])


def key_of(workspace: Workspace, check: Check) -> dg.AssetCheckKey:
    """Return the key of a check among the assets of a workspace."""
    return dg.AssetCheckKey(asset_key(workspace, check.table), check.name)
