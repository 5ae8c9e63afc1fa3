"""Alerts: a command or a webhook is told when the set of problems of a workspace changes.

A caller describes the end of a run as a :class:`RunEnd` and calls :func:`tell_run`.
"""

from backstory.alerts.run_end import (
    CheckResult,
    RunEnd,
    UnreadFile,
    describe_crash,
    describe_outcome,
    list_files,
)
from backstory.alerts.telling import list_hooks, read_open, send_test, tell_run

__all__ = [
    "CheckResult",
    "RunEnd",
    "UnreadFile",
    "describe_crash",
    "describe_outcome",
    "list_files",
    "list_hooks",
    "read_open",
    "send_test",
    "tell_run",
]
