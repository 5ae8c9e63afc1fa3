"""The pages by which an owner lets a tenant read a Google Drive."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from backstory.interfaces.service.authentication import Served
from backstory.interfaces.service.drive_permission import PERMITTED
from backstory.interfaces.service.pages.rendering import show
from backstory.interfaces.service.pages.visits import OwningVisitor, PageRoute, Visitor, find_visitor
from backstory.interfaces.service.refusals import RefusedError
from backstory.interfaces.service.sources import keep_permission, name_service

_MOST: Final = 4_000

Given = Annotated[str, Query(max_length=_MOST)]
Sent = Annotated[str, Form(max_length=_MOST)]


def make_permitting_router() -> APIRouter:
    """Make the routes of the permission to read a Google Drive."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.post("/tenants/{tenant}/drive")
    def begin(request: Request, access: OwningVisitor, service: Served) -> Response:
        # A link, since browsers follow no redirect from a form to another site under the policy of these pages.
        address = service.permissions.begin(access.caller, access.tenant, name_service(request))
        return show(
            "drive.html", caller=access.caller, tenant=access.tenant, address=address, state="", code=""
        )

    @router.get(PERMITTED)
    def come_back(request: Request, state: Given = "", code: Given = "", error: Given = "") -> Response:
        # The cookie of the session is not sent with a request that another site has caused, but with the form here.
        if error or not code:
            raise RefusedError(
                "Google gave no permission to read; nothing was changed",
                status=400,
                code="permission_refused",
            )
        caller = find_visitor(request)
        return show("drive.html", caller=caller, tenant=None, address="", state=state, code=code)

    @router.post(PERMITTED)
    def finish(caller: Visitor, service: Served, state: Sent = "", code: Sent = "") -> Response:
        keep_permission(service, caller, state, code)
        return RedirectResponse("/", 303)

    return router
