"""All routes of the web page."""

from __future__ import annotations

from fastapi import APIRouter

from backstory.interfaces.service.pages.asking import make_asking_router
from backstory.interfaces.service.pages.files import make_files_router
from backstory.interfaces.service.pages.permitting import make_permitting_router
from backstory.interfaces.service.pages.signing_in import make_signing_router


def make_web_router() -> APIRouter:
    """Make the routes of the web page: of signing in, of conversations, and of documents."""
    router = APIRouter()
    for part in (make_signing_router(), make_asking_router(), make_files_router(), make_permitting_router()):
        router.include_router(part)
    return router


def takes_uploads(path: str) -> bool:
    """Return whether the page sends uploads to a path."""
    parts = path.split("/")
    return len(parts) == 4 and parts[:2] == ["", "tenants"] and parts[3] == "documents"
