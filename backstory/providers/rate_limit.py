"""A limit of texts and tokens per minute, shared by the threads of one connection."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

PERIOD_SECONDS = 60.0
_SHORTEST_WAIT_SECONDS = 0.001


@dataclass(frozen=True)
class _Grant:
    expires: float
    texts: int
    tokens: int


class RateLimiter:
    """Keeps every period of 60 seconds within the limits (a sliding log of grants)."""

    def __init__(
        self,
        *,
        texts_per_minute: int,
        tokens_per_minute: int,
        clock: Callable[[], float],
        wait: Callable[[float], None],
    ) -> None:
        """Set the limits.

        Args:
            texts_per_minute: Most texts in any 60 seconds.
            tokens_per_minute: Most tokens in any 60 seconds.
            clock: Gives monotonic seconds.
            wait: Blocks the calling thread for a number of seconds.
        """
        self._texts = texts_per_minute
        self._tokens = tokens_per_minute
        self._clock = clock
        self._wait = wait
        self._lock = threading.Lock()
        self._grants: deque[_Grant] = deque()
        self._paused_until = float("-inf")

    def acquire(self, texts: int, tokens: int) -> None:
        """Block until a request is within the limits.

        A request that exceeds a limit by itself passes once nothing else was granted for 60 seconds.

        Args:
            texts: Number of texts in the request.
            tokens: Number of tokens in the request.
        """
        while (delay := self._take(texts, tokens)) > 0:
            self._wait(max(delay, _SHORTEST_WAIT_SECONDS))

    def pause(self, seconds: float) -> None:
        """Block all threads for a number of seconds."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _take(self, texts: int, tokens: int) -> float:
        """Grant the request and return 0, or return the seconds until a grant may be possible."""
        with self._lock:
            now = self._clock()
            if now < self._paused_until:
                return self._paused_until - now
            while self._grants and self._grants[0].expires <= now:
                self._grants.popleft()
            texts_used = sum(grant.texts for grant in self._grants)
            tokens_used = sum(grant.tokens for grant in self._grants)
            free_from = now
            for grant in self._grants:
                if texts_used + texts <= self._texts and tokens_used + tokens <= self._tokens:
                    break
                texts_used -= grant.texts
                tokens_used -= grant.tokens
                free_from = grant.expires
            if free_from > now:
                return free_from - now
            self._grants.append(_Grant(now + PERIOD_SECONDS, texts, tokens))
            return 0.0
