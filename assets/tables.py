"""The assets: one per table, all built by a single step.

A step per table would be expensive: the overhead of a step equals the work of a day. And a step can leave one broken
day out of a range only if it reports its materializations to Dagster itself.
"""

from collections.abc import Iterator

import dagster as dg

from assets.checks import key_of, specify_checks, tell_check
from assets.metadata import Metadata, describe_report
from assets.news import Origin, begin, tell_partitions, tell_table
from assets.workspace_resource import WorkspaceResource
from backstory.ids import digest
from backstory.inspection.checks import CHECKS, Finding
from backstory.making import Making, make_tables
from backstory.orchestration import name_of, specify_assets
from backstory.pipeline.stage_report import StageReport
from backstory.runs import BY_DAGSTER
from backstory.tables.parquet import WHOLE
from backstory.tables.views import write_views
from backstory.telemetry import observe_run
from backstory.workspace import Workspace

STEP = "make_tables"

STOPPED = "stopped"
"""Metadata of a failed step that a budget or a limit stopped: why."""

BETWEEN_FAILURES = "\n\n"
"""Separator between the messages of a failed step; a message may have several lines."""


def make_assets(workspace: Workspace) -> dg.AssetsDefinition:
    """Define all assets of a workspace.

    Args:
        workspace: Its settings define the grain and the start of the partitions.

    Returns:
        The tables of the stages, the tables that stages write as a by-product, and all checks.
    """
    specs = specify_assets(workspace)

    @dg.multi_asset(
        name=STEP,
        specs=specs,
        check_specs=specify_checks(workspace),
        can_subset=True,
        # A run for any number of neighbouring days, so that the chats are read once.
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=name_pool(workspace),
    )
    def make(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Iterator[None]:
        yield from ()  # a step that yields nothing has reported everything itself
        opened = workspace.workspace
        selected = {name_of(key) for key in context.selected_asset_keys}
        chosen = [spec for spec in specs if name_of(spec.key) in selected]
        is_partitioned = any(spec.partitions_def is not None for spec in chosen)
        keys = list(context.partition_keys) if is_partitioned else []

        origin = Origin.of_step(context)
        checks = [check for check in CHECKS if key_of(opened, check) in context.selected_asset_check_keys]

        def tell(report: StageReport | Finding) -> None:
            # At once, so that a run that dies later keeps the results of its checks.
            if isinstance(report, Finding) and report.check in checks:
                tell_check(origin, opened, report.check, report)

        with observe_run(keys, context.run.run_id), workspace.taking_turn(keys), opened.ledger.kept_open():
            told = {
                spec.key: begin(opened, name_of(spec.key), keys)
                for spec in chosen
                if spec.partitions_def is not None
            }
            with opened.runs.record(BY_DAGSTER, keys, dagster_run_id=context.run.run_id) as finish:
                making = make_tables(opened, selected, keys, tell)
                finish(making.describe_end())
                write_views(opened.tables)
            if making.waiting:
                context.log.warning(making.waiting)
            failures = [*making.describe_failures(), *filter(None, [making.stopped])]
            failed = bool(failures)
            for spec in chosen:
                table = name_of(spec.key)
                figures = _describe(making, table)
                if spec.partitions_def is not None:
                    good = making.good(table, keys)
                    own = figures if len(keys) == 1 else {}
                    news = tell_partitions(origin, opened, spec, good, own, told[spec.key], of_all=failed)
                    context.log.info(f"{table}: {news} of {len(good)} partitions have changed")
                elif WHOLE not in making.broken.get(table, {}):
                    tell_table(origin, opened, spec, figures, of_all=failed)
            for check in checks:
                if check not in making.findings:
                    tell_check(origin, opened, check, None)
        if failures:
            stopped = {} if making.stopped is None else {STOPPED: making.stopped}
            raise dg.Failure(BETWEEN_FAILURES.join(failures), metadata=stopped, allow_retries=False)

    return make


def name_pool(workspace: Workspace) -> str:
    """Name the pool of a workspace, by which Dagster's queue starts one of its runs at a time (``dagster.yaml``)."""
    return f"workspace_{digest([str(workspace.root)], length=12)}"


def _describe(making: Making, table: str) -> Metadata:
    reports = making.reports.get(table, [])
    return describe_report(reports[0]) if len(reports) == 1 else {}
