"""The routes of the service, from its application, and who may call them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastapi import FastAPI
from starlette.routing import Mount

from backstory.interfaces.service.names import Role

NEEDED: Final[Mapping[str, Role]] = {
    "POST /api/documents": "editor",
    "DELETE /api/documents/{document_id}": "editor",
    "POST /api/index": "editor",
    "POST /api/jobs/{job_id}/cancel": "editor",
    "GET /api/feedback/export": "owner",
    "POST /api/sources/drive/permission": "owner",
    "POST /api/sources/drive/permission/finish": "owner",
    "POST /tenants/{tenant}/drive": "owner",
    "POST /tenants/{tenant}/documents": "editor",
    "POST /tenants/{tenant}/index": "editor",
    "POST /tenants/{tenant}/jobs/{job_id}/cancel": "editor",
    "GET /tenants/{tenant}/documents/{document_id}/remove": "editor",
    "POST /tenants/{tenant}/documents/{document_id}/remove": "editor",
}
"""The routes that need a higher role than that of a reader."""
PUBLIC: Final = {
    "GET /healthz",
    "GET /readyz",
    "GET /docs",
    "GET /openapi.json",
    "GET /static/{mark}/{name}",
    "GET /drive/permitted",
    "GET /sign-in",
    "POST /sign-in",
    "POST /sign-out",
}
"""The routes that answer anybody."""
OF_NO_TENANT: Final = {*PUBLIC, "GET /", "GET /metrics"}
"""The routes that answer whoever has signed in or sends any token, and those that answer anybody."""
BODILESS: Final = {
    "POST /api/index",
    "POST /api/jobs/{job_id}/cancel",
    "POST /api/sources/drive/permission",
    "POST /tenants/{tenant}/drive",
    "POST /sign-out",
    "POST /tenants/{tenant}/conversations/{id}/delete",
    "POST /tenants/{tenant}/documents/{document_id}/remove",
    "POST /tenants/{tenant}/index",
    "POST /tenants/{tenant}/jobs/{job_id}/cancel",
}
"""The routes that a request without a body is sent to, though they change something."""


def list_routes(app: FastAPI) -> list[str]:
    """List the routes of an application, from the application itself."""

    def walk(routes: Any) -> Iterator[str]:
        for route in routes:
            inner = getattr(route, "original_router", None)
            if inner is not None:
                yield from walk(inner.routes)
            elif isinstance(route, Mount):
                yield f"POST {route.path}"
            else:
                yield from (f"{method} {route.path}" for method in route.methods - {"HEAD"})

    return sorted(set(walk(app.routes)))
