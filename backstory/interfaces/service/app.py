"""The application: the routes of the service over its parts, behind the checks of every request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio.to_thread
from fastapi import FastAPI
from starlette.middleware import Middleware

from backstory.base import VERSION
from backstory.interfaces.service.api_page import make_page_router
from backstory.interfaces.service.chat import make_chat_router
from backstory.interfaces.service.conversations import make_conversations_router
from backstory.interfaces.service.documents import make_documents_router
from backstory.interfaces.service.failures import ErrorBody, add_failures
from backstory.interfaces.service.jobs import make_jobs_router
from backstory.interfaces.service.limits import BodyLimit, KnownHosts
from backstory.interfaces.service.monitoring import Measured, Metrics, make_health_router, make_metrics_router
from backstory.interfaces.service.pages.router import make_web_router, takes_uploads
from backstory.interfaces.service.searching import make_search_router
from backstory.interfaces.service.service import Service
from backstory.interfaces.service.sources import make_sources_router
from backstory.interfaces.service.tenant_servers import TenantServers

_ABOUT: Final = """Answers from the documents of a tenant, each claim with the passage that says it.

Send a token as `Authorization: Bearer TOKEN`. A user who may enter several tenants names one in `X-Backstory-Tenant`.
Errors have one form: `{"error": {"code": ..., "message": ..., "id": ...}}`.
"""
_UPLOADS: Final = "/api/documents"


def make_app(service: Service, *, hosts: Sequence[str]) -> FastAPI:
    """Make the application of a service for some hosts, as clients name them, such as ``127.0.0.1:8766``.

    Its start and its end are those of the index jobs, too. Requests that name another host are refused.
    """
    limits, metrics = service.limits, Metrics()

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        await anyio.to_thread.run_sync(service.jobs.start)
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(service.close)

    def choose_limit(path: str) -> int:
        is_upload = path == _UPLOADS or takes_uploads(path)
        return limits.upload_bytes if is_upload else limits.body_bytes

    app = FastAPI(
        title="Backstory",
        version=VERSION,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=live,
        responses={"default": {"model": ErrorBody, "description": "Every error."}},
        middleware=[
            Middleware(Measured, metrics=metrics),
            Middleware(KnownHosts, hosts=hosts),
            Middleware(
                BodyLimit,
                choose=choose_limit,
                seconds=limits.body_seconds,
                per_second=limits.body_bytes_per_second,
            ),
        ],
    )
    app.state.service = service
    add_failures(app, service.root)
    for router in (
        make_health_router(),
        make_metrics_router(metrics),
        make_chat_router(),
        make_search_router(),
        make_conversations_router(),
        make_documents_router(),
        make_jobs_router(),
        make_sources_router(),
        make_page_router(),
        make_web_router(),
    ):
        app.include_router(router)
    app.mount("/mcp", TenantServers(service), name="mcp")
    return app
