"""Waiting for what another process does."""

import time
from collections.abc import Callable

_PAUSE_SECONDS = 0.2


def wait_for(is_so: Callable[[], bool], what: str, seconds: float) -> None:
    """Ask again and again until something is so.

    Args:
        is_so: Whether it is.
        what: What is waited for, for the error.
        seconds: How long at most.

    Raises:
        TimeoutError: It is not so after that time.
    """
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s in vain: {what}")
        time.sleep(_PAUSE_SECONDS)
