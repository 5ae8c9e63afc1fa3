"""Turn errors of the library into one line on standard error and an exit code.

0: done. 1: the job failed. 2: bad usage or settings. 3: done, but some files were set aside or could not be read, or a
section of a document could not be summarized. 4: no failure, but not finished: a budget or a limit was reached; the
same command resumes later.
"""

from __future__ import annotations

import errno
import resource
import sys
from collections.abc import Callable
from typing import Final

from backstory.base.errors import (
    BackstoryError,
    InputError,
    ReadError,
    SettingsError,
    StoppedError,
    WorkspaceError,
    naming_faults_of_system,
)
from backstory.base.telemetry import configure_logs
from backstory.interfaces.cli.terminal import open_console, print_marked

FAILED: Final = 1
BAD_USAGE: Final = 2
INCOMPLETE: Final = 3
UNFINISHED: Final = 4
_OPEN_FILES: Final = 256
_LEAST_FILES: Final = 32


def run_command(command: Callable[[], object]) -> None:
    """Run a command line; turn an error of the library into one line and an exit code."""
    try:
        configure_logs()
        with naming_faults_of_system():
            allow_open_files(_OPEN_FILES)
            command()
    except StoppedError as error:
        print_marked(open_console(stderr=True), "stopped", "yellow", str(error))
        sys.exit(UNFINISHED)
    except BackstoryError as error:
        print_marked(open_console(stderr=True), "error", "red", str(error))
        is_usage = isinstance(error, SettingsError | WorkspaceError | InputError)
        sys.exit(BAD_USAGE if is_usage and not isinstance(error, ReadError) else FAILED)


def allow_open_files(most: int) -> None:
    """Allow this process as many open files as it may need, up to what the system permits it.

    With very few, DuckDB and Polars end a process without an error, so that is one before they begin.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if allowed < _LEAST_FILES:
        raise OSError(errno.EMFILE, f"this process may have {allowed} open, and needs {_LEAST_FILES}")
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
