"""Usage of a service of models, and what limits it: a budget, and a number per minute."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

PERIOD_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Usage:
    """Usage of calls: their number with retries, embedded texts or windows, and tokens that are sent and written."""

    calls: int = 0
    texts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def tokens(self) -> int:
        """Tokens sent and written."""
        return self.tokens_in + self.tokens_out


Settle: TypeAlias = Callable[[Usage], None]
"""Replaces what was reserved for a call by what the call used."""


class CallMeter:
    """Counts the calls of one model; shared by threads. This one, of calls that belong to no workspace, allows any."""

    def require_room(self, needed: Usage) -> None:
        """Raise ``BudgetExhaustedError`` unless calls would be within the budgets now. Nothing is reserved."""

    def reserve(self, most: Usage, *, seconds: float) -> Settle:  # noqa: ARG002
        """Reserve what a call uses at most before it is sent, or raise ``BudgetExhaustedError``.

        The function that it returns is called when the call has ended. A reservation that is not settled within the
        seconds, as after a kill, counts as used in full.
        """
        return lambda _used: None


@dataclass
class RateLimiter:
    """Keeps every period of 60 seconds, by a monotonic clock, within the limits of a process (a sliding log of grants).

    Units are texts or requests.
    """

    units_per_minute: int
    tokens_per_minute: int
    clock: Callable[[], float]
    wait: Callable[[float], None]
    _grants: deque[tuple[float, int, int]] = field(default_factory=deque, init=False)
    _paused_until: float = field(default=0.0, init=False)
    _granting: threading.Lock = field(default_factory=threading.Lock, init=False)

    def acquire(self, units: int, tokens: int) -> None:
        """Block until a request is within the limits.

        A request that exceeds a limit by itself passes once nothing else was granted for 60 seconds.
        """
        while (delay := self._take(units, tokens)) > 0:
            self.wait(delay)

    def pause(self, seconds: float) -> None:
        """Block all threads for a number of seconds."""
        with self._granting:
            self._paused_until = max(self._paused_until, self.clock() + seconds)

    def _take(self, units: int, tokens: int) -> float:
        """Grant the request and return 0, or return the seconds until a grant may be possible."""
        with self._granting:
            now = self.clock()
            while self._grants and self._grants[0][0] <= now:
                self._grants.popleft()
            if self._paused_until > now:
                return self._paused_until - now
            all_units = units + sum(granted for _, granted, _ in self._grants)
            all_tokens = tokens + sum(granted for _, _, granted in self._grants)
            if self._grants and (all_units > self.units_per_minute or all_tokens > self.tokens_per_minute):
                return self._grants[0][0] - now
            self._grants.append((now + PERIOD_SECONDS, units, tokens))
            return 0.0
