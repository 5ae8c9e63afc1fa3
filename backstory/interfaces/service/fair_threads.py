"""Threads for the work of all tenants, of which no tenant takes all, and whose next one goes to who has the fewest."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import anyio.to_thread

_T = TypeVar("_T")


class FairThreads:
    """Some threads, and places to wait for one, in one event loop.

    One thread is always left for another tenant, so that the long work of one never holds up all others. Of the tenants
    that wait, the one with the fewest threads is next; among equals, the one that was served longest ago.
    """

    def __init__(self, threads: int, *, waiting: int, waiting_of_one: int) -> None:
        """Set the numbers; threads start when they are needed.

        Args:
            threads: Calls that are worked on at a time. With a single thread, one tenant may take it.
            waiting: Calls that may wait for that.
            waiting_of_one: Calls of one tenant that may wait.
        """
        self._threads = threads
        self._most_of_one = max(1, threads - 1)
        self._most_waiting = waiting
        self._most_waiting_of_one = waiting_of_one
        # The places are counted here, so that no call waits for this one.
        self._limiter = anyio.CapacityLimiter(threads)
        self._working: Counter[str] = Counter()
        self._queues: dict[str, deque[anyio.Event]] = {}
        self._served: dict[str, int] = {}
        self._turn = 0

    @property
    def waiting(self) -> int:
        """Number of calls that wait for a thread."""
        return sum(map(len, list(self._queues.values())))

    def has_place(self, tenant: str | None = None) -> bool:
        """Return whether a call would be worked on at once, or may wait.

        Args:
            tenant: The tenant of the call; None for one that has none under way.
        """
        if self._may_begin(tenant):
            return True
        mine = 0 if tenant is None else len(self._queues.get(tenant, ()))
        return self.waiting < self._most_waiting and mine < self._most_waiting_of_one

    async def call(self, tenant: str, function: Callable[[], _T]) -> _T:
        """Call a function in a thread, as soon as the tenant has one. A call that is cancelled waits for its return."""
        async with self.holding(tenant):
            return await anyio.to_thread.run_sync(function, limiter=self._limiter)

    @asynccontextmanager
    async def holding(self, tenant: str) -> AsyncIterator[None]:
        """Hold one of the threads of a tenant, for work that finds its thread by itself."""
        await self._begin(tenant)
        try:
            yield
        finally:
            self._end(tenant)

    def _may_begin(self, tenant: str | None) -> bool:
        mine = 0 if tenant is None else self._working[tenant]
        return self._working.total() < self._threads and mine < self._most_of_one

    async def _begin(self, tenant: str) -> None:
        if self._may_begin(tenant):
            self._take(tenant)
            return
        is_next = anyio.Event()
        self._queues.setdefault(tenant, deque()).append(is_next)
        try:
            await is_next.wait()
        except anyio.get_cancelled_exc_class():
            if is_next.is_set():  # it was given a thread in the same moment
                self._end(tenant)
            else:
                self._leave_queue(tenant, is_next)
            raise

    def _take(self, tenant: str) -> None:
        self._working[tenant] += 1
        self._turn += 1
        self._served[tenant] = self._turn

    def _end(self, tenant: str) -> None:
        self._working[tenant] -= 1
        while (following := self._choose()) is not None:
            is_next = self._queues[following][0]
            self._leave_queue(following, is_next)
            self._take(following)
            is_next.set()
        if not self._working[tenant] and tenant not in self._queues:
            # A tenant that was removed must not stay in memory; one that comes back is served first.
            del self._working[tenant], self._served[tenant]

    def _choose(self) -> str | None:
        """Choose the tenant that is next; None if none of those that wait may have a thread."""
        allowed = [name for name in self._queues if self._may_begin(name)]
        return min(allowed, key=lambda name: (self._working[name], self._served.get(name, 0)), default=None)

    def _leave_queue(self, tenant: str, waited: anyio.Event) -> None:
        self._queues[tenant].remove(waited)
        if not self._queues[tenant]:
            del self._queues[tenant]
