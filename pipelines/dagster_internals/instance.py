"""The Dagster instance of a workspace, stored in the workspace."""

import glob
import os
import re
import shlex
from pathlib import Path

import dagster as dg
from dagster._core.instance.config import PoolGranularity

from backstory.base.environment import WORKSPACE_VARIABLE
from backstory.base.errors import InputError, WorkspaceError
from backstory.pipeline.workspace import Workspace
from pipelines.dagster_internals.public_api import uses_public_api
from pipelines.dagster_internals.run_launcher import LOST, has_process
from pipelines.location import DEFINITIONS, IMPORT_ROOT, INSTANCE_SETTINGS

HOME_VARIABLE = "BACKSTORY_DAGSTER_HOME"
_EVENTS_AT_ONCE = 1000
_TICK_SECONDS = "600"
_MODULE = re.compile(r"^\s*module:\s*((?:backstory_)?pipelines\.[\w.]+)\s*$", re.MULTILINE)


def prepare_home(workspace: Workspace) -> dict[str, str]:
    """Choose the Dagster home: ``DAGSTER_HOME`` if the operator set it, else the folder in the workspace.

    Args:
        workspace: An open workspace.

    Returns:
        The environment variables that make Dagster use this home and this workspace. An existing ``dagster.yaml`` is
        never overwritten.

    Raises:
        InputError: ``DAGSTER_HOME`` is not an absolute path of an existing folder.
        WorkspaceError: The path of the home is a pattern of files, so that Dagster would ignore its ``dagster.yaml``,
            or that file is of another installation.
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
        _require_no_pattern(home)
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "dagster.yaml").exists():
            _write_settings(home / "dagster.yaml")
    _require_known_modules(home / "dagster.yaml")
    return {
        "DAGSTER_HOME": str(home),
        # Distinguishes this home from an operator's. A dagster.yaml of an earlier release stores there.
        HOME_VARIABLE: str(workspace.dagster_home),
        # Dagster sends events in batches only if the batch size is set.
        "DAGSTER_EVENT_BATCH_SIZE": str(_EVENTS_AT_ONCE),
        # A tick reads every export that has changed.
        "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS": os.environ.get(
            "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS", _TICK_SECONDS
        ),
        "DAGSTER_SCHEDULE_GRPC_TIMEOUT_SECONDS": os.environ.get(
            "DAGSTER_SCHEDULE_GRPC_TIMEOUT_SECONDS", _TICK_SECONDS
        ),
        WORKSPACE_VARIABLE: str(workspace.root),
    }


def _require_no_pattern(home: Path) -> None:
    # Dagster finds dagster.yaml by glob. Without it, it would store elsewhere and send telemetry.
    if glob.has_magic(str(home)):
        raise WorkspaceError(
            f"{home} holds one of * ? [, so Dagster would not find its dagster.yaml; rename the folder, or run "
            "without Dagster by `backstory run`",
            code="unusable_path",
        )


def _write_settings(file: Path) -> None:
    """Write the settings of an instance; with the public API alone, those that name no class of this folder."""
    text = INSTANCE_SETTINGS.read_text(encoding="utf-8")
    if uses_public_api():
        text = "\n\n".join(block for block in text.split("\n\n") if _MODULE.search(block) is None)
    file.write_text(text, encoding="utf-8")


def _require_known_modules(file: Path) -> None:
    """Raise if a ``dagster.yaml`` of another installation names modules that are not in this one."""
    if not file.is_file():
        return
    named = _MODULE.findall(file.read_text(encoding="utf-8"))
    for module in named:
        if not (IMPORT_ROOT / f"{module.replace('.', '/')}.py").is_file():
            raise WorkspaceError(
                f"{file} is of another installation of Backstory: it names the module {module}, which is not in "
                f"{IMPORT_ROOT}; delete the file, if nobody has changed it, and the next start copies it again; else "
                f"take the names of the modules from {INSTANCE_SETTINGS}",
                code="absent_module",
            )


def write_code_location(workspace: Workspace) -> str:
    """Write the files with which Dagster's own commands find a workspace; existing ones are not overwritten.

    Args:
        workspace: An open workspace.

    Returns:
        Text that says how to start Dagster's commands.

    Raises:
        InputError: As :func:`prepare_home`.
        WorkspaceError: As :func:`prepare_home`.
    """
    environment = prepare_home(workspace)
    file = workspace.root / "workspace.yaml"
    if not file.exists():
        file.write_text(
            "# The code location of this workspace, for `dagster dev -w workspace.yaml` and `dg`.\n"
            f"load_from:\n  - python_module:\n      module_name: {DEFINITIONS}\n      location_name: backstory\n",
            encoding="utf-8",
        )
    exports = "\n".join(
        f"export {name}={shlex.quote(environment[name])}" for name in ("DAGSTER_HOME", WORKSPACE_VARIABLE)
    )
    return f"{exports}\ndagster dev -w {shlex.quote(str(file))}"


def open_instance(workspace: Workspace) -> dg.DagsterInstance:
    """Open the instance of a workspace in this process."""
    os.environ.update(prepare_home(workspace))
    return dg.DagsterInstance.get()


def describe_lack_of_pools(instance: dg.DagsterInstance) -> str | None:
    """Describe the setting for queued runs that an earlier or an operator's ``dagster.yaml`` lacks.

    Args:
        instance: The instance.

    Returns:
        A sentence that says what to do; None if nothing is lacking.
    """
    pools = instance.get_concurrency_config().pool_config
    if pools.pool_granularity is PoolGranularity.RUN and pools.default_pool_limit == 1:
        return None
    return (
        f"{instance.root_directory}/dagster.yaml does not keep the runs of a workspace in the queue while another one "
        "is under way: they wait after their start, and hold a slot. Put `pools: {default_limit: 1, granularity: run}` "
        "under `concurrency`; or delete the file, if nobody has changed it, and the next start copies it again"
    )


def end_lost_runs(workspace: Workspace) -> list[str]:
    """Mark runs as failed if their process is gone, as after a crash of the machine, so that they hold no slot.

    The daemon does so, too, every half minute, for runs that have started, if the launcher of ``dagster.yaml`` is this
    project's. It retries the marked runs.

    Returns:
        The ids of the marked runs.
    """
    ended = []
    with open_instance(workspace) as instance:
        under_way = [
            dg.DagsterRunStatus.NOT_STARTED,  # created, and lost before it was queued
            dg.DagsterRunStatus.STARTING,
            dg.DagsterRunStatus.STARTED,
            dg.DagsterRunStatus.CANCELING,
        ]
        for run in instance.get_runs(dg.RunsFilter(statuses=under_way)):
            if not has_process(instance, run):
                instance.report_run_failed(run, LOST)
                ended.append(run.run_id)
    return ended
