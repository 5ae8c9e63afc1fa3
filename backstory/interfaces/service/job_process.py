"""A process for each pass of an index job, whose memory the service gets back when the pass has ended.

The process gets the tenant, its keys and the job as one line of its standard input, and records its progress in the
jobs of the tenant by itself. When that input ends, because the service is about to end or was killed, the process stops
at its next step. Until then a removal of the tenant waits for it, as for the service.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import SecretStr

from backstory.base.environment import Keys
from backstory.base.errors import BackstoryError
from backstory.base.telemetry import configure_logs, log_event
from backstory.interfaces.library.job_store import JobStore, JobTurn
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.indexing_pass import index_once
from backstory.interfaces.service.refusals import hide_paths
from backstory.interfaces.service.tenant_places import ALONE, TenantPlaces
from backstory.pipeline.workspace import open_workspace
from backstory.settings.paths import STATE_FOLDER
from backstory.storage.schema import ACCOUNTS, STATE
from backstory.storage.state import State
from backstory.storage.state_places import open_state

logger = logging.getLogger(__name__)

_PROGRAM: Final = "from backstory.interfaces.service.job_process import main; main()"
_COMMAND: Final = (sys.executable, "-P", "-c", _PROGRAM)


class JobProcesses:
    """The processes of passes that are under way, in any number of threads."""

    def __init__(self, accounts: State | None = None) -> None:
        """Prepare the processes, which tell other machines by the accounts who is in a tenant; none is started yet."""
        self._accounts = accounts
        self._lock = threading.Lock()
        self._is_ending = False
        self._running: set[subprocess.Popen[str]] = set()

    def run(
        self,
        folder: Path,
        address: str | None,
        keys: Keys | None,
        quota: int | None,
        held: int,
        turn: JobTurn,
    ) -> None:
        """Make one pass in a process, and wait for its end. A process that was killed leaves its job under way.

        ``held`` is the descriptor of the tenant's folder, with a shared lock, which the process holds on when the
        service is killed. The quota is in bytes.
        """
        told = {
            "folder": str(folder),
            "database": address,
            "accounts": None if self._accounts is None else self._accounts.address,
            "keys": None if keys is None else {name: key.get_secret_value() for name, key in keys.items()},
            "quota": quota,
            "turn": turn._asdict(),
        }
        with self._lock:
            # A process that starts while the service ends finds its input at the end, and puts the job back.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                pass_fds=[held],
                start_new_session=True,  # a keyboard interrupt is for the service, which then ends the jobs in order
            )
            self._running.add(process)
            with suppress(BrokenPipeError):  # it has ended already, as its exit code says
                _tell(process, f"{json.dumps(told)}\n")
            if self._is_ending:
                _end_input(process)
        code = process.wait()
        with self._lock:
            self._running.remove(process)
            _end_input(process)
        if code:
            log_event(
                logger,
                "the process of an index job has ended",
                level=logging.ERROR,
                job=turn.job_id,
                exit_code=code,
            )

    def end(self) -> None:
        """Have every process stop at its next step, and each that starts later at its first one."""
        with self._lock:
            self._is_ending = True
            for process in self._running:
                _end_input(process)

    def kill(self) -> None:
        """End every process at once, whatever it does."""
        with self._lock:
            for process in self._running:
                process.kill()


def _tell(process: subprocess.Popen[str], text: str) -> None:
    if process.stdin is not None:
        process.stdin.write(text)
        process.stdin.flush()


def _end_input(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()


def main() -> None:
    """Make the pass that the first line of standard input names."""
    configure_logs()
    is_ending = threading.Event()
    # Whoever ends all processes of the service tells this one as well.
    signal.signal(signal.SIGTERM, lambda _number, _frame: is_ending.set())
    told = json.loads(sys.stdin.readline())
    threading.Thread(target=_wait_for_the_end, args=[is_ending], daemon=True).start()
    workspace, turn = Path(told["folder"]), JobTurn(**told["turn"])
    # Accounts in a file need nobody's presence: all who use them are on this machine.
    accounts = None if told["accounts"] is None else open_state(workspace, told["accounts"], ACCOUNTS)
    store = JobStore(open_state(workspace / STATE_FOLDER, told["database"], STATE))
    _index(workspace, store, accounts, _read_keys(told["keys"]), told["quota"], turn, is_ending)


def _wait_for_the_end(is_ending: threading.Event) -> None:
    sys.stdin.read()
    is_ending.set()


def _read_keys(told: dict[str, Any] | None) -> Keys | None:
    return None if told is None else MappingProxyType({name: SecretStr(key) for name, key in told.items()})


def _index(
    folder: Path,
    store: JobStore,
    accounts: State | None,
    keys: Keys | None,
    quota: int | None,
    turn: JobTurn,
    is_ending: threading.Event,
) -> None:
    with ExitStack() as inside:
        try:
            if accounts is not None:
                places = TenantPlaces(accounts, ALONE)
                inside.enter_context(places.present(folder.name, folder))
            library = inside.enter_context(Library(open_workspace(folder, keys=keys)))
        except BackstoryError as error:
            store.fail(turn, error.code, hide_paths(str(error), folder))
            return
        index_once(library, store, turn, is_ending.is_set, quota)
