"""Calls of functions that read untrusted files, in the process with limits."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from io import BytesIO
from types import GenericAlias
from typing import Any, Final, TypeVar, get_type_hints

import msgspec
import polars as pl
from pydantic import BaseModel

from backstory.base.errors import ReadError
from backstory.base.sandbox import ReadingLimits, run_limited
from backstory.settings.inputs import ConversationSettings, DocumentSettings

_TASK: Final = f"{__name__}:handle_call"
_TOO_DEEP: Final = "its parts are nested more deeply than any program writes them; write or export it again"
Result = TypeVar("Result")


def find_limits(settings: ConversationSettings | DocumentSettings) -> ReadingLimits:
    """Return the limits within which a file is read."""
    return ReadingLimits(settings.read_seconds, settings.read_megabytes)


def call_limited(
    function: Callable[..., Result], *arguments: object, limits: ReadingLimits, size: int | None = None
) -> Result:
    """Call a function of a module by :func:`backstory.base.sandbox.run_limited`.

    Arguments and result have the types of its annotations: values and dataclasses that msgspec knows, tables, and
    models of pydantic. ``size`` is that of the file in bytes, if the arguments only name it. It raises the
    ``ReadError`` of the function, and that of a limit that is exceeded.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    request = msgspec.msgpack.encode((name, arguments), enc_hook=_simplify)
    answered = run_limited(_TASK, request, limits, size=size)
    failure, answer = msgspec.msgpack.decode(answered, type=tuple[tuple[str, str] | None, msgspec.Raw])
    if failure is not None:
        raise ReadError(failure[0], code=failure[1])
    result: Result = msgspec.msgpack.decode(
        answer, type=get_type_hints(function)["return"], dec_hook=_restore
    )
    return result


def handle_call(request: bytes) -> bytes:
    """Handle a request of :func:`call_limited`."""
    name, arguments = msgspec.msgpack.decode(request, type=tuple[str, msgspec.Raw])
    module, _, function_name = name.partition(":")
    function = getattr(importlib.import_module(module), function_name)
    *kinds, _ = get_type_hints(function).values()
    given = msgspec.msgpack.decode(arguments, type=GenericAlias(tuple, tuple(kinds)), dec_hook=_restore)
    failure, result = None, None
    try:
        result = function(*given)
    except ReadError as error:
        failure = str(error), error.code
    except RecursionError:
        failure = _TOO_DEEP, "nested_too_deeply"
    return msgspec.msgpack.encode((failure, result), enc_hook=_simplify)


def _simplify(value: object) -> object:
    if isinstance(value, pl.DataFrame):
        encoded = BytesIO()
        value.write_ipc_stream(encoded, compression="zstd")
        return encoded.getvalue()
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else os.fspath(value)  # type: ignore[call-overload]


def _restore(kind: type[Any], value: Any) -> object:
    if kind is pl.DataFrame:
        return pl.read_ipc_stream(value)
    return kind.model_validate(value) if issubclass(kind, BaseModel) else kind(value)
