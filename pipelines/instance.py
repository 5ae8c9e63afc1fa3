"""The Dagster instance of a workspace, kept inside the workspace."""

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

HOME_VARIABLE = "BACKSTORY_DAGSTER_HOME"
_EVENTS_AT_ONCE = 1000
_ROOT = Path(__file__).resolve().parent.parent


def prepare_home(workspace: Workspace) -> dict[str, str]:
    """Put ``dagster.yaml`` into the workspace's Dagster home.

    Args:
        workspace: The workspace.

    Returns:
        The environment variables that make Dagster use this home and this workspace.
    """
    home = workspace.dagster_home
    home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_ROOT / "dagster.yaml", home / "dagster.yaml")
    return {
        "DAGSTER_HOME": str(home),
        HOME_VARIABLE: str(home),
        # Dagster hands events over in batches only where it is told how large they may be.
        "DAGSTER_EVENT_BATCH_SIZE": str(_EVENTS_AT_ONCE),
        WORKSPACE_VARIABLE: str(workspace.root),
    }


def open_instance(workspace: Workspace) -> dg.DagsterInstance:
    """Open the instance of a workspace in this process."""
    os.environ.update(prepare_home(workspace))
    return dg.DagsterInstance.get()


def start_ui(workspace: Workspace, port: int) -> None:
    """Run the Dagster UI, the scheduler and the code location until interrupted.

    Raises:
        InputError: The port is taken.
        WorkspaceError: Dagster ended by itself; what it said stands above.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port just left is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used ({error.strerror}); stop what uses it, perhaps another `make ui`, or "
                "give another port with --port (`make ui PORT=...`)"
            ) from error
    command = [sys.executable, "-m", "dagster", "dev", "--workspace", str(_ROOT / "workspace.yaml")]
    environment = {**os.environ, **prepare_home(workspace)}
    ended = subprocess.run(
        [*command, "--host", "127.0.0.1", "--port", str(port)], cwd=_ROOT, env=environment, check=False
    )
    if ended.returncode > 0:  # below 0: ended by a signal, as an interrupt does
        raise WorkspaceError(f"dagster dev ended with exit code {ended.returncode}; see its messages above")
