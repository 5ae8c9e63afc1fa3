"""The end of a run, in words that name no person and no file."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.base.errors import StoppedError
from backstory.pipeline.history.record import FAILED, STOPPED, SUCCEEDED


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes:
        changed: Whether it made anything.
        failures: Number of failures.
        failure: Why it failed or stopped, in a sentence that names no person and no file; None if it succeeded.
        stopped: Whether it was stopped in order, by a budget, a limit or a person.
    """

    changed: bool = False
    failures: int = 0
    failure: str | None = None
    stopped: bool = False

    @property
    def status(self) -> str:
        """The status of the run in the history."""
        if self.failures:
            return FAILED
        return STOPPED if self.stopped else SUCCEEDED


def describe_error(error: BaseException) -> str:
    """Describe an error in a sentence that names no person and no file, for a record that is kept.

    The messages of a stop hold settings, partitions and counts only. Others may hold names of files or people.
    """
    if isinstance(error, StoppedError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "a person interrupted it"
    return f"{type(error).__name__}; the output of the run says what and where"


def end_of(error: BaseException) -> RunEnd:
    """Return the end of a run that an error ended."""
    stopped = isinstance(error, StoppedError | KeyboardInterrupt)
    return RunEnd(failures=int(not stopped), failure=describe_error(error), stopped=stopped)
