"""Every error names its cause by a code, beside its message."""

import pickle

import pytest

from backstory.base.errors import (
    BackstoryError,
    InputError,
    MissingExtraError,
    ReadError,
    SettingsError,
    WorkspaceError,
)
from tests.errors import raises


def list_errors(kind: type[BackstoryError] = BackstoryError) -> list[type[BackstoryError]]:
    below = kind.__subclasses__()
    return [*below, *(error for each in below for error in list_errors(each))]


def test_a_class_has_the_code_of_its_name() -> None:
    assert BackstoryError.code == "backstory"
    assert SettingsError.code == "settings"
    assert MissingExtraError("a").code == "missing_extra"
    assert ReadError.code == "read"
    codes = [kind.code for kind in list_errors() if kind.__module__ == "backstory.base.errors"]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    "kind", [kind for kind in list_errors() if kind.__module__ == "backstory.base.errors"]
)
def test_an_error_keeps_its_message_and_code_between_processes(kind: type[BackstoryError]) -> None:
    error = kind("a key is unknown", code="unknown_key")
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (type(each), str(each), each.code) == (kind, "a key is unknown", "unknown_key")
    assert kind("x").code == kind.code


def test_an_expected_error_is_compared_by_its_code_and_what_it_names() -> None:
    with raises(InputError, "too_long", 3):
        raise InputError("a is longer than 3", code="too_long")
    with raises(WorkspaceError):
        raise WorkspaceError("absent")


@pytest.mark.parametrize(
    "error",
    [InputError("a", code="too_long"), InputError("b"), ReadError("b")],
)
def test_an_error_of_another_code_or_name_is_not_the_expected_one(error: InputError) -> None:
    with pytest.raises(AssertionError), raises(InputError, "too_long", "b"):
        raise error


def test_a_block_without_the_expected_error_fails() -> None:
    with pytest.raises(pytest.fail.Exception), raises(InputError):
        pass
    with pytest.raises(KeyError), raises(InputError):
        raise KeyError("a")
