"""The limits of requests: hosts and pages that may send them, bytes and time of a body, and requests per minute."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backstory.interfaces.service.failures import PROTECTING, Told

_SENDERS_KEPT: Final = 10_000
_SCHEMES: Final = ("http://", "https://")


class RequestRates:
    """How many requests each sender may send: some at once, and as many per minute as it gains back."""

    def __init__(self, per_minute: int, at_once: int, clock: Callable[[], float]) -> None:
        """Set the rates.

        Args:
            per_minute: Requests that a sender gains per minute.
            at_once: Requests that it may have gained at most.
            clock: Gives monotonic seconds.
        """
        self._per_second = per_minute / 60
        self._most = float(at_once)
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, sender: str) -> float:
        """Take one request of a sender.

        Args:
            sender: Identifies the sender, such as the id of a token.

        Returns:
            0 if it may be sent; otherwise the seconds until it may be.
        """
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(sender, (self._most, now))
            left = min(self._most, left + (now - since) * self._per_second)
            wait = 0.0 if left >= 1 else (1 - left) / self._per_second
            self._left[sender] = (left if wait else left - 1, now)
            if len(self._left) > _SENDERS_KEPT:
                self._left.popitem(last=False)
            return wait


class KnownHosts:
    """Refuses requests that name another host, or that a page of another site makes; adds protecting headers.

    A page of another site that made its name mean this machine would name its own host.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """Wrap an application.

        Args:
            app: The application.
            hosts: Hosts as clients name them, such as ``127.0.0.1:8766``; ports 80 and 443 are left out.
        """
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(f"{scheme}{host}" for host in self._hosts for scheme in _SCHEMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 421 or 403."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def protect(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTING.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refuse(Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, protect)
        else:
            await refusal.to_response()(scope, receive, send)

    def _refuse(self, headers: Headers) -> Told | None:
        if headers.get("host", "").lower() not in self._hosts:
            return Told(421, "unknown_host", "this service is not called by this name; use its own address")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return Told(403, "foreign_page", "pages of other sites may not call this service")
        return None


class BodyLimit:
    """Refuses bodies that are too large, by what they say of themselves and by the bytes that come, or too slow."""

    def __init__(self, app: ASGIApp, choose: Callable[[str], int], seconds: float, per_second: int) -> None:
        """Wrap an application.

        Args:
            app: The application.
            choose: Gives the most bytes of a body sent to a path.
            seconds: Longest time for which a body may be waited for, beside that of its bytes.
            per_second: Bytes that must come in each further second of waiting.
        """
        self._app = app
        self._choose = choose
        self._seconds = seconds
        self._per_second = per_second

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body counted, or answer it with 408 or 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._choose(scope["path"])
        said = Headers(scope=scope).get("content-length", "")
        if said.isdigit() and int(said) > most:
            await Told(413, "too_large", _describe(most)).to_response()(scope, receive, send)
            return
        await self._app(scope, self._count_bytes(receive, most), send)

    def _count_bytes(self, receive: Receive, most: int) -> Callable[[], Awaitable[Message]]:
        taken, waited, is_whole = 0, 0.0, False

        async def take() -> Message:
            nonlocal taken, waited, is_whole
            if is_whole:  # what comes next is that the client goes, for which an answer may wait long
                return await receive()
            # The time that the application takes for the bytes that it has is not the client's.
            began = anyio.current_time()
            with anyio.move_on_after(self._seconds + taken / self._per_second - waited):
                message = await receive()
                waited += anyio.current_time() - began
                taken += len(message.get("body", b""))
                is_whole = not message.get("more_body", False)
                if taken > most:
                    # The application passes it on where it reads the body, and nothing has been answered yet.
                    raise HTTPException(413, _describe(most))
                return message
            raise HTTPException(408, "the body came too slowly; send it again over a faster connection")

        return take


def _describe(most: int) -> str:
    return f"the body is larger than {most:,} bytes; send less at once"
