"""Who looks at a page: the session of a browser, and how a page tells what went wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response

from backstory.base.errors import BackstoryError, ModelError
from backstory.interfaces.mcp.http_serving import is_own_host
from backstory.interfaces.service.accounts import Caller
from backstory.interfaces.service.authentication import Access, enter, get_service
from backstory.interfaces.service.failures import Told, describe_error, describe_fault, log_fault
from backstory.interfaces.service.names import Role
from backstory.interfaces.service.pages.rendering import show
from backstory.interfaces.service.refusals import RefusedError

SIGN_IN: Final = "/sign-in"
SESSION_COOKIE: Final = "backstory_session"
EVENTS: Final = "text/event-stream"

_SAFE_METHODS: Final = ("GET", "HEAD")
_OWN_PAGE: Final = re.compile(r"/tenants/[A-Za-z0-9._~%/?=&-]*")
_SIGNED_OUT: Final = "signed_out"


class PageRoute(APIRoute):
    """A route of a page: its errors are pages, and only the service's own pages may send it a form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                _require_own_page(request)
                return await handle(request)
            except (BackstoryError, HTTPException, RequestValidationError) as error:
                return _show_error(request, error)
            except ClientDisconnect:  # in the middle of a form; nobody sees a page
                raise
            except Exception as error:  # noqa: BLE001 - a fault is logged, and shown as a page
                return _show_told(request, describe_fault(log_fault(error)))

        return answer


def is_part(request: Request) -> bool:
    """Return whether a script asks for a part of a page, and not a browser for the whole page."""
    return "hx-request" in request.headers or wants_events(request)


def wants_events(request: Request) -> bool:
    """Return whether a script asks for an answer event by event."""
    return request.headers.get("accept", "").startswith(EVENTS)


def find_visitor(request: Request) -> Caller | None:
    """Find who has signed in; None for nobody."""
    opened = request.cookies.get(SESSION_COOKIE)
    return None if opened is None else get_service(request).accounts.find_session(opened)


def visit(request: Request) -> Caller:
    """Let anybody in who has signed in, and count the request."""
    caller = find_visitor(request)
    if caller is None:
        raise RefusedError("sign in first", status=401, code=_SIGNED_OUT)
    get_service(request).require_rate(caller.token_id)
    return caller


def visit_as_reader(request: Request, tenant: str) -> Access:
    """Let a reader, editor or owner of the tenant in that the path names."""
    return _enter(request, tenant, "reader")


def visit_as_editor(request: Request, tenant: str) -> Access:
    """Let an editor or owner of the tenant in that the path names."""
    return _enter(request, tenant, "editor")


def visit_as_owner(request: Request, tenant: str) -> Access:
    """Let an owner of the tenant in that the path names."""
    return _enter(request, tenant, "owner")


Visitor = Annotated[Caller, Depends(visit)]
ReadingVisitor = Annotated[Access, Depends(visit_as_reader)]
EditingVisitor = Annotated[Access, Depends(visit_as_editor)]
OwningVisitor = Annotated[Access, Depends(visit_as_owner)]


def keep_session(request: Request, response: Response, opened: str) -> None:
    """Give a browser the cookie of its session, which no script reads and no page of another site sends."""
    response.set_cookie(
        SESSION_COOKIE,
        opened,
        httponly=True,
        samesite="strict",
        secure=not _is_local(request),
    )


def drop_session(request: Request, response: Response) -> None:
    """Take the cookie of a session from a browser, and end the session."""
    opened = request.cookies.get(SESSION_COOKIE)
    if opened is not None:
        get_service(request).accounts.close_session(opened)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict", secure=not _is_local(request))


def check_destination(address: str) -> str:
    """Return where a person goes after signing in: the page of the service that was wanted, or the first one."""
    return address if _OWN_PAGE.fullmatch(address) else "/"


def _enter(request: Request, tenant: str, wanted: Role) -> Access:
    return enter(visit(request), tenant, wanted)


def _is_local(request: Request) -> bool:
    return is_own_host(request.headers.get("host", ""))


def _require_own_page(request: Request) -> None:
    """Refuse a form of which no browser says that a page of the service has sent it.

    The checks of every request have compared an Origin with the service's own address already.
    """
    if request.method not in _SAFE_METHODS and "origin" not in request.headers:
        raise RefusedError("only pages of this service may send this", status=403, code="foreign_page")


def _show_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RefusedError) and error.code == _SIGNED_OUT:
        return _send_to_sign_in(request)
    if isinstance(error, BackstoryError):
        told = describe_error(error, get_service(request).root, names_resource=True)
        hits = error.hits if isinstance(error, ModelError) else ()
        return _show_told(request, told, hits=hits)
    if isinstance(error, HTTPException):
        return _show_told(request, Told(error.status_code, "input", str(error.detail)))
    return _show_told(
        request, Told(400, "input", "the form of this page is not as the service sent it; load it again")
    )


def _show_told(request: Request, told: Told, **values: Any) -> Response:
    headers = {} if told.retry_after is None else {"Retry-After": str(round(told.retry_after) + 1)}
    values = {"error": told.text, "hits": (), "tenant": request.path_params.get("tenant"), **values}
    if is_part(request):
        # htmx would put the message where the result of the request belongs.
        headers |= {"HX-Retarget": "#notice", "HX-Reswap": "innerHTML"}
        return show("notice.html", told.status, headers, **values)
    return show("error.html", told.status, headers, caller=find_visitor(request), **values)


def _send_to_sign_in(request: Request) -> Response:
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    is_page = request.method in _SAFE_METHODS and not is_part(request)
    address = f"{SIGN_IN}?to={quote(wanted, safe='')}" if is_page and wanted != "/" else SIGN_IN
    if is_part(request):
        return Response(status_code=401, headers={"HX-Redirect": address})
    return RedirectResponse(address, 303)
