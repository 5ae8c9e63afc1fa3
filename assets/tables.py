"""The assets: one per table, all built by a single step.

A step per table would be expensive: the overhead of a step equals the work of a day. And a step can leave one broken
day out of a range only if it reports its materializations to Dagster itself.
"""

from collections.abc import Callable, Iterator

import dagster as dg

from assets import tags
from assets.reports import Failed, Reporter, Store, describe_report, key_of
from assets.workspace_resource import WorkspaceResource, marking_as_alive
from backstory.base.ids import digest
from backstory.interfaces.dagster_specs.asset_specs import name_of, specify_assets
from backstory.pipeline.checks.checks import CHECKS, CheckResult
from backstory.pipeline.history.history import BY_DAGSTER
from backstory.pipeline.run.differences import describe_differences
from backstory.pipeline.run.plan import SEARCHED
from backstory.pipeline.run.run import Run, RunEvent
from backstory.pipeline.run.runner import may_divide_days
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import WHOLE

STEP = "make_tables"


def make_assets(
    workspace: Workspace, open_store: Callable[[dg.AssetExecutionContext], Store]
) -> dg.AssetsDefinition:
    """Define all assets of a workspace, which are the tables, with all checks."""
    specs = specify_assets(workspace)

    @dg.multi_asset(
        name=STEP,
        specs=specs,
        check_specs=specify_checks(workspace),
        can_subset=True,
        # One run for any number of neighbouring days reads the chats once.
        backfill_policy=dg.BackfillPolicy(workspace.settings.partitions.days_per_run),
        pool=name_pool(workspace),
    )
    def make(
        context: dg.AssetExecutionContext, workspace: WorkspaceResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        opened = workspace.workspace
        chosen = [spec for spec in specs if spec.key in context.selected_asset_keys]
        checks = [check for check in CHECKS if key_of(opened, check) in context.selected_asset_check_keys]
        is_partitioned = any(spec.partitions_def is not None for spec in chosen)
        keys = list(context.partition_keys) if is_partitioned else []
        reporter = Reporter(opened, context.instance, open_store(context), context.run)

        def on_progress(event: RunEvent) -> None:
            # At once: if the run dies later, the results of its checks stay.
            if isinstance(event, CheckResult) and event.check in checks:
                reporter.report_check(event.check, event)

        def report(run: Run) -> None:
            for spec in chosen:
                table = name_of(spec.key)
                figures = describe_report(run.made[table]) if table in run.made else {}
                places = [WHOLE]
                if spec.partitions_def is not None:
                    # A run also makes the days that hold names of people who joined later.
                    offered = filter(spec.partitions_def.has_partition_key, run.partitions)
                    places = sorted({*keys, *offered})
                if table in SEARCHED:
                    places = [key for key in places if key not in run.kept]
                good = run.good(table, places)
                shown = figures if len(places) == 1 else {}
                changed = reporter.report(spec, good, shown, has_failed=not run.finished)
                context.log.info(f"{table}: {changed} of {len(good)} partitions have changed")
                if spec.partitions_def is not None:
                    reporter.store([Failed(spec.key, key) for key in places if key not in good])
            for check in checks:
                if check not in run.found and not run.fresh:
                    reporter.report_check(check, None)

        tables = frozenset(name_of(spec.key) for spec in chosen)
        with marking_as_alive(context.instance, context.run.run_id):
            run = Run(keys, tables, BY_DAGSTER, context.run.run_id)
            run.keeps_contexts = tags.AUTOMATIC in context.run.tags
            run = workspace.execute(run, on_progress, report)
        context.log.info("\n".join(describe_differences(run.differences)))
        if run.troubles:
            raise dg.Failure("\n\n".join(run.troubles), allow_retries=False)
        if len(context.job_def.graph.node_dict) > 1:
            # The step has reported everything itself, but assets of others in the same run wait for its results.
            for spec in chosen:
                yield dg.MaterializeResult(asset_key=spec.key)

    return make


def specify_checks(workspace: Workspace) -> list[dg.AssetCheckSpec]:
    """Describe every check of the library, for the assets of a workspace."""
    then = {True: "A partition with cases is left out.", False: "Warns."}
    return [
        dg.AssetCheckSpec(
            check.name,
            asset=key_of(workspace, check).asset_key,
            description=f"Looks for {check.what}. {then[check.blocking]}",
            blocking=check.blocking,
        )
        for check in CHECKS
    ]


def name_pool(workspace: Workspace) -> str | None:
    """Name the pool by which Dagster's queue starts one run of a workspace at a time; None if locks are enough."""
    return None if may_divide_days(workspace) else f"workspace_{name_workspace(workspace)}"


def name_workspace(workspace: Workspace) -> str:
    """Name a workspace in Dagster: a hash of its path."""
    return digest([str(workspace.root)], length=12)
