"""Runs the Dagster UI of a workspace: a code server, the daemon and the webserver."""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Final, NoReturn
from urllib.parse import urlsplit

import dagster as dg
import uvicorn
from dagster import __version__ as dagster_version
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import ModuleTarget, WorkspaceFileTarget
from dagster_shared.ipc import get_ipc_shutdown_pipe, open_ipc_subprocess, send_ipc_shutdown_message
from dagster_webserver.webserver import DagsterWebserver
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from assets.tables import name_pool
from backstory.base.errors import InputError, WorkspaceError
from backstory.pipeline.workspace import Workspace
from pipelines.dagster_internals.instance import (
    describe_lack_of_pools,
    end_lost_runs,
    open_instance,
    prepare_home,
)
from pipelines.dagster_internals.public_api import require_tested_release, uses_public_api
from pipelines.definitions import SHOWN_VARIABLE
from pipelines.location import DEFINITIONS, IMPORT_ROOT, IS_CHECKOUT, PACKAGE

_CODE = ModuleTarget(DEFINITIONS, None, str(IMPORT_ROOT), "backstory")
_LOG_LEVEL = "warning"
_STOP_SECONDS = 60
_CONNECTIONS = {"statement_timeout": 15_000, "pool_recycle": 3600, "max_overflow": 20}


def start_ui(
    workspace: Workspace,
    port: int,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    locations: Path | None = None,
) -> None:
    """Run the UI, the scheduler and the code locations until interrupted.

    Args:
        workspace: An open workspace.
        port: Port of the UI.
        host: Address to bind.
        allowed_hosts: Further names under which a browser may reach the UI, such as that of a proxy.
        locations: Dagster's file ``workspace.yaml`` with the code locations to serve; None for Backstory's own.

    Raises:
        InputError: The port is in use, or the file of the locations is not there.
        WorkspaceError: The daemon ended; its messages are printed above. Or another release of Dagster is installed.
    """
    if locations is not None and not locations.is_file():
        raise InputError(
            f"{locations} does not exist; --locations names a file such as workspace.yaml", code="absent_file"
        )
    require_tested_release()
    end_lost_runs(workspace)
    _require_free(host, port)
    os.environ[SHOWN_VARIABLE] = "1"
    if IS_CHECKOUT:
        # Code locations in other environments import the storage that dagster.yaml names, too.
        path = [str(IMPORT_ROOT), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    if uses_public_api():
        _execute_dagster_dev(workspace, port, host, locations)
    with open_instance(workspace) as instance:
        instance.optimize_for_webserver(**_CONNECTIONS)
        if lack := describe_lack_of_pools(instance):
            print(f"warning: {lack}", flush=True)
        elif pool := name_pool(workspace):
            # The queue does not know a pool before it has looked at the first runs, and starts all of them.
            instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
        with _serve_code(instance, locations) as file, _open_daemon(file) as daemon:
            context = WorkspaceProcessContext(instance, WorkspaceFileTarget([file]), version=dagster_version)
            with context:
                guarded = GuardedWebserver(context, list_authorities(host, port, allowed_hosts))
                print(f"The UI is at http://{host}:{port} (Ctrl-C ends it)", flush=True)
                _serve(uvicorn.Config(guarded.create_asgi_app(), host, port, log_level=_LOG_LEVEL), daemon)


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


def _execute_dagster_dev(workspace: Workspace, port: int, host: str, locations: Path | None) -> NoReturn:
    """Become Dagster's own development server, which serves every name of a host to every browser."""
    os.environ.update(prepare_home(workspace))
    code = ["-m", DEFINITIONS] if locations is None else ["-w", str(locations)]
    print(f"The UI is at http://{host}:{port} (Ctrl-C ends it); it is `dagster dev`", flush=True)
    command = ["dagster", "dev", *code, "--host", host, "--port", str(port)]
    os.execv(sys.executable, [sys.executable, "-m", *command])  # noqa: S606 - no text of a user is in it


@contextmanager
def _serve_code(instance: dg.DagsterInstance, locations: Path | None) -> Iterator[str]:
    """Start a code server per location for webserver and daemon, and name them in a file, in JSON as YAML."""
    code = _CODE if locations is None else WorkspaceFileTarget([str(locations)])
    with (
        ProxyServerManager(instance, code, code_server_log_level=_LOG_LEVEL) as servers,
        TemporaryDirectory() as folder,
    ):
        file = Path(folder) / "workspace.yaml"
        file.write_text(json.dumps({"load_from": servers.get_code_server_specs()}), encoding="utf-8")
        yield str(file)


@contextmanager
def _open_daemon(file: str) -> Iterator[Popen[bytes]]:
    """Start the daemon, which runs schedules, sensors, backfills and the queue; stop it in the end."""
    reads, writes = get_ipc_shutdown_pipe()
    command = [
        sys.executable,
        "-m",
        f"{PACKAGE}.dagster_internals.daemon",
        "run",
        "--workspace",
        file,
        "--shutdown-pipe",
        str(reads),
    ]
    daemon = open_ipc_subprocess(command, pass_fds=[reads])
    os.close(reads)
    try:
        yield daemon
    finally:
        if daemon.poll() is None:
            send_ipc_shutdown_message(writes)
        try:
            daemon.wait(_STOP_SECONDS)
        except TimeoutExpired:
            daemon.kill()


def _serve(config: uvicorn.Config, daemon: "Popen[bytes]") -> None:
    """Serve until interrupted, or until the daemon ends."""
    server = uvicorn.Server(config)

    def stop_with_daemon() -> None:
        daemon.wait()
        server.should_exit = True

    threading.Thread(target=stop_with_daemon, daemon=True).start()
    # The server raises a signal again after it has stopped, and the daemon is to be stopped then.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    server.run()
    if daemon.poll():
        raise WorkspaceError(
            f"Dagster's daemon ended with exit code {daemon.returncode}; see its messages above"
        )


LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine, for itself."""

_PATHS_OF_ACTIONS = ("/graphql", "/report_asset_")
_FOREIGN = ("cross-site", "same-site")


class GuardedWebserver(DagsterWebserver[WorkspaceProcessContext, WorkspaceRequestContext]):
    """Dagster's webserver behind :class:`OwnPagesOnly`, and in no frame of another page."""

    def __init__(self, context: WorkspaceProcessContext, authorities: Collection[str]) -> None:
        super().__init__(context, live_data_poll_rate=2000)
        self._authorities = authorities

    def build_middleware(self) -> list[Middleware]:
        """Return Dagster's middleware behind the guard."""
        return [Middleware(OwnPagesOnly, authorities=self._authorities), *super().build_middleware()]

    def make_security_headers(self) -> dict[str, str]:
        """Return Dagster's headers and the one that forbids frames of other sites."""
        return {**super().make_security_headers(), "X-Frame-Options": "SAMEORIGIN"}


class OwnPagesOnly:
    """Refuses requests that name another host, or that a page of another site makes.

    A link from another site to a page is followed. Programs that are no browser send neither ``Origin`` nor
    ``Sec-Fetch-Site``, and pass.
    """

    def __init__(self, app: ASGIApp, authorities: Collection[str]) -> None:
        """Wrap an application.

        Args:
            app: The application.
            authorities: Allowed values of ``Host``: ``name:port``, or ``name`` for any port.
        """
        self._app = app
        self._authorities = frozenset(authority.lower() for authority in authorities)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 400 (host) or 403 (another site)."""
        refusal = self._refuse(scope) if scope["type"] in ("http", "websocket") else None
        await (refusal or self._app)(scope, receive, send)

    def _refuse(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        if not self._is_own(headers.get("host", "")):
            return PlainTextResponse(
                "This address is not one of the UI's. Open the one that `backstory dagster ui` printed, or allow "
                "this name with --allow-host.\n",
                status_code=400,
            )
        origin = headers.get("origin")
        is_foreign = headers.get("sec-fetch-site") in _FOREIGN
        if origin is not None:
            is_foreign = is_foreign or not self._is_own(urlsplit(origin).netloc)
        is_page = (
            scope["type"] == "http"
            and scope["method"] in ("GET", "HEAD")
            and headers.get("sec-fetch-mode") == "navigate"
            and not scope["path"].startswith(_PATHS_OF_ACTIONS)
        )
        if is_foreign and not is_page:
            return PlainTextResponse("A page of another site may not use the UI.\n", status_code=403)
        return None

    def _is_own(self, authority: str) -> bool:
        name, colon, port = authority.lower().rpartition(":")
        if not colon or not port.isdigit():
            name = authority.lower()
        return bool(name) and (authority.lower() in self._authorities or name in self._authorities)


def list_authorities(host: str, port: int, names: Collection[str]) -> list[str]:
    """List the allowed values of ``Host``.

    Args:
        host: Address that the server is bound to.
        port: Its port.
        names: Further names, such as that of a proxy, with any port.
    """
    bound = [host] if host not in ("0.0.0.0", "::") else []  # noqa: S104 - compared, not bound
    return [*(f"{name}:{port}" for name in (*LOOPBACK, *bound)), *names]
