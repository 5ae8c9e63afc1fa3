"""Errors of the library where the protocol has no results of tools: at resources and prompts."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from backstory.base.errors import BackstoryError, InputError
from backstory.interfaces.agents.failures import Failure


def find_error(error: BaseException | None) -> BackstoryError | None:
    """Find the error of the library that the SDK has wrapped; None if there is none."""
    while error is not None and not isinstance(error, BackstoryError):
        error = error.__cause__
    return error


def refuse(failure: Failure, error: BackstoryError | None = None) -> MCPError:
    """Make the error of the protocol for a failure, which may be that of an error of the library."""
    code = INVALID_PARAMS if error is None or isinstance(error, InputError) else INTERNAL_ERROR
    return MCPError(code=code, message=f"{failure.message}; {failure.hint}", data=failure.to_dict())
