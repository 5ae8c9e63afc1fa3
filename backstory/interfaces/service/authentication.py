"""Who sends a request, and for which tenant: a bearer token, and the role that its user has there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.requests import HTTPConnection

from backstory.interfaces.service.accounts import Caller
from backstory.interfaces.service.failures import NO_TENANT
from backstory.interfaces.service.names import Role
from backstory.interfaces.service.refusals import RefusedError
from backstory.interfaces.service.service import Service

TENANT_HEADER: Final = "X-Backstory-Tenant"
TENANT_PARAMETER: Final = "tenant"
_BEARER: Final = "bearer"
_NETWORK_GROUPS: Final = 4
DESCRIBED: Final = (
    Security(HTTPBearer(auto_error=False, description="A token of `backstory serve token add`.")),
    Security(
        APIKeyHeader(
            name=TENANT_HEADER,
            scheme_name="tenant",
            auto_error=False,
            description="The tenant, also as the parameter `tenant`; not needed by a user who may enter one alone.",
        )
    ),
)
"""Tells of tokens and tenants in the description of the service; what it depends on refuses nothing itself."""


@dataclass(frozen=True, slots=True)
class Access:
    """A request that was let in.

    Attributes:
        caller: Whose token it bears.
        tenant: The tenant that it is for.
        role: The role of the caller there.
    """

    caller: Caller
    tenant: str
    role: Role


def get_service(request: Request) -> Service:
    """Return the service that a request was sent to."""
    service: Service = request.app.state.service
    return service


def authenticate(service: Service, connection: HTTPConnection) -> Caller:
    """Find whose token a request bears, and count the request.

    Without such a token it is refused (401), or if the token, or those without one at this address, have sent too many
    (429).
    """
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    caller = service.accounts.authenticate(token.strip()) if scheme.lower() == _BEARER else None
    if caller is None:
        service.count_failure(_find_address(connection))
        raise RefusedError(
            "send a valid token as `Authorization: Bearer TOKEN`", status=401, code="unauthorized"
        )
    service.require_rate(caller.token_id)
    return caller


def sign_in(request: Request, token: str) -> str | None:
    """Begin the session of a browser by a token, and count the request.

    Returns what the browser sends from then on; None if no valid token is equal.
    """
    service = get_service(request)
    caller = service.accounts.authenticate(token)
    if caller is None:
        service.count_failure(_find_address(request))
        return None
    service.require_rate(caller.token_id)
    return service.accounts.open_session(token)


def enter(caller: Caller, tenant: str | None, wanted: Role) -> Access:
    """Let a caller into a tenant, or into the only one that they may enter, in a role.

    No file is read, so that time tells nothing about other tenants. Refused are a tenant that is absent or not the
    caller's (404 for both), a role that is too low (403), and several tenants of which none is named (400).
    """
    if tenant is None:
        if len(caller.roles) != 1:
            raise RefusedError(
                f"name the tenant in the header {TENANT_HEADER}, one that you may enter",
                status=400,
                code="tenant_needed",
            )
        [tenant] = caller.roles
    role = caller.roles.get(tenant)
    if role is None:
        raise refuse_tenant()
    if not caller.may(tenant, wanted):
        raise RefusedError(f"this needs the role {wanted}; you are {role}", status=403, code="role_needed")
    return Access(caller, tenant, role)


def refuse_tenant() -> RefusedError:
    """Make the one error for a tenant that is not there, and for one that the caller may not enter."""
    return RefusedError(NO_TENANT, status=404, code="unknown_tenant")


def enter_as_reader(request: Request) -> Access:
    """Let a reader, editor or owner in."""
    return _enter(request, "reader")


def enter_as_editor(request: Request) -> Access:
    """Let an editor or owner in."""
    return _enter(request, "editor")


def enter_as_owner(request: Request) -> Access:
    """Let an owner in."""
    return _enter(request, "owner")


def enter_as_anyone(request: Request) -> Caller:
    """Let any user in, for what belongs to no tenant."""
    return authenticate(get_service(request), request)


def _enter(request: Request, wanted: Role) -> Access:
    caller = enter_as_anyone(request)
    named = {*request.headers.getlist(TENANT_HEADER), *request.query_params.getlist(TENANT_PARAMETER)} - {""}
    if len(named) > 1:
        raise RefusedError(
            f"the request names two tenants; name one, in the header {TENANT_HEADER} or as `{TENANT_PARAMETER}`",
            status=400,
            code="several_tenants",
        )
    return enter(caller, named.pop() if named else None, wanted)


def _find_address(connection: HTTPConnection) -> str:
    """Return the address that a request comes from; of IPv6 the network, all of which one sender may have."""
    host = "" if connection.client is None else connection.client.host
    return ":".join(host.split(":")[:_NETWORK_GROUPS]) if ":" in host else host


Reader = Annotated[Access, Depends(enter_as_reader)]
Editor = Annotated[Access, Depends(enter_as_editor)]
Owner = Annotated[Access, Depends(enter_as_owner)]
Anyone = Annotated[Caller, Depends(enter_as_anyone)]
Served = Annotated[Service, Depends(get_service)]
