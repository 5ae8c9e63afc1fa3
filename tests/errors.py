"""Expects an error of the library by its class, its code and its values, whatever its message says."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Generic, TypeVar

import pytest
from pydantic import ValidationError

from backstory.base.errors import BackstoryError, SettingsError

Error = TypeVar("Error", bound=BackstoryError)


class Raised(Generic[Error]):
    """Expects an error within its block, and holds it afterwards.

    Attributes:
        value: The error, after the block.
    """

    value: Error

    def __init__(self, kind: type[Error], code: str, values: dict[str, object]) -> None:
        self._kind = kind
        self._code = code
        self._values = values

    def __enter__(self) -> "Raised[Error]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            pytest.fail(f"no {self._kind.__name__} was raised")
        if not isinstance(error, self._kind):
            return False
        assert error.code == self._code, repr(error)
        assert {name: error.values.get(name) for name in self._values} == self._values, repr(error)
        self.value = error
        return True


def raises(kind: type[Error], code: str | None = None, /, **values: object) -> Raised[Error]:
    """Expect an error, as ``pytest.raises`` does.

    Args:
        kind: Its class.
        code: Its code; by default that of the class.
        values: Those of its values that matter, which must be equal.

    Returns:
        A context manager that fails without such an error, and then holds it.
    """
    return Raised(kind, code or kind.code, values)


@contextmanager
def refuses(code: str, /, **values: object) -> Iterator[None]:
    """Expect a model of the settings to refuse what it is given.

    Args:
        code: The code of an error that one of its validators raises.
        values: Those of the error's values that matter, which must be equal.
    """
    with pytest.raises(ValidationError) as raised:
        yield
    causes = [problem.get("ctx", {}).get("error") for problem in raised.value.errors()]
    errors = [cause for cause in causes if isinstance(cause, SettingsError) and cause.code == code]
    assert errors, raised.value
    assert any(error.values.items() >= values.items() for error in errors), errors
