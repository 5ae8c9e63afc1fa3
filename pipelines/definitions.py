"""The code location: assets, checks, the job, its schedule and its sensor, for one workspace."""

import dagster as dg
from dagster import __version__ as installed

from assets.reports import Store
from assets.tables import make_assets
from assets.workspace_resource import WorkspaceResource
from backstory.base.errors import WorkspaceError
from backstory.interfaces.dagster_specs.asset_specs import specify_sources
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.automation import JOB, make_alert_sensors, make_schedule, make_sensor
from pipelines.dagster_internals.event_log import open_store
from pipelines.instance import keep_connections

TESTED_RELEASE = "1.13.27"
"""The release of Dagster with which the private names were compared."""


def define(workspace: Workspace, resource: dg.ResourceDefinition | None = None) -> dg.Definitions:
    """Build the Dagster definitions of a workspace, which run in one process: one per step would cost seconds."""
    require_tested_release()
    tables = make_assets(workspace, _open_store_of_step)
    job = dg.define_asset_job(
        JOB,
        # Not all, since these definitions may be merged with those of others.
        selection=dg.AssetSelection.assets(tables),
        description="Every table, for one partition or a range of them in one run.",
    )
    return dg.Definitions(
        assets=[tables, *specify_sources(workspace)],
        jobs=[job],
        schedules=[make_schedule(workspace)],
        sensors=[make_sensor(workspace), *make_alert_sensors(workspace)],
        resources={
            "workspace": resource
            or WorkspaceResource(root=str(workspace.root), accept_removals=workspace.accept_removals)
        },
        executor=dg.in_process_executor,
    )


def _open_store_of_step(context: dg.AssetExecutionContext) -> Store:
    keep_connections(context.instance)
    return open_store(context.instance, context)


def require_tested_release() -> None:
    """Raise if another release of Dagster is installed, whose private names are not known."""
    if installed != TESTED_RELEASE:
        raise WorkspaceError(
            f"Dagster {installed} is installed, and Backstory's jobs were tested with {TESTED_RELEASE}; run "
            f"`pip install dagster=={TESTED_RELEASE} dagster-webserver=={TESTED_RELEASE}`, or run without Dagster by "
            "`backstory run`",
            code="untested_dagster",
        )


@dg.definitions
def definitions() -> dg.Definitions:
    """Load the workspace named by ``BACKSTORY_WORKSPACE``, else the current folder."""
    return define(open_workspace())
