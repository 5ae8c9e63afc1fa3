"""Assets of the group ``retrieval``."""

import dagster as dg

from assets.metadata import describe_picture, describe_report
from assets.partitioning import BACKFILL
from assets.workspace_resource import WorkspaceResource
from backstory import pipeline
from backstory.orchestration import describe_columns
from backstory.report import picture_windows

GROUP = "retrieval"


def make_retrieval_assets(partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetsDefinition]:
    """Make the assets whose partitions are those of the workspace."""

    @dg.asset(
        group_name=GROUP,
        partitions_def=partitions,
        backfill_policy=BACKFILL,
        deps=["windows", "window_chunks", "search_index"],
        kinds={"parquet"},
        metadata=describe_columns("hits"),
    )
    def hits(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
        """What each query chunk finds in the index."""
        report = pipeline.materialize_hits(workspace.workspace, context.partition_keys)
        return dg.MaterializeResult(metadata=describe_report(report))

    @dg.asset(
        group_name=GROUP,
        partitions_def=partitions,
        backfill_policy=BACKFILL,
        deps=["hits", "windows", "window_chunks", "search_index"],
        kinds={"parquet"},
        metadata=describe_columns("decisions"),
    )
    def decisions(
        context: dg.AssetExecutionContext, workspace: WorkspaceResource
    ) -> dg.MaterializeResult[None]:
        """Every hit, kept or dropped with its cause."""
        report = pipeline.materialize_decisions(workspace.workspace, context.partition_keys)
        return dg.MaterializeResult(metadata=describe_report(report))

    @dg.asset(
        group_name=GROUP,
        partitions_def=partitions,
        backfill_policy=BACKFILL,
        deps=["decisions", "windows", "search_index"],
        kinds={"parquet"},
        metadata=describe_columns("contexts"),
    )
    def contexts(
        context: dg.AssetExecutionContext, workspace: WorkspaceResource
    ) -> dg.MaterializeResult[None]:
        """The chosen chunks of each window, best first: what writer jobs read."""
        report = pipeline.materialize_contexts(workspace.workspace, context.partition_keys)
        return dg.MaterializeResult(metadata=describe_report(report))

    @dg.asset(
        group_name=GROUP,
        partitions_def=partitions,
        backfill_policy=BACKFILL,
        deps=["windows", "window_chunks", "hits", "decisions", "contexts", "search_index"],
        kinds={"parquet"},
        metadata=describe_columns("window_contexts"),
    )
    def window_contexts(
        context: dg.AssetExecutionContext, workspace: WorkspaceResource
    ) -> dg.MaterializeResult[None]:
        """One row per window: status, prompt text, counts of every stage, coverage, verdict."""
        report = pipeline.materialize_window_contexts(workspace.workspace, context.partition_keys)
        picture = picture_windows(workspace.workspace, context.partition_keys)
        return dg.MaterializeResult(metadata=describe_report(report) | describe_picture(picture))

    return [hits, decisions, contexts, window_contexts]
