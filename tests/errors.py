"""Expects an error of the library by its class, its code and what its message names, in whatever words."""

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

    def __init__(self, kind: type[Error], code: str, named: tuple[object, ...]) -> None:
        self._kind = kind
        self._code = code
        self._named = named

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
        assert not _find_unnamed(error, self._named), repr(error)
        self.value = error
        return True


def _find_unnamed(error: Exception, named: tuple[object, ...]) -> list[object]:
    """Return what a message does not name, quoted or not; None stands for nothing."""
    said = str(error)
    return [each for each in named if each is not None and str(each) not in said and repr(each) not in said]


def raises(kind: type[Error], code: str | None = None, /, *named: object) -> Raised[Error]:
    """Expect an error, as ``pytest.raises`` does.

    Args:
        kind: Its class.
        code: Its code; by default that of the class.
        named: What its message must name, such as a path or a setting.

    Returns:
        A context manager that fails without such an error, and then holds it.
    """
    return Raised(kind, code or kind.code, named)


@contextmanager
def refuses(code: str, /, *named: object) -> Iterator[None]:
    """Expect a model of the settings to refuse what it is given.

    Args:
        code: The code of an error that one of its validators raises.
        named: What its message must name.
    """
    with pytest.raises(ValidationError) as raised:
        yield
    causes = [problem.get("ctx", {}).get("error") for problem in raised.value.errors()]
    errors = [cause for cause in causes if isinstance(cause, SettingsError) and cause.code == code]
    assert errors, raised.value
    assert any(not _find_unnamed(error, named) for error in errors), errors
