"""Starts the Dagster UI of a workspace: `dagster dev` in the home of the workspace."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from assets.tables import name_pool
from backstory.base.errors import BackstoryError, InputError
from backstory.pipeline.workspace import Workspace
from pipelines.automation import report_made
from pipelines.definitions import require_tested_release
from pipelines.instance import CODE_LOCATION, IMPORT_ROOT, IS_CHECKOUT, open_instance
from pipelines.own_pages import HOSTS_VARIABLE, list_hosts


def start_ui(
    workspace: Workspace,
    port: int,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    locations: Path | None = None,
) -> None:
    """Run the UI, the scheduler and the code locations until interrupted."""
    if locations is not None and not locations.is_file():
        raise InputError(
            f"{locations} does not exist; --locations names a file such as workspace.yaml", code="absent_file"
        )
    require_tested_release()
    from pipelines.dagster_internals.dev import serve

    _require_free(host, port)
    os.environ[HOSTS_VARIABLE] = list_hosts(host, port, allowed_hosts)
    if IS_CHECKOUT:
        # Code locations in other environments import the storage that dagster.yaml names, too.
        path = [str(IMPORT_ROOT), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    with open_instance(workspace) as instance:
        if pool := name_pool(workspace):
            # The queue does not know a pool before it has looked at the first runs, and starts all of them.
            instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
        try:
            report_made(workspace, instance)
        except BackstoryError as error:  # the UI shows the rest, and the next tick of the sensor the error
            print(f"Days made without Dagster are not reported: {error}", flush=True)
    print(f"The UI is at http://{host}:{port} (Ctrl-C ends it)", flush=True)
    with TemporaryDirectory() as folder:
        own = Path(folder) / "workspace.yaml"
        own.write_text(CODE_LOCATION, encoding="utf-8")
        serve(port, host, str(locations or own))


def _require_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # A port that was closed just now counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used ({error.strerror}); stop the program that uses it, perhaps another "
                "`make ui`, or give another port with --port (`make ui PORT=...`)",
                code="unusable_port",
            ) from error
