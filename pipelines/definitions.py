"""The code location: assets, checks, the job, its schedule and its sensor, for one workspace."""

import os
import re

import dagster as dg
from dagster import __version__ as installed

from assets.reports import Store
from assets.tables import make_assets
from assets.workspace_resource import WorkspaceResource
from backstory.base.errors import BackstoryError, WorkspaceError
from backstory.interfaces.dagster_specs.asset_specs import specify_sources
from backstory.pipeline.workspace import Workspace, open_workspace
from pipelines.automation import JOB, make_alert_sensors, make_schedule, make_sensor
from pipelines.dagster_internals.event_log import open_store
from pipelines.instance import keep_connections

TESTED_RELEASE = "1.13.27"
"""The release of Dagster with which the private names were compared."""

_SHOWN_CHARACTERS = 31

SHOWN_VARIABLE = "BACKSTORY_UI"
"""Environment variable that is set under the UI, which shows errors in the asset graph."""


def define(workspace: Workspace, resource: dg.ResourceDefinition | None = None) -> dg.Definitions:
    """Build the Dagster definitions of a workspace.

    Returns:
        Definitions that run in one process: the asset batches its own work, and a process per step would cost
        seconds.

    Raises:
        WorkspaceError: Another release of Dagster is installed than the tested one.
    """
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
    """Raise if another release of Dagster is installed, whose private names are not known.

    Raises:
        WorkspaceError: The message says how to install the tested release.
    """
    if installed != TESTED_RELEASE:
        raise WorkspaceError(
            f"Dagster {installed} is installed, and Backstory's jobs were tested with {TESTED_RELEASE}; run "
            f"`pip install dagster=={TESTED_RELEASE} dagster-webserver=={TESTED_RELEASE}`, or run without Dagster by "
            "`backstory run`",
            code="untested_dagster",
        )


@dg.definitions
def definitions() -> dg.Definitions:
    """Load the workspace named by ``BACKSTORY_WORKSPACE``, else the current folder.

    If the settings cannot be read, this raises. Under ``backstory dagster ui`` it returns an asset whose description
    is the error instead, since the UI shows an empty graph for a code location that does not load.
    """
    try:
        return define(open_workspace())
    except BackstoryError as error:
        if SHOWN_VARIABLE not in os.environ:
            raise
        return dg.Definitions(assets=[describe_error(error)])


def describe_error(error: BackstoryError) -> dg.AssetSpec:
    """Build the asset that shows an error in the otherwise empty graph."""
    # The graph shows this many characters of the last part of a key, and no description.
    first = re.sub(r"^\S+:(\d+): ", r"line \1 ", str(error).splitlines()[0])
    return dg.AssetSpec(
        ["settings_cannot_be_read", re.sub(r"\W+", "_", first)[:_SHOWN_CHARACTERS]],
        group_name="error",
        description=f"{error}\n\nCorrect it, and choose *Reload definitions*. Until then, no schedule and no sensor "
        "starts a run.",
    )
