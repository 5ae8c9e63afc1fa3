"""Assets of the group ``conversations``."""

import dagster as dg

from assets.metadata import describe_report
from assets.partitioning import BACKFILL, PREVIOUS_TOO
from assets.workspace_resource import WorkspaceResource
from backstory import pipeline
from backstory.orchestration import describe_columns

GROUP = "conversations"


def make_conversation_assets(partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetsDefinition]:
    """Make the assets whose partitions are those of the workspace."""

    @dg.asset(
        group_name=GROUP,
        partitions_def=partitions,
        backfill_policy=BACKFILL,
        kinds={"parquet"},
        metadata=describe_columns("messages"),
    )
    def messages(
        context: dg.AssetExecutionContext, workspace: WorkspaceResource
    ) -> dg.MaterializeResult[None]:
        """Messages of all chat exports, authors as pseudonyms; unreadable lines are in ``quarantine``."""
        report = pipeline.materialize_messages(workspace.workspace, context.partition_keys)
        return dg.MaterializeResult(metadata=describe_report(report))

    @dg.asset(
        group_name=GROUP,
        partitions_def=partitions,
        backfill_policy=BACKFILL,
        deps=[dg.AssetDep("messages", partition_mapping=PREVIOUS_TOO)],
        kinds={"parquet"},
        metadata=describe_columns("windows"),
    )
    def windows(
        context: dg.AssetExecutionContext, workspace: WorkspaceResource
    ) -> dg.MaterializeResult[None]:
        """Windows of a partition's messages; the overlap is read from the partition before."""
        report = pipeline.materialize_windows(workspace.workspace, context.partition_keys)
        return dg.MaterializeResult(metadata=describe_report(report))

    @dg.asset(
        group_name=GROUP,
        partitions_def=partitions,
        backfill_policy=BACKFILL,
        deps=["windows", dg.AssetDep("messages", partition_mapping=PREVIOUS_TOO)],
        kinds={"parquet"},
        metadata=describe_columns("window_chunks"),
    )
    def window_chunks(
        context: dg.AssetExecutionContext, workspace: WorkspaceResource
    ) -> dg.MaterializeResult[None]:
        """Query chunks of each window, at every granularity that is set."""
        report = pipeline.materialize_window_chunks(workspace.workspace, context.partition_keys)
        return dg.MaterializeResult(metadata=describe_report(report))

    return [messages, windows, window_chunks]
