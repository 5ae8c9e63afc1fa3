"""The Dagster instance of a workspace, kept inside the workspace."""

import glob
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import dagster as dg

from backstory.errors import InputError, WorkspaceError
from backstory.settings.environment import WORKSPACE_VARIABLE
from backstory.workspace import Workspace
from pipelines.definitions import SHOWN_VARIABLE

HOME_VARIABLE = "BACKSTORY_DAGSTER_HOME"
_EVENTS_AT_ONCE = 1000
_ROOT = Path(__file__).resolve().parent.parent


def prepare_home(workspace: Workspace) -> dict[str, str]:
    """Choose the Dagster home: ``DAGSTER_HOME`` if the operator set it, else the folder in the workspace.

    Args:
        workspace: An open workspace.

    Returns:
        The environment variables that make Dagster use this home and this workspace. An existing ``dagster.yaml`` is
        never overwritten.

    Raises:
        InputError: ``DAGSTER_HOME`` is not an absolute path of an existing folder.
        WorkspaceError: The path of the home is a pattern of files, so that Dagster would ignore its ``dagster.yaml``.
    """
    chosen = os.environ.get("DAGSTER_HOME")
    home = workspace.dagster_home
    if chosen and chosen != os.environ.get(
        HOME_VARIABLE
    ):  # otherwise this function set it, perhaps for another workspace
        home = Path(chosen)
        if not home.is_absolute() or not home.is_dir():
            raise InputError(
                f"DAGSTER_HOME is {chosen!r}, which is no absolute path of a folder; make it or unset it"
            )
    else:
        _require_no_pattern(home)
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "dagster.yaml").exists():
            shutil.copyfile(_ROOT / "dagster.yaml", home / "dagster.yaml")
    return {
        "DAGSTER_HOME": str(home),
        # Distinguishes this home from an operator's; dagster.yaml names it as the storage folder.
        HOME_VARIABLE: str(workspace.dagster_home),
        # Dagster sends events in batches only if the batch size is set.
        "DAGSTER_EVENT_BATCH_SIZE": str(_EVENTS_AT_ONCE),
        WORKSPACE_VARIABLE: str(workspace.root),
    }


def _require_no_pattern(home: Path) -> None:
    # Dagster finds dagster.yaml by glob. Without it, it would store elsewhere and send telemetry.
    if glob.has_magic(str(home)):
        raise WorkspaceError(
            f"{home} holds one of * ? [, so that Dagster would not find its dagster.yaml; rename the folder, or run "
            "without Dagster by `backstory run`"
        )


def open_instance(workspace: Workspace) -> dg.DagsterInstance:
    """Open the instance of a workspace in this process."""
    os.environ.update(prepare_home(workspace))
    return dg.DagsterInstance.get()


def end_lost_runs(workspace: Workspace) -> list[str]:
    """Mark runs as failed if their process is gone, as after a crash of the machine, so that they hold no slot.

    Dagster's launcher cannot distinguish a lost run from a slow one. The daemon retries the marked runs.

    Returns:
        The ids of the marked runs.
    """
    ended = []
    with open_instance(workspace) as instance:
        under_way = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
        for run in instance.get_runs(dg.RunsFilter(statuses=under_way)):
            events = [
                record.event_log_entry.dagster_event
                for record in instance.get_records_for_run(run.run_id).records
            ]
            processes = {event.pid for event in events if event is not None and event.pid is not None}
            if not any(_is_dagster(process) for process in processes):
                instance.report_run_failed(
                    run, "The process of this run is gone, as after a loss of the machine."
                )
                ended.append(run.run_id)
    return ended


def _is_dagster(process: int) -> bool:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return b"dagster" in command or b"pipelines" in command


def start_ui(workspace: Workspace, port: int) -> None:
    """Run the Dagster UI, the scheduler and the code location until interrupted.

    Raises:
        InputError: The port is in use.
        WorkspaceError: Dagster exited with an error; its messages are printed above.
    """
    end_lost_runs(workspace)
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a port that was closed just now counts as free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used ({error.strerror}); stop what uses it, perhaps another `make ui`, or "
                "give another port with --port (`make ui PORT=...`)"
            ) from error
    command = [sys.executable, "-m", "dagster", "dev", "--workspace", str(_ROOT / "workspace.yaml")]
    environment = {**os.environ, **prepare_home(workspace), SHOWN_VARIABLE: "1"}
    ended = subprocess.run(
        [*command, "--host", "127.0.0.1", "--port", str(port)], cwd=_ROOT, env=environment, check=False
    )
    if ended.returncode > 0:  # below 0: ended by a signal, such as an interrupt
        raise WorkspaceError(f"dagster dev ended with exit code {ended.returncode}; see its messages above")
