"""The code location: assets, checks, the job, its schedule and its sensor, for one workspace."""

import dagster as dg

from assets.tables import make_assets
from assets.workspace_resource import WorkspaceResource
from backstory.orchestration import specify_sources
from backstory.workspace import Workspace, open_workspace
from pipelines.automation import make_schedule, make_sensor

JOB = "materialize_everything"


def define(workspace: Workspace) -> dg.Definitions:
    """Put together what Dagster knows of a workspace.

    Args:
        workspace: The workspace; its settings say the grain and the start of the partitions.

    Returns:
        Definitions that run in one process: the batch is inside the asset, and a process per step would cost
        seconds each.
    """
    job = dg.define_asset_job(
        JOB,
        selection=dg.AssetSelection.all() | dg.AssetSelection.all_asset_checks(),
        description="Every table, for one partition or a range of them in one run.",
    )
    return dg.Definitions(
        assets=[make_assets(workspace), *specify_sources()],
        jobs=[job],
        schedules=[make_schedule(workspace, job)],
        sensors=[make_sensor(workspace, job)],
        resources={
            "workspace": WorkspaceResource(
                root=str(workspace.root), accept_removals=workspace.accept_removals
            )
        },
        executor=dg.in_process_executor,
    )


@dg.definitions
def definitions() -> dg.Definitions:
    """Load the workspace named by ``BACKSTORY_WORKSPACE``, else the current folder."""
    return define(open_workspace())
