"""`dagster dev` with a webserver that answers only its own pages, and a daemon that suits backfills of days.

Dagster has no setting for what is replaced here. Its daemon looks at backfills every half minute, so that one of a day
would take two minutes. After a loss of power, it may end the backfill whose run is lost before it looks for runs to
retry, and it would retry none of an ended backfill. Its webserver answers every page that a browser has open.
"""

import os
import signal
import sys
import threading
from subprocess import Popen
from typing import Any

from dagster._cli import dev
from dagster._core.execution.backfill import BulkActionStatus
from dagster._daemon import cli as daemon
from dagster._daemon import controller
from dagster._daemon.auto_run_reexecution import auto_run_reexecution
from dagster_shared.cli import WorkspaceOpts
from dagster_shared.ipc import open_ipc_subprocess
from dagster_webserver import cli as webserver

from backstory.base.errors import WorkspaceError
from pipelines.own_pages import guard

_INTERVAL_SECONDS = 3
_REPLACED = ("dagster_webserver", "dagster._daemon")


def serve(port: int, host: str, locations: str) -> None:
    """Run the webserver, the daemon and the code locations that a ``workspace.yaml`` names until interrupted."""
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def start(command: list[str], **options: Any) -> Popen[Any]:
        return open_ipc_subprocess([__name__ if word in _REPLACED else word for word in command], **options)

    signal.signal(signal.SIGINT, interrupt)
    vars(dev)["open_ipc_subprocess"] = start
    options = ("warning", "warning", "colored", str(port), host, False, None, False)
    dev.dev_command_impl(*options, WorkspaceOpts(workspace=[locations]))
    if not interrupted.is_set():
        raise WorkspaceError("Dagster's daemon or its webserver has ended; see the messages above")


def end_with(parent: int) -> None:
    """Interrupt this process once its parent is gone: two daemons would each request the runs of a backfill."""

    def watch() -> None:
        never = threading.Event()
        while os.getppid() == parent:
            never.wait(_INTERVAL_SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


def adapt_daemon() -> None:
    """Set values in Dagster's modules that have no setting."""
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = _INTERVAL_SECONDS
    by_a_person = [BulkActionStatus.CANCELING, BulkActionStatus.CANCELED]
    vars(auto_run_reexecution)["BULK_ACTION_TERMINAL_STATUSES"] = by_a_person


if __name__ == "__main__":
    end_with(os.getppid())
    if sys.argv[1] == "run":
        adapt_daemon()
        daemon.main()
    else:
        names = vars(webserver)
        make_app = names["create_app_from_workspace_process_context"]
        names["create_app_from_workspace_process_context"] = lambda *a, **named: guard(make_app(*a, **named))
        webserver.cli(auto_envvar_prefix="DAGSTER_WEBSERVER")
