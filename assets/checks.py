"""The library's checks as asset checks: those of one asset are one step, since a step costs more than a check."""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.metadata import describe_cases
from assets.workspace_resource import WorkspaceResource
from backstory.inspection.checks import CHECKS, Check, make_check
from backstory.pipeline import STAGES


def make_checks() -> list[dg.AssetChecksDefinition]:
    """Make the checks of all assets."""
    by_table: dict[str, list[Check]] = {}
    for check in CHECKS:
        by_table.setdefault(check.table, []).append(check)
    return [_make_checks(table, checks) for table, checks in by_table.items()]


def _make_checks(table: str, checks: Sequence[Check]) -> dg.AssetChecksDefinition:
    by_name = {check.name: check for check in checks}
    writers = [stage.table for stage in STAGES if table in stage.writes_beside]

    @dg.multi_asset_check(
        name=f"check_{table}",
        specs=[
            dg.AssetCheckSpec(
                check.name,
                asset=table,
                description=f"Looks for {check.what}.",
                blocking=check.blocking,
                additional_deps=writers,
            )
            for check in checks
        ],
        can_subset=True,
    )
    def check_table(
        context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
    ) -> Iterator[dg.AssetCheckResult]:
        run = context.op_execution_context
        partitions = run.partition_keys if run.has_partition_key or run.has_partition_key_range else None
        for key in sorted(context.selected_asset_check_keys):
            finding = make_check(workspace.workspace, by_name[key.name], partitions)
            blocking = finding.check.blocking
            yield dg.AssetCheckResult(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=finding.passed,
                severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
                description=finding.message,
                metadata=describe_cases(finding.cases, finding.rows),
            )

    return check_table
