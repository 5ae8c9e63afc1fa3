"""Every error as one body, ``{"error": {"code", "message", "id"}}``, with the status that tells a client what to do.

An error that is no fault of the client shows nothing of this machine: the log has it, under the id that the body names.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from backstory.base.errors import (
    BackstoryError,
    BudgetExhaustedError,
    ModelError,
    NoIndexError,
)
from backstory.base.telemetry import log_event
from backstory.interfaces.service.refusals import RefusedError, hide_paths
from backstory.retrieval.found import Result

logger = logging.getLogger(__name__)

PROTECTING: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer that sets none of its own."""

NO_TENANT: Final = "there is no such tenant that you may enter"
"""What is said of a tenant that is absent, and of one that the caller may not enter."""

_SOON_SECONDS: Final = 30
_LATER_SECONDS: Final = 3600
_GONE: Final = 499
"""Status of a request whose client went in the middle of its body, as servers log it."""
_ID_BYTES: Final = 6
_INTERNAL: Final = "internal"
_ASK: Final = "tell whoever runs this service the id"
_STATUS_OF_CODES: Final[Mapping[str, int]] = {
    "changed_document": 409,
    "existing_document": 409,
    "colliding_name": 409,
    "job_ended": 409,
    "too_large": 413,
}
_AWAY: Final = frozenset(
    [
        "busy_file", "disk_full", "out_of_memory", "too_many_files", "unreachable_database", "unreachable_store",
        "unwritable",
    ]
)  # fmt: skip
"""Codes of what passes by itself, or when the servers of state and files are there again."""
_CODES_OF_STATUS: Final[Mapping[int, str]] = {
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    413: "too_large",
}


class ErrorText(Result):
    """What went wrong."""

    code: str = Field(description="Name of the cause, which stays the same when the message changes.")
    message: str = Field(description="What is wrong, and what to do.")
    id: str | None = Field(default=None, description="Id of the log's entry; null if the log has none.")


class ErrorBody(Result):
    """The body of every error."""

    error: ErrorText = Field(description="What went wrong.")


class Told:
    """What a client is told of an error: the status, the body, and when to try again."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        id_: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.text = ErrorText(code=code, message=message, id=id_)
        self.retry_after = retry_after

    def to_response(self) -> Response:
        """Return the answer."""
        headers = {} if self.retry_after is None else {"Retry-After": str(math.ceil(self.retry_after))}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        body = ErrorBody(error=self.text).to_dict()
        return JSONResponse(body, status_code=self.status, headers={**PROTECTING, **headers})


def describe_error(error: BackstoryError, root: Path, *, names_resource: bool = False) -> Told:
    """Describe an error of the library to a client, who is shown no path of the tenants' folder.

    The path of a request may name what does not exist, rather than its body.
    """
    message = hide_paths(str(error), root)
    if error.code == "unknown_tenant":
        # Whether it is absent, or not the caller's, must make no difference.
        return Told(404, error.code, NO_TENANT)
    if isinstance(error, RefusedError):
        return Told(error.status, error.code, message, retry_after=error.retry_after)
    if error.code == "indexing":
        told = "the first indexing is under way, and nothing can be searched yet; ask again in a while"
        return Told(503, error.code, told, retry_after=_SOON_SECONDS)
    if isinstance(error, NoIndexError):
        return Told(error.status, "no_index", "nothing is indexed yet; add documents first")
    if error.status < 500:
        is_absent = names_resource and error.code.startswith("unknown_")
        return Told(404 if is_absent else _STATUS_OF_CODES.get(error.code, error.status), error.code, message)
    logged = log_fault(error)
    if isinstance(error, BudgetExhaustedError):
        told = f"the budget or the quota of the model is used up; ask again later, or {_ASK}"
        return Told(503, error.code, told, id_=logged, retry_after=_LATER_SECONDS)
    if isinstance(error, ModelError):
        told = f"the model gave no answer that can be used; ask again in a while, or {_ASK}"
        return Told(503, error.code, told, id_=logged, retry_after=_SOON_SECONDS)
    if error.status == 503 or error.code in _AWAY:
        told = f"the service cannot read or store anything at present; try again in a while, or {_ASK}"
        return Told(503, error.code, told, id_=logged, retry_after=_SOON_SECONDS)
    return describe_fault(logged)


def describe_fault(logged: str) -> Told:
    """Describe a fault of the service, of which the log has everything and the client the id of the entry."""
    return Told(500, _INTERNAL, f"the service failed by a fault of its own; {_ASK}", id_=logged)


def add_failures(app: FastAPI, root: Path) -> None:
    """Answer every error of an application in the one form, without the path of the tenants' folder."""

    async def tell_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, BackstoryError)  # noqa: S101 - it is registered for these alone
        return describe_error(error, root, names_resource=bool(request.path_params)).to_response()

    async def tell_form(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - it is registered for these alone
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()
        )
        return Told(400, "input", f"{faults}; see /docs for what this takes").to_response()

    async def tell_status(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these alone
        code = _CODES_OF_STATUS.get(error.status_code, "input")
        return Told(error.status_code, code, str(error.detail)).to_response()

    async def tell_fault(_: Request, error: Exception) -> Response:
        return describe_fault(log_fault(error)).to_response()

    async def tell_nobody(_: Request, error: Exception) -> Response:
        assert isinstance(error, ClientDisconnect)  # noqa: S101 - it is registered for these alone
        return Response(status_code=_GONE)  # which only the figures of requests see

    app.add_exception_handler(BackstoryError, tell_error)
    app.add_exception_handler(ClientDisconnect, tell_nobody)
    app.add_exception_handler(RequestValidationError, tell_form)
    app.add_exception_handler(HTTPException, tell_status)
    app.add_exception_handler(Exception, tell_fault)


def log_fault(error: BaseException) -> str:
    """Write an error into the log, and return the id of the entry."""
    logged = secrets.token_hex(_ID_BYTES)
    log_event(
        logger, "request failed", level=logging.ERROR, id=logged, error=type(error).__name__, exc_info=error
    )
    return logged
