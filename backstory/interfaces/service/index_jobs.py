"""Works on the index jobs of all tenants, each in a process of its own, or in the process of the service."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from backstory.base.errors import BackstoryError, InputError, StoppedError
from backstory.base.progress import announce
from backstory.base.telemetry import log_event
from backstory.interfaces.library.job_store import Job, JobStore, JobTurn
from backstory.interfaces.service.indexing_pass import index_once
from backstory.interfaces.service.job_process import JobProcesses
from backstory.interfaces.service.refusals import hide_paths
from backstory.interfaces.service.sync_schedule import SCHEDULE, SyncSchedule
from backstory.interfaces.service.tenants import Tenants
from backstory.pipeline.workspace import Workspace

logger = logging.getLogger(__name__)

_THREADS: Final = 2
"""Tenants that are indexed at a time, so that the first indexing of a large one holds up no other."""

_SECONDS_BETWEEN_LOOKS: Final = 60.0
_SECONDS_BETWEEN_REMOVALS: Final = 5.0
"""A removal on another machine waits so long for this one to leave the tenant."""
_SECONDS_BETWEEN_READS: Final = 0.5
_LOCK: Final = "index jobs"

LIBRARY: Final = "library"
"""In place of the user who requests a job, where the tool of an agent or a program does."""


class IndexJobs:
    """The index jobs of all tenants: one at a time for each, and a few at a time in all.

    A job that was under way when the process ended is begun again by the next :meth:`start`. Since an indexing only
    makes what is missing, it goes on where it was. Where several machines share the database of a tenant, a lock lets
    one of them work on its jobs, and another one takes over when it has died.

    Attributes:
        has_processes: Whether each pass over files is made in a process of its own.
    """

    def __init__(
        self,
        tenants: Tenants,
        *,
        threads: int = _THREADS,
        clock: Callable[[], float] | None = None,
        processes: JobProcesses | None = None,
    ) -> None:
        """Prepare the threads, one for each tenant that is indexed at a time; :meth:`start` starts them.

        No other process of this machine works on jobs of these tenants. With a clock, a thread calls
        :meth:`request_due` each minute. With processes, each pass over files is made in one of its own, whose memory is
        free after it; without, this one keeps hundreds of MB.
        """
        self._tenants = tenants
        self._processes = processes
        self.has_processes = processes is not None
        self._changed = threading.Condition()
        self._waiting: list[str] = []
        self._running: set[str] = set()
        self._is_closing = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"index-jobs-{number}", daemon=True)
            for number in range(threads)
        ]
        self._schedule = SyncSchedule(tenants.folder, self._find_last_begin)
        if clock is not None:
            self._threads.append(
                threading.Thread(
                    target=self._keep_synced, args=[clock], name="index-jobs-schedule", daemon=True
                )
            )

    def start(self) -> None:
        """Begin to work, first on what an earlier process left."""
        for tenant in self._tenants.names():
            try:
                self._find_left(tenant)
            except BackstoryError:
                # The other tenants are served; a request of this one tells its users.
                logger.exception("the jobs of a tenant cannot be read, and those that were left wait")
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the jobs that are under way at their next step, and wait for it; they stay pending."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._processes is not None:
            self._processes.end()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def kill(self) -> None:
        """End the processes of jobs that are under way, which the next :meth:`start` begins again."""
        if self._processes is not None:
            self._processes.kill()

    def store(self, tenant: str) -> JobStore:
        """Return the jobs of a tenant."""
        return JobStore(self._tenants.open_state(tenant))

    def submit(self, tenant: str, user_id: str, *, accepts_removals: bool = False) -> Job:
        """Request an indexing of all files of a tenant as they are now; see :meth:`JobStore.request`."""
        with self._tenants.holding(tenant):
            job = self.store(tenant).request(user_id, accepts_removals=accepts_removals)
        self._enqueue(tenant)
        return job

    def adopt(self) -> None:
        """Take up jobs that another machine was asked for, or has begun, if it does not work on them any more."""
        for tenant in self._tenants.names():
            try:
                if self.store(tenant).state.address is not None:
                    self._find_left(tenant)
            except BackstoryError as error:
                log_event(
                    logger,
                    "the jobs of a tenant could not be looked up",
                    level=logging.WARNING,
                    code=error.code,
                )

    def _find_left(self, tenant: str) -> None:
        store = self.store(tenant)
        # Where several machines may work on a job, whoever takes its lock makes it pending again.
        left = store.resume() if store.state.address is None else store.current()
        if left is not None:
            self._enqueue(tenant)

    def request_due(self, now: float) -> list[str]:
        """Request an indexing of each tenant that is due, and return these tenants; see :class:`SyncSchedule`.

        A job that is pending or under way fetches the sources anyway, and is left alone.
        """
        requested = []
        for tenant in self._schedule.list_due(self._tenants.names(), now):
            try:
                if self.store(tenant).current() is None:
                    self.submit(tenant, SCHEDULE)
                    requested.append(tenant)
            except BackstoryError as error:  # such as that the tenant was removed meanwhile
                log_event(
                    logger,
                    "the indexing of a tenant could not be requested",
                    level=logging.WARNING,
                    code=error.code,
                )
        return requested

    def _find_last_begin(self, tenant: str) -> float:
        jobs, _ = self.store(tenant).list_jobs(1)
        return max((job.started_at.timestamp() for job in jobs if job.started_at is not None), default=0.0)

    def make_tables(
        self,
        tenant: str,
        workspace: Workspace,  # noqa: ARG002 - of the tenant
        *,
        accept_removals: bool = False,
        chats: bool = False,  # noqa: ARG002 - every job reads them
    ) -> tuple[int, list[str]]:
        """Have a job build the tables of a tenant, and wait for its end; see :class:`MakeTables`."""
        job = self.submit(tenant, LIBRARY, accepts_removals=accept_removals)
        while job.ended_at is None:
            announce(job.step or "waiting for an index job", job.done, job.total)
            with self._changed:
                if not self._is_closing:
                    self._changed.wait(_SECONDS_BETWEEN_READS)
                if self._is_closing:
                    raise StoppedError("the service is about to end; the job goes on at its next start")
            job = self.store(tenant).read(job.job_id)
        told = job.failure or job.state.lower()
        return job.counts.get("embedded", 0), [] if job.state == "COMPLETED" else [told]

    def cancel(self, tenant: str, job_id: str) -> Job:
        """Cancel a job, which stops at its next file or step."""
        with self._tenants.holding(tenant):
            return self.store(tenant).cancel(job_id)

    def wait(self, tenant: str) -> None:
        """Wait until no job of a tenant is pending or under way."""
        with self._changed:
            self._changed.wait_for(lambda: tenant not in self._running and tenant not in self._waiting)

    def _enqueue(self, tenant: str) -> None:
        with self._changed:
            if tenant not in self._waiting:
                self._waiting.append(tenant)
            self._changed.notify_all()

    def _serve(self) -> None:
        # An error of any kind comes back as a value. A thread that it ended would leave every later job pending.
        with ThreadPoolExecutor(1) as worker:
            while (tenant := self._next()) is not None:
                error = worker.submit(self._work, tenant).exception()
                if error is not None:
                    logger.error("the jobs of a tenant could not be worked on", exc_info=error)
                with self._changed:
                    self._running.remove(tenant)
                    self._changed.notify_all()

    def _keep_synced(self, clock: Callable[[], float]) -> None:
        next_look = 0.0
        while not self._is_closing:
            try:
                self._tenants.follow_removals()
                if time.monotonic() >= next_look:
                    next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
                    self.adopt()
                    self.request_due(clock())
            except (BackstoryError, OSError):
                # Such as a folder of sources that is closed; the next look may succeed.
                logger.exception("the sources of tenants could not be looked up")
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, _SECONDS_BETWEEN_REMOVALS)

    def _next(self) -> str | None:
        """Wait for a tenant that nothing works on; None at the end."""
        with self._changed:
            while True:
                if self._is_closing:
                    return None
                free = next((name for name in self._waiting if name not in self._running), None)
                if free is not None:
                    self._waiting.remove(free)
                    self._running.add(free)
                    return free
                self._changed.wait()

    def _work(self, tenant: str) -> None:
        """Work on the jobs of a tenant, always inside of it, so that its removal waits and finds all files."""
        with self._taking_turn(tenant) as is_mine:
            if is_mine:
                self._work_alone(tenant)

    @contextmanager
    def _taking_turn(self, tenant: str) -> Iterator[bool]:
        """Keep other machines from working on the jobs of a tenant; yield whether none does.

        A job that nobody has begun yet is waited for: who holds the lock may just be about to end.
        """
        store = self.store(tenant) if self._is_there(tenant) else None
        if store is None or store.state.address is None:
            yield True
            return
        while True:
            with store.state.lock(_LOCK, by="a service", wait=False) as is_mine:
                if is_mine:
                    yield True
                    return
            job = store.current()
            with self._changed:
                if self._is_closing or job is None or job.state != "PENDING":
                    break
                self._changed.wait(_SECONDS_BETWEEN_READS)
        yield False

    def _work_alone(self, tenant: str) -> None:
        while not self._is_closing:
            with ExitStack() as inside:
                try:
                    index = self._enter(tenant, inside)
                except BackstoryError as error:
                    self._refuse(tenant, error)
                    return
                store = self.store(tenant)
                store.resume()
                turn = store.take()
                if turn is None:
                    return
                index(turn)

    def _enter(self, tenant: str, inside: ExitStack) -> Callable[[JobTurn], None]:
        """Enter a tenant, and return what makes one pass over its files."""
        quota = self._tenants.read_quota(tenant)
        if self._processes is not None:
            held = inside.enter_context(self._tenants.holding(tenant))
            keys, folder = self._tenants.open_keys(tenant), self._tenants.folder(tenant)
            address = self.store(tenant).state.address
            return partial(self._processes.run, folder, address, keys, quota, held)
        library = inside.enter_context(self._tenants.entering(tenant))
        return lambda turn: index_once(library, self.store(tenant), turn, lambda: self._is_closing, quota)

    def _refuse(self, tenant: str, error: BackstoryError) -> None:
        """Fail the job of a tenant that cannot be entered; one that was removed has none any more."""
        if not self._is_there(tenant):
            return
        with self._tenants.holding(tenant):
            store = self.store(tenant)
            store.resume()
            if turn := store.take():
                store.fail(turn, error.code, self._describe(tenant, error))

    def _is_there(self, tenant: str) -> bool:
        """Return whether a tenant is there; its files must not be made again after it was removed."""
        try:
            self._tenants.folder(tenant)
        except InputError:
            return False
        return True

    def _describe(self, tenant: str, failure: object) -> str:
        """Describe a failure without the place of the tenant's files on this machine."""
        return hide_paths(str(failure), self._tenants.folder(tenant)) if self._is_there(tenant) else ""
