"""The assets: one for each stage of the library's plan, made by one factory, and one for each table written beside."""

from collections.abc import Sequence

import dagster as dg

from assets.metadata import describe_picture, describe_report
from assets.workspace_resource import WorkspaceResource
from backstory.orchestration import specify_assets
from backstory.pipeline import STAGES, Stage
from backstory.report import picture_windows

_PICTURED = "window_contexts"

# One run per slice: a run costs seconds whatever it does, and a failure retries only its slice.
_BACKFILL = dg.BackfillPolicy.multi_run(max_partitions_per_run=366)


def make_assets(
    partitions: dg.TimeWindowPartitionsDefinition,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Make all assets.

    Args:
        partitions: The calendar partitions of the workspace.

    Returns:
        An asset for each stage; and for each table that is written beside, which nothing can make alone, the
        specification of an external asset.
    """
    stages = {dg.AssetKey(stage.table): stage for stage in STAGES}
    return [
        _make_asset(stages[spec.key], spec) if spec.key in stages else spec
        for spec in specify_assets(partitions)
    ]


def _make_asset(stage: Stage, spec: dg.AssetSpec) -> dg.AssetsDefinition:
    @dg.asset(
        name=stage.table,
        group_name=spec.group_name,
        description=spec.description,
        kinds=spec.kinds,
        metadata=spec.metadata,
        partitions_def=spec.partitions_def,
        backfill_policy=_BACKFILL if stage.partitioned else None,
        deps=spec.deps,
    )
    def make(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
        keys: Sequence[str] = context.partition_keys if stage.partitioned else ()
        report = stage.make(workspace.workspace, keys)
        for table in stage.writes_beside:
            context.log_event(dg.AssetMaterialization(table))
        pictured = stage.table == _PICTURED
        picture = describe_picture(picture_windows(workspace.workspace, keys)) if pictured else {}
        return dg.MaterializeResult(metadata=describe_report(report) | picture)

    return make
