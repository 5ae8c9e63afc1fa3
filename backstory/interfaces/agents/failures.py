"""Errors in the one shape in which tools of agents give them: a code, what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field, ValidationError

from backstory.base.errors import BackstoryError
from backstory.retrieval.found import Result

_NO_HINT: Final = "correct the call, or ask whoever runs this workspace; `backstory doctor` examines it"


class Failure(Result):
    """An error of a tool."""

    status: Literal["error"] = Field(default="error", description="Always error.")
    code: str = Field(description="Name of the cause, such as unknown_document or no_index.")
    message: str = Field(description="What is wrong, and where.")
    hint: str = Field(description="What to do.")


def describe_failure(error: BackstoryError) -> Failure:
    """Describe an error of the library."""
    return make_failure(error.code, str(error))


def make_failure(code: str, text: str) -> Failure:
    """Make a failure of a text that says what is wrong, and after the last semicolon what to do."""
    message, mark, hint = text.rpartition("; ")
    return (
        Failure(code=code, message=message, hint=hint)
        if mark
        else Failure(code=code, message=text, hint=_NO_HINT)
    )


def describe_faults(name: str, error: ValidationError, hint: str, arguments: Sequence[str] = ()) -> Failure:
    """Describe arguments that do not have the required form.

    Args:
        name: Name of the tool.
        error: What is wrong with them.
        hint: What to do.
        arguments: Names of the arguments in their order, for those that the error counts.
    """
    faults = []
    for fault in error.errors(include_url=False):
        place = [
            arguments[part] if isinstance(part, int) and part < len(arguments) else part
            for part in fault["loc"]
        ]
        faults.append(f"{'.'.join(map(str, place))}: {fault['msg']}")
    return Failure(code="input", message=f"{name}: {'; '.join(faults)}", hint=hint)
