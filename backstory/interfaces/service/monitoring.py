"""What those ask who watch over the service: whether it lives and can answer, and its figures for Prometheus.

The figures are requests by route and status, and how much waits. No name is in them.
"""

from __future__ import annotations

import time
from typing import Final, Literal

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from pydantic import Field
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backstory.base.errors import BackstoryError
from backstory.interfaces.service.authentication import DESCRIBED, Anyone, Served
from backstory.interfaces.service.failures import ErrorBody, log_fault
from backstory.interfaces.service.refusals import RefusedError
from backstory.interfaces.service.service import RETRY_SECONDS, Service
from backstory.retrieval.found import Result

_BOUNDS: Final = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"


class Metrics:
    """The figures of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seconds = Histogram(
            "backstory_request_seconds",
            "Seconds from a request to the end of its answer",
            ("method", "route", "status"),
            registry=self.registry,
            buckets=_BOUNDS,
        )
        self.under_way = Gauge(
            "backstory_requests_under_way", "Requests that are being answered", registry=self.registry
        )
        self.waiting = Gauge(
            "backstory_work_waiting", "Questions and searches that wait for a thread", registry=self.registry
        )
        self.open_tenants = Gauge(
            "backstory_open_tenants", "Tenants whose workspaces are open", registry=self.registry
        )
        self.open_bytes = Gauge(
            "backstory_open_bytes",
            "What their snapshots count towards the limit of memory",
            registry=self.registry,
        )

    def read_state(self, service: Service) -> None:
        """Take what the service shows of itself at this moment."""
        self.waiting.set(service.waiting)
        self.open_tenants.set(len(service.tenants.open_names))
        self.open_bytes.set(service.tenants.open_bytes)


class Measured:
    """Measures every request of an application."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Wrap an application."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it when it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        began = time.perf_counter()

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._metrics.under_way.track_inprogress():
            try:
                await self._app(scope, receive, note_status)
            finally:
                method = scope["method"] if scope["method"] in _METHODS else _OTHER
                took = time.perf_counter() - began
                self._metrics.seconds.labels(method, _name_route(scope), str(status)).observe(took)


def make_metrics_router(metrics: Metrics) -> APIRouter:
    """Make the route of the figures."""
    router = APIRouter(tags=["operation"], dependencies=list(DESCRIBED))

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def read_metrics(service: Served, _: Anyone) -> Response:
        """Give the figures to Prometheus, which sends the token of any user."""
        metrics.read_state(service)
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_1_0_0)

    return router


def _name_route(scope: Scope) -> str:
    """Name the route as the application declares it, so that no id or name becomes a label."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else _OTHER


class Health(Result):
    """The process lives."""

    status: Literal["ok"] = Field(default="ok", description="Always ok.")


def make_health_router() -> APIRouter:
    """Make the routes of health, which need no token and tell nothing else."""
    router = APIRouter(tags=["operation"])

    @router.get("/healthz")
    async def tell_health() -> Health:
        """Tell that the process lives."""
        return Health()

    @router.get("/readyz", responses={503: {"model": ErrorBody}})
    def tell_readiness(service: Served) -> Health:
        """Tell that requests can be answered: users can be read, there is room for work, and nothing is stopping."""
        service.require_readiness()
        try:
            service.accounts.list_users()
        except BackstoryError as error:
            log_fault(error)
            raise RefusedError(
                "the users cannot be read; the log says why",
                status=503,
                code="not_ready",
                retry_after=RETRY_SECONDS,
            ) from error
        return Health()

    return router
