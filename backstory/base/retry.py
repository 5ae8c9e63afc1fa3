"""Retry delays of service calls: as long as the service asks, else longer with each attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.base.errors import ModelError

if TYPE_CHECKING:
    import tenacity


class TransientError(ModelError):
    """A call failed, and a retry may succeed.

    Attributes:
        delay: Seconds that the server requests to wait before a retry, or None.
    """

    def __init__(self, message: str, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


def choose_delay(state: tenacity.RetryCallState) -> float:
    """Return the seconds before the next attempt."""
    from tenacity import wait_exponential_jitter

    return failure_of(state).delay or wait_exponential_jitter(initial=1, max=60, jitter=1)(state)


def failure_of(state: tenacity.RetryCallState) -> TransientError:
    """Return the error of the last attempt."""
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, TransientError):
        raise TypeError(f"only transient errors are retried, not {type(error).__name__}")
    return error
