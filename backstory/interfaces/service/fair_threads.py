"""Threads for the work of all tenants, of which no tenant takes all, and whose next one goes to who has the fewest."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Self, TypeVar

import anyio
import anyio.to_thread

_T = TypeVar("_T")


class FairThreads:
    """Some threads, and places to wait for one, in one event loop.

    One thread is always left for another tenant, so that the long work of one never holds up all others. Of the tenants
    that wait, the one with the fewest threads is next; among equals, the one that was served longest ago.

    Attributes:
        limiter: As many threads as calls are worked on at a time.
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
        self.limiter = anyio.CapacityLimiter(threads)
        self._working: Counter[str] = Counter()
        self._queues: dict[str, deque[Place]] = {}
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

    def take_place(self, tenant: str) -> Place | None:
        """Take a place of a tenant: a thread, or one in the queue for it.

        Args:
            tenant: The tenant.

        Returns:
            The place, which is left at the end of its ``with``; None if there is none.
        """
        if not self.has_place(tenant):
            return None
        place = Place(self, tenant)
        if self._may_begin(tenant):
            self._take(place)
        else:
            self._queues.setdefault(tenant, deque()).append(place)
        return place

    def leave(self, place: Place) -> None:
        """Give the thread of a place to the next one, or take the place out of the queue; once."""
        if place.is_left:
            return
        place.is_left = True
        if place.has_thread.is_set():
            self._end(place.tenant)
        else:
            self._leave_queue(place)

    def _may_begin(self, tenant: str | None) -> bool:
        mine = 0 if tenant is None else self._working[tenant]
        return self._working.total() < self._threads and mine < self._most_of_one

    def _take(self, place: Place) -> None:
        self._working[place.tenant] += 1
        self._turn += 1
        self._served[place.tenant] = self._turn
        place.has_thread.set()

    def _end(self, tenant: str) -> None:
        self._working[tenant] -= 1
        while (following := self._choose()) is not None:
            first = self._queues[following][0]
            self._leave_queue(first)
            self._take(first)
        if not self._working[tenant] and tenant not in self._queues:
            # A tenant that was removed must not stay in memory; one that comes back is served first.
            del self._working[tenant], self._served[tenant]

    def _choose(self) -> str | None:
        """Choose the tenant that is next; None if none of those that wait may have a thread."""
        allowed = [name for name in self._queues if self._may_begin(name)]
        return min(allowed, key=lambda name: (self._working[name], self._served.get(name, 0)), default=None)

    def _leave_queue(self, place: Place) -> None:
        self._queues[place.tenant].remove(place)
        if not self._queues[place.tenant]:
            del self._queues[place.tenant]


class Place:
    """A place that a tenant has within a ``with``: a thread, or one in the queue for it.

    Attributes:
        tenant: The tenant.
        has_thread: Set when it is the place's turn.
        is_left: Whether it was left.
    """

    def __init__(self, threads: FairThreads, tenant: str) -> None:
        """Describe a place; :meth:`FairThreads.take_place` takes it."""
        self.tenant = tenant
        self.has_thread = anyio.Event()
        self.is_left = False
        self._threads = threads

    def __enter__(self) -> Self:
        """Have the place within the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it."""
        self._threads.leave(self)

    async def call(self, function: Callable[[], _T]) -> _T:
        """Call a function in a thread, when the place has one. A call that is cancelled waits for its return."""
        await self.has_thread.wait()
        return await anyio.to_thread.run_sync(function, limiter=self._threads.limiter)
