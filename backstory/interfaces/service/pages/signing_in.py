"""Signing in and out, the choice of a tenant, and the files that pages load."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from backstory.interfaces.service.authentication import sign_in
from backstory.interfaces.service.pages.rendering import find_asset, show
from backstory.interfaces.service.pages.visits import (
    SIGN_IN,
    PageRoute,
    Visitor,
    check_destination,
    drop_session,
    find_visitor,
    keep_session,
)
from backstory.interfaces.service.refusals import RefusedError

_NOT_VALID: Final = "This is no valid token, or it has ended. Whoever runs this service can make another one."
_NOT_KEPT: Final = (
    "The token is valid, but this browser has not kept the session. Allow cookies of this page, and open it by "
    "https."
)
_KEPT: Final = "public, max-age=31536000, immutable"
_TOKEN_CHARACTERS: Final = 200
_ADDRESS_CHARACTERS: Final = 2_000

Token = Annotated[str, Form(max_length=_TOKEN_CHARACTERS)]
Destination = Annotated[str, Form(max_length=_ADDRESS_CHARACTERS)]


def make_signing_router() -> APIRouter:
    """Make the routes of signing in and out, and of the files that pages load."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/static/{mark}/{name}")
    async def load_asset(mark: str, name: str) -> Response:
        asset = find_asset(name)
        if asset is None or asset.mark != mark:
            raise RefusedError("there is no such file", status=404, code="not_found")
        return Response(asset.content, media_type=asset.media, headers={"Cache-Control": _KEPT})

    @router.get(SIGN_IN)
    def show_sign_in(request: Request, to: str = "/", signed: bool = False) -> Response:
        if find_visitor(request) is not None:
            return RedirectResponse(check_destination(to), 303)
        error = _NOT_KEPT if signed else ""
        return show("sign_in.html", to=check_destination(to), error=error, caller=None)

    @router.post(SIGN_IN)
    def sign_in_by_token(request: Request, token: Token = "", to: Destination = "/") -> Response:
        opened = sign_in(request, token.strip())
        if opened is None:
            return show("sign_in.html", 401, to=check_destination(to), error=_NOT_VALID, caller=None)
        # By way of this page, which tells if the browser has not kept the cookie.
        response = RedirectResponse(f"{SIGN_IN}?{urlencode({'to': check_destination(to), 'signed': 1})}", 303)
        keep_session(request, response, opened)
        return response

    @router.post("/sign-out")
    def sign_out(request: Request) -> Response:
        response = RedirectResponse(SIGN_IN, 303)
        drop_session(request, response)
        return response

    @router.get("/")
    def choose_tenant(caller: Visitor) -> Response:
        if len(caller.roles) == 1:
            [tenant] = caller.roles
            return RedirectResponse(f"/tenants/{tenant}", 303)
        return show("tenants.html", caller=caller, tenant=None)

    return router
