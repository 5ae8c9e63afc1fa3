"""Errors of the library where the protocol has no results of tools: at resources and prompts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from backstory.base.errors import BackstoryError, InputError
from backstory.interfaces.agents.failures import Failure, describe_failure

_P = ParamSpec("_P")
_T = TypeVar("_T")


def answering(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn an error of the library into one of the protocol, whose data has the shape of all errors of tools."""

    @wraps(function)
    def answer(*arguments: _P.args, **options: _P.kwargs) -> _T:
        try:
            return function(*arguments, **options)
        except BackstoryError as error:
            code = INVALID_PARAMS if isinstance(error, InputError) else INTERNAL_ERROR
            raise MCPError(code=code, message=str(error), data=describe_failure(error).to_dict()) from error

    return answer


def refuse(failure: Failure) -> MCPError:
    """Make the error of the protocol that says why a request is refused."""
    return MCPError(code=INVALID_PARAMS, message=f"{failure.message}; {failure.hint}", data=failure.to_dict())
