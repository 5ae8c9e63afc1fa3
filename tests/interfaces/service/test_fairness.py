"""Tenants that ask much at once hold up no other one, by real requests and by the threads alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from itertools import islice
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest
from starlette.types import Message

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.event_streams import DONE, Emit, EventStream
from backstory.interfaces.service.fair_threads import FairThreads
from backstory.interfaces.service.refusals import RefusedError
from backstory.interfaces.service.service import ServiceLimits
from tests.interfaces.service.running import QUESTION, Running, running, write_service
from tests.interfaces.service.test_operation import MODEL, SlowModel, model
from tests.pipelines.ui_process import wait_for

__all__ = ["model"]

ANSWERS = 3
WAITING = 2
ASKED = 20
LIMITS = ServiceLimits(
    requests_at_once=1_000, answers=ANSWERS, searches=4, waiting=4, waiting_of_tenant=WAITING
)


@pytest.fixture
def served(indexed_once: Library, service_root: Path, model: SlowModel) -> Iterator[Running]:
    """A service whose garden is answered by a model that waits, and whose workshop has none."""
    service, tokens = write_service(service_root, indexed_once.workspace.root, LIMITS)
    settings = service.tenants.folder("garden") / "backstory.yaml"
    settings.write_text(settings.read_text("utf-8") + MODEL.format(url=model.url), "utf-8")
    with running(service, tokens) as started:
        yield started


@pytest.mark.parametrize("route", ["/api/chat/message", "/api/chat/stream", "/mcp/garden"])
def test_a_tenant_that_asks_much_holds_up_no_other(served: Running, model: SlowModel, route: str) -> None:
    call = {"name": "answer_question", "arguments": {"query": QUESTION}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    body = asked if route.startswith("/mcp") else {"question": QUESTION}
    headers = {"Accept": "application/json, text/event-stream"}

    def ask(user: str) -> httpx2.Response:
        with served.client(user, "garden") as client:
            return client.post(route, json=body, headers=headers)

    with ThreadPoolExecutor(ASKED) as threads:
        # One thread is left for others, and the tenant has its share of places to wait; all others are told so.
        # A stream is looked up as searches are before it waits, so that those that get no place come after the others.
        under_way = ANSWERS - 1 + WAITING
        sent = [threads.submit(ask, ("ben", "dora")[number % 2]) for number in range(under_way)]
        answers = served.service.threads["answers"]
        wait_for(lambda: not answers.has_place("garden"), "the tenant has all of its places", 600)
        sent += [threads.submit(ask, ("ben", "dora")[number % 2]) for number in range(ASKED - under_way)]
        refused: list[Future[httpx2.Response]] = list(islice(as_completed(sent, 600), ASKED - under_way))
        assert {(one.result().status_code, one.result().json()["error"]["code"]) for one in refused} == {
            (503, "busy")
        }
        assert all(int(one.result().headers["Retry-After"]) > 0 for one in refused)
        assert not any(one.done() for one in sent if one not in refused)
        with served.client("cleo") as other, served.client("ben") as same:
            for path, question in (("message", "question"), ("stream", "question")):
                answered = other.post(f"/api/chat/{path}", json={question: QUESTION})
                assert (answered.status_code, "Night train" in answered.text) == (200, True)
            for client in (other, same):
                assert client.post("/api/search", json={"query": QUESTION}).status_code == 200
                assert client.get("/api/documents").status_code == 200
                assert client.get("/readyz").status_code == 200
        model.may_answer.set()
        assert {one.result().status_code for one in sent if one not in refused} == {200}


def test_the_service_is_not_ready_when_all_places_are_taken(served: Running, model: SlowModel) -> None:
    settings = served.service.tenants.folder("workshop") / "backstory.yaml"
    settings.write_text(settings.read_text("utf-8") + MODEL.format(url=model.url), "utf-8")

    def ask(user: str, tenant: str) -> int:
        with served.client(user, tenant) as client:
            return client.post("/api/chat/message", json={"question": QUESTION}).status_code

    with ThreadPoolExecutor(ASKED) as threads:
        sent = [threads.submit(ask, "ben", "garden") for _ in range(ASKED // 2)]
        sent += [threads.submit(ask, "cleo", "workshop") for _ in range(ASKED // 2)]
        refused = list(islice(as_completed(sent, 600), ASKED - ANSWERS - LIMITS.waiting))
        assert {one.result() for one in refused} == {503}
        with served.client() as client:
            answer = client.get("/readyz")
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
            assert client.get("/healthz").status_code == 200
        model.may_answer.set()
        assert {one.result() for one in sent if one not in refused} == {200}


async def call(threads: FairThreads, tenant: str, function: Callable[[], object]) -> None:
    place = threads.take_place(tenant)
    assert place is not None
    with place:
        await place.call(function)


async def say_nothing() -> Message:
    await anyio.sleep_forever()
    raise AssertionError


def test_streams_begin_for_as_many_as_there_are_places(indexed_once: Library, service_root: Path) -> None:
    limits = ServiceLimits(answers=1, waiting=WAITING, waiting_of_tenant=WAITING)
    service, _ = write_service(service_root, indexed_once.workspace.root, limits)
    answers = service.threads["answers"]
    gate, statuses = threading.Event(), list[int]()

    def work(emit: Emit) -> None:
        assert gate.wait(600)
        emit(DONE, {})

    async def stream() -> None:
        async def send(message: Message) -> None:
            # Others come while the head of an answer waits for its client.
            await anyio.wait_all_tasks_blocked()
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        try:
            await EventStream(service, "garden", work)({}, say_nothing, send)
        except RefusedError as error:
            statuses.append(error.status)

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(ASKED):
                group.start_soon(stream)
            await anyio.wait_all_tasks_blocked()
            assert (answers.waiting, answers.has_place("garden")) == (WAITING, False)
            gate.set()
        assert (answers.waiting, answers.has_place("garden")) == (0, True)

    anyio.run(run)
    service.close()
    assert Counter(statuses) == {200: 1 + WAITING, 503: ASKED - 1 - WAITING}


def test_a_stream_whose_client_does_not_read_holds_no_place(
    indexed_once: Library, service_root: Path
) -> None:
    service, _ = write_service(service_root, indexed_once.workspace.root, ServiceLimits(answers=1, waiting=0))
    answers, is_read = service.threads["answers"], anyio.Event()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            assert not answers.has_place("garden")
            await is_read.wait()

    async def run() -> None:
        async with anyio.create_task_group() as group:
            stream = EventStream(service, "garden", lambda emit: emit(DONE, {}))
            group.start_soon(partial(stream, {}, say_nothing, send))
            with anyio.fail_after(60):
                while not answers.has_place("garden"):
                    await anyio.lowlevel.checkpoint()
            is_read.set()

    anyio.run(run)
    service.close()


def test_tenants_take_turns() -> None:
    order: list[str] = []

    async def run() -> None:
        threads = FairThreads(1, waiting=100, waiting_of_one=100)
        gate = threading.Event()

        def work(tenant: str) -> None:
            order.append(tenant)
            assert gate.wait(600)

        async with anyio.create_task_group() as group:
            for tenant in ("garden",) * 4 + ("workshop",) * 2:
                group.start_soon(call, threads, tenant, partial(work, tenant))
                await anyio.wait_all_tasks_blocked()
            assert threads.waiting == 5
            gate.set()
        assert threads.waiting == 0

    anyio.run(run)
    assert order == ["garden", "workshop", "garden", "workshop", "garden", "garden"]


def test_a_call_that_is_cancelled_gives_its_place_to_the_next() -> None:
    async def run() -> None:
        threads = FairThreads(1, waiting=2, waiting_of_one=2)
        gate = threading.Event()
        done: list[str] = []

        async def append(name: str, scope: anyio.CancelScope) -> None:
            with scope:
                await call(threads, "garden", partial(gate.wait, 600))
                done.append(name)

        scopes = {name: anyio.CancelScope() for name in ("first", "second", "third")}
        async with anyio.create_task_group() as group:
            for name, scope in scopes.items():
                group.start_soon(append, name, scope)
                await anyio.wait_all_tasks_blocked()
            assert (threads.waiting, threads.has_place("garden"), threads.has_place()) == (2, False, False)
            scopes["second"].cancel()
            await anyio.wait_all_tasks_blocked()
            assert (threads.waiting, threads.has_place("garden")) == (1, True)
            gate.set()
        assert done == ["first", "third"]
        assert threads.has_place("garden")

    anyio.run(run)
