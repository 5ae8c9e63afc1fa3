"""The Dagster instance of a workspace, stored in the workspace."""

import glob
import os
import select
import shlex
import shutil
from pathlib import Path
from typing import Any, Final

import dagster as dg
import sqlalchemy as sa

from backstory.base.environment import WORKSPACE_VARIABLE
from backstory.base.errors import InputError, WorkspaceError
from backstory.pipeline.workspace import Workspace

_PACKAGE: Final = __name__.rpartition(".")[0]
IS_CHECKOUT: Final = _PACKAGE == "pipelines"
"""Whether this package is that of a checkout; the wheel holds it as ``backstory_pipelines`` (``hatch_build.py``)."""
IMPORT_ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder from which Python imports this package: that of the checkout, or the environment's packages."""
_SETTINGS: Final = IMPORT_ROOT / "dagster.yaml" if IS_CHECKOUT else IMPORT_ROOT / _PACKAGE / "dagster.yaml"
"""The settings of an instance, which each new home gets a copy of."""

HOME_VARIABLE = "BACKSTORY_DAGSTER_HOME"
CODE_LOCATION = f"""load_from:
  - python_module:
      module_name: {_PACKAGE}.definitions
      location_name: backstory
"""
"""Dagster's file ``workspace.yaml`` that names the code location."""

_EVENTS_AT_ONCE = 1000
_MOST_CONNECTIONS = 20
_SECONDS_KEPT = 3600
# A tick reads every export that has changed.
_TICK_VARIABLES = ("DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS", "DAGSTER_SCHEDULE_GRPC_TIMEOUT_SECONDS")
_TICK_SECONDS = "600"


def prepare_home(workspace: Workspace) -> dict[str, str]:
    """Choose the Dagster home: ``DAGSTER_HOME`` if the operator set it, else the folder in the workspace.

    It returns the environment variables that make Dagster use this home, whose ``dagster.yaml`` is never overwritten,
    and this workspace.
    """
    chosen = os.environ.get("DAGSTER_HOME")
    home = workspace.dagster_home
    # What equals the other variable was set by this function, perhaps for another workspace.
    if chosen and chosen != os.environ.get(HOME_VARIABLE) and Path(chosen) != home:
        home = Path(chosen)
        if not home.is_absolute() or not home.is_dir():
            raise InputError(
                f"DAGSTER_HOME is {chosen!r}, which is no absolute path of a folder; make it or unset it",
                code="invalid_home",
            )
    else:
        if glob.has_magic(str(home)):  # Dagster would not find its file, store elsewhere and send telemetry
            raise WorkspaceError(
                f"{home} holds one of * ? [, so Dagster would not find its dagster.yaml; rename the folder, or run "
                "without Dagster by `backstory run`",
                code="unusable_path",
            )
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "dagster.yaml").exists():
            shutil.copyfile(_SETTINGS, home / "dagster.yaml")
    return {
        "DAGSTER_HOME": str(home),
        # Distinguishes this home from an operator's.
        HOME_VARIABLE: str(workspace.dagster_home),
        # Dagster sends events in batches only if the batch size is set.
        "DAGSTER_EVENT_BATCH_SIZE": str(_EVENTS_AT_ONCE),
        **{name: os.environ.get(name, _TICK_SECONDS) for name in _TICK_VARIABLES},
        WORKSPACE_VARIABLE: str(workspace.root),
    }


def write_code_location(workspace: Workspace) -> str:
    """Write the files with which Dagster's own commands find a workspace, unless they exist; say how to start these."""
    environment = prepare_home(workspace)
    file = workspace.root / "workspace.yaml"
    if not file.exists():
        told = "# The code location of this workspace, for `dagster dev -w workspace.yaml` and `dg`.\n"
        file.write_text(told + CODE_LOCATION, encoding="utf-8")
    exports = "\n".join(
        f"export {name}={shlex.quote(environment[name])}" for name in ("DAGSTER_HOME", WORKSPACE_VARIABLE)
    )
    return f"{exports}\ndagster dev -w {shlex.quote(str(file))}"


def open_instance(workspace: Workspace) -> dg.DagsterInstance:
    """Open the instance of a workspace in this process."""
    os.environ.update(prepare_home(workspace))
    return dg.DagsterInstance.get()


def keep_connections(instance: dg.DagsterInstance) -> None:
    """Let this process keep its connections to tables of Dagster in Postgres, which opens two for each event else."""
    instance.optimize_for_webserver(
        statement_timeout=0, pool_recycle=_SECONDS_KEPT, max_overflow=_MOST_CONNECTIONS
    )
    if not sa.event.contains(sa.pool.QueuePool, "checkout", _replace_closed):
        sa.event.listen(sa.pool.QueuePool, "checkout", _replace_closed)


def _replace_closed(connection: Any, *_: object) -> None:
    """Have a connection that its server has closed, as when it started again, replaced before it is used."""
    incoming = select.poll()
    incoming.register(connection.fileno(), select.POLLIN)
    if incoming.poll(0):
        raise sa.exc.DisconnectionError
