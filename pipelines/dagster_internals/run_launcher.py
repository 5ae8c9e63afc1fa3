"""Dagster's launcher of local processes, changed to distinguish a lost run from a slow one."""

import json
import os
import re
import socket
import subprocess
import time

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG

LOST = "The process of this run is gone, as after a loss of the machine."
"""Why a run without a process is marked as failed."""

_ELAPSED = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)\Z")
_CONNECT_SECONDS = 5.0
_CLOCK_SECONDS = 60.0
"""A process that began so much later than the event that names it is another one with the same number."""


class WatchedRunLauncher(DefaultRunLauncher):
    """Starts a process per run. Dagster's monitoring marks a started run as failed if its process is gone."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Whether Dagster may ask for the state of a run's process."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return whether the process of a run is there."""
        if has_process(self._instance, run):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, LOST)


def has_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Check whether the process of a run is still there, or before it has reported anything, the one that starts it.

    Args:
        instance: The instance that holds the events.
        run: A run that is starting or has started.
    """
    processes: dict[int, float] = {}
    for record in instance.get_records_for_run(run.run_id).records:
        event = record.event_log_entry
        if event.dagster_event is not None and event.dagster_event.pid is not None:
            processes.setdefault(event.dagster_event.pid, event.timestamp)
    if not processes:
        return _is_code_server_there(run)
    return any(_is_there(process, reported) for process, reported in processes.items())


def _is_code_server_there(run: dg.DagsterRun) -> bool:
    """Check whether the code server that starts the process of a run accepts connections."""
    address = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
    if "socket" in address:
        family, place = socket.AF_UNIX, address["socket"]
    elif "port" in address:
        family, place = socket.AF_INET, (address["host"], address["port"])
    else:
        return False
    with socket.socket(family) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(place)
        except OSError:
            return False
    return True


def _is_there(process: int, reported: float) -> bool:
    """Check whether a process runs, and is the one that an event reported at a moment, in seconds since 1970."""
    try:
        shown = subprocess.run(
            ["ps", "-o", "stat=,etime=", "-p", str(process)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return _exists(process)  # a small image without ps
    state, _, elapsed = shown.stdout.strip().partition(" ")
    match = _ELAPSED.match(elapsed.strip())
    if match is None or state.startswith("Z"):
        return False
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    began = time.time() - (((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    return began < reported + _CLOCK_SECONDS


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
