"""Time that passes only when somebody waits."""

from __future__ import annotations

import threading


class InstantTime:
    """A clock and a way to wait that returns at once, for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 1000.0
        self.waits: list[float] = []

    def clock(self) -> float:
        with self._lock:
            return self._now

    def wait(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds
            self.waits.append(seconds)
