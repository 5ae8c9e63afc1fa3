"""What the service consists of: users, tenants, index jobs, the limits of requests, and threads for long work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

import anyio

from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.drive_permission import DrivePermissions
from backstory.interfaces.service.fair_threads import FairThreads, Place
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.limits import RequestRates
from backstory.interfaces.service.refusals import RefusedError
from backstory.interfaces.service.tenants import Tenants
from backstory.storage.conversations import ConversationStore

_T = TypeVar("_T")
_MEGABYTE: Final = 1 << 20

Work: TypeAlias = Literal["answers", "searches"]

RETRY_SECONDS: Final = 5
"""Seconds after which a client may try again what the service could not do at once."""


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """The limits of requests.

    Attributes:
        requests_per_minute: Requests that a token may send per minute for long.
        requests_at_once: Requests that it may send at once after a pause.
        failures_per_minute: Requests without a valid token that an address may send per minute for long.
        failures_at_once: Requests without one that it may send at once after a pause.
        body_seconds: Longest time for which a body, or the taking of an agent's answer, may keep the service waiting,
            beside that of its bytes.
        body_bytes_per_second: Bytes that must come, or be taken, in each further second of waiting.
        body_bytes: Most bytes of a body that is no upload.
        upload_bytes: Most bytes of the body of an upload.
        answers: Questions that are answered at a time, and calls of agents; one tenant may have all but one of them.
        searches: Searches at a time, in threads of their own, since an answer may take a thousand times as long.
        waiting: Questions that may wait for their turn, and as many searches; further ones are refused.
        waiting_of_tenant: Questions of one tenant that may wait, and as many searches.
        question_characters: Most characters of a question.
        turns_read: Turns of a conversation that a follow-up may go on from, the last ones.
    """

    requests_per_minute: int = 240
    requests_at_once: int = 60
    failures_per_minute: int = 60
    failures_at_once: int = 60
    body_seconds: float = 20.0
    body_bytes_per_second: int = 8_192
    body_bytes: int = _MEGABYTE
    upload_bytes: int = 256 * _MEGABYTE
    answers: int = 4
    searches: int = 4
    waiting: int = 100
    waiting_of_tenant: int = 50
    question_characters: int = 8_000
    turns_read: int = 10


@dataclass
class Service:
    """The parts of a service, shared by all requests of its process.

    Attributes:
        accounts: Users, tokens and roles.
        tenants: The workspaces.
        jobs: The index jobs.
        limits: The limits of requests.
        clock: Gives seconds since 1970.
        stopping: Set when the process was told to end, so that streams end.
        permissions: The permissions to read a Google Drive that people were asked for.
        threads: The threads for answers and those for searches, in which tenants take turns.
    """

    accounts: Accounts
    tenants: Tenants
    jobs: IndexJobs
    limits: ServiceLimits = ServiceLimits()
    clock: Callable[[], float] = time.time
    stopping: anyio.Event = field(default_factory=anyio.Event)
    _rates: RequestRates = field(init=False)
    _failures: RequestRates = field(init=False)
    permissions: DrivePermissions = field(init=False)
    threads: Mapping[Work, FairThreads] = field(init=False)

    def __post_init__(self) -> None:
        limits = self.limits
        self._rates = RequestRates(limits.requests_per_minute, limits.requests_at_once, time.monotonic)
        self._failures = RequestRates(limits.failures_per_minute, limits.failures_at_once, time.monotonic)
        if self.jobs.has_processes:
            # What the tools of agents index, too, so that this process keeps its size.
            self.tenants.maker = lambda tenant: partial(self.jobs.make_tables, tenant)
        self.permissions = DrivePermissions(self.tenants.keys)
        make = partial(FairThreads, waiting=limits.waiting, waiting_of_one=limits.waiting_of_tenant)
        self.threads = {"answers": make(limits.answers), "searches": make(limits.searches)}

    @property
    def root(self) -> Path:
        """Folder of the service, as paths of messages begin."""
        return self.tenants.root.resolve()

    def close(self) -> None:
        """Stop the index jobs, which stay pending, and close all libraries."""
        self.jobs.close()
        self.tenants.close()

    def conversations(self, tenant: str) -> ConversationStore:
        """Return the conversations of a tenant, of which nothing is written once its removal has begun."""
        return ConversationStore(self.tenants.open_state(tenant), partial(self.tenants.holding, tenant))

    def require_rate(self, token_id: str) -> None:
        """Take one request of a token."""
        _require_turn(self._rates.take(token_id), "of this token", "too_many_requests")

    def count_failure(self, address: str) -> None:
        """Take one request without a valid token of an address.

        A valid token is let in whatever others have sent from its address, which may be that of a proxy.
        """
        _require_turn(self._failures.take(address), "without a valid token", "too_many_failures")

    def require_length(self, question: str) -> None:
        """Refuse a question that is too long to search for."""
        most = self.limits.question_characters
        if len(question) > most:
            raise RefusedError(
                f"the question is longer than {most:,} characters; ask less at once",
                status=400,
                code="too_long",
            )

    async def answer(self, tenant: str, function: Callable[[], _T]) -> _T:
        """Call a function that answers a question, in a thread, as soon as it is the turn of the tenant."""
        with self.take_place(tenant) as place:
            return await place.call(function)

    async def search(self, tenant: str, function: Callable[[], _T]) -> _T:
        """Call a function that ends soon, as :meth:`answer` does, and never after answers of any tenant."""
        with self.take_place(tenant, "searches") as place:
            return await place.call(function)

    def take_place(self, tenant: str, work: Work = "answers") -> Place:
        """Take a place for the work of a tenant, and leave it at the end of its ``with``."""
        self._require_running()
        place = self.threads[work].take_place(tenant)
        if place is None:
            raise _refuse_busy(work)
        return place

    def require_readiness(self) -> None:
        """Refuse if the work of a tenant that has none under way would be refused; see :meth:`take_place`."""
        self._require_running()
        for work, threads in self.threads.items():
            if not threads.has_place():
                raise _refuse_busy(work)

    def _require_running(self) -> None:
        if self.stopping.is_set():
            raise refuse_stopping()

    @property
    def waiting(self) -> int:
        """Number of calls that wait for a thread."""
        return sum(threads.waiting for threads in self.threads.values())


def refuse_stopping() -> RefusedError:
    """Make the error of work that the end of the process cuts short."""
    return RefusedError(
        "the service is stopping; ask again when it runs again",
        status=503,
        code="stopping",
        retry_after=RETRY_SECONDS,
    )


def _refuse_busy(work: Work) -> RefusedError:
    return RefusedError(
        f"too many {work} at once; ask again in a while",
        status=503,
        code="busy",
        retry_after=RETRY_SECONDS,
    )


def _require_turn(wait: float, which: str, code: str) -> None:
    """Refuse a request that has to wait for some seconds; 0 lets it in."""
    if wait:
        raise RefusedError(
            f"too many requests {which}; send the next one later", status=429, code=code, retry_after=wait
        )
