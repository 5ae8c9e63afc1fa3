"""A limit of units and tokens per minute, which the threads of a process share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

PERIOD_SECONDS: Final = 60.0


class RateLimiter:
    """Keeps every period of 60 seconds within the limits (a sliding log of grants)."""

    def __init__(
        self,
        units_per_minute: int,
        tokens_per_minute: int,
        *,
        clock: Callable[[], float],
        wait: Callable[[float], None],
    ) -> None:
        """Set the most units (texts, or requests) and tokens in any 60 seconds, by a monotonic clock."""
        self._units = units_per_minute
        self._tokens = tokens_per_minute
        self._clock = clock
        self._wait = wait
        self._grants: deque[tuple[float, int, int]] = deque()
        self._paused_until = 0.0
        self._granting = threading.Lock()

    def acquire(self, units: int, tokens: int) -> None:
        """Block until a request is within the limits.

        A request that exceeds a limit by itself passes once nothing else was granted for 60 seconds.
        """
        while (delay := self._take(units, tokens)) > 0:
            self._wait(delay)

    def pause(self, seconds: float) -> None:
        """Block all threads for a number of seconds."""
        with self._granting:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _take(self, units: int, tokens: int) -> float:
        """Grant the request and return 0, or return the seconds until a grant may be possible."""
        with self._granting:
            now = self._clock()
            while self._grants and self._grants[0][0] <= now:
                self._grants.popleft()
            if self._paused_until > now:
                return self._paused_until - now
            units_used = sum(granted for _, granted, _ in self._grants)
            tokens_used = sum(granted for _, _, granted in self._grants)
            free_from = now
            for expires, granted_units, granted_tokens in self._grants:
                if units_used + units <= self._units and tokens_used + tokens <= self._tokens:
                    break
                units_used -= granted_units
                tokens_used -= granted_tokens
                free_from = expires
            if free_from == now:
                self._grants.append((now + PERIOD_SECONDS, units, tokens))
            return free_from - now
