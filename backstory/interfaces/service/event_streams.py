"""Answers that come event by event while a thread makes them, until it ends, the client goes, or the process ends."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import anyio
import anyio.from_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from backstory.base.errors import BackstoryError, StoppedError
from backstory.interfaces.service.failures import ErrorBody, Told, describe_error, describe_fault, log_fault
from backstory.interfaces.service.fair_threads import Place
from backstory.interfaces.service.service import Service, refuse_stopping

DONE: Final = "done"
ERROR: Final = "error"

_QUIET_SECONDS: Final = 15.0
"""Seconds without an event after which a comment shows that the connection is alive."""
_COMMENT: Final = b": working\n\n"


class Event(NamedTuple):
    """One event.

    Attributes:
        name: What it tells.
        data: Values for JSON.
    """

    name: str
    data: Mapping[str, Any]

    def encode(self) -> bytes:
        """Write the event; JSON has no line breaks."""
        return f"event: {self.name}\ndata: {json.dumps(self.data, ensure_ascii=False)}\n\n".encode()


class Emit(Protocol):
    """Sends an event from the thread of the work; stops the work if nobody reads its events any more."""

    def __call__(self, name: str, data: Mapping[str, Any]) -> None:
        """Send an event."""


class EventStream(Response):
    """The events of some work, the last of which is ``done`` of the work, or ``error``."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, tenant: str, work: Callable[[Emit], None]) -> None:
        """Describe the work, which begins with the answer, in the threads of the service and on the turn of a tenant.

        The work emits its events, ``done`` last; its errors become ``error``.
        """
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._service = service
        self._tenant = tenant
        self._work = work
        self._has_left = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - of every answer
        """Send the events as they come, while the work waits for its turn or is done."""
        with self._service.take_place(self._tenant) as place:
            inlet, outlet = anyio.create_memory_object_stream[Event](math.inf)
            with inlet, outlet:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._run, place, inlet)
                    group.start_soon(self._watch_client, receive, group.cancel_scope)
                    group.start_soon(self._watch_process, inlet)
                    try:
                        start = {"type": "http.response.start", "status": self.status_code}
                        await send({**start, "headers": self.raw_headers})
                        await _pass_on(outlet, send)
                    finally:
                        # The thread is told as well: the group ends when it has returned.
                        self._has_left.set()
                        group.cancel_scope.cancel()

    async def _run(self, place: Place, inlet: MemoryObjectSendStream[Event]) -> None:
        """Do the work in a thread, leave its place, and send its error as the last event."""

        def emit(name: str, data: Mapping[str, Any]) -> None:
            if self._has_left.is_set():
                raise StoppedError("nobody reads the events any more")
            anyio.from_thread.run_sync(inlet.send_nowait, Event(name, data))

        try:
            with place:
                await place.call(lambda: self._work(emit))
        except BackstoryError as error:
            if not self._has_left.is_set():
                inlet.send_nowait(_tell(describe_error(error, self._service.root)))
        except Exception as error:  # noqa: BLE001 - a client that reads a stream learns of a fault by an event alone
            inlet.send_nowait(_tell(describe_fault(log_fault(error))))

    async def _watch_client(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._has_left.set()
        scope.cancel()

    async def _watch_process(self, inlet: MemoryObjectSendStream[Event]) -> None:
        """End the stream when the process was told to end, whatever the work does meanwhile."""
        await self._service.stopping.wait()
        self._has_left.set()
        inlet.send_nowait(_tell(describe_error(refuse_stopping(), self._service.root)))


async def _pass_on(outlet: MemoryObjectReceiveStream[Event], send: Send) -> None:
    """Send events up to the last one, and comments while there is none."""
    event = None
    while event is None or event.name not in (DONE, ERROR):
        event = None
        with anyio.move_on_after(_QUIET_SECONDS):
            event = await outlet.receive()
        part = _COMMENT if event is None else event.encode()
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _tell(told: Told) -> Event:
    again = {} if told.retry_after is None else {"retry_after": told.retry_after}
    return Event(ERROR, {**ErrorBody(error=told.text).to_dict(), "status": told.status, **again})
