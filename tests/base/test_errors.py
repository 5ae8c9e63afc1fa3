"""Every error names its cause by a code and by values, beside its message."""

import pickle
from pathlib import Path

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
def test_an_error_keeps_its_message_code_and_values_between_processes(kind: type[BackstoryError]) -> None:
    error = kind("a key is unknown", code="unknown_key", path=Path("a.yaml"), line=3)
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (type(each), str(each), each.code) == (kind, "a key is unknown", "unknown_key")
        assert each.values == {"path": Path("a.yaml"), "line": 3}
    assert (kind("x").code, kind("x").values) == (kind.code, {})


def test_an_expected_error_is_compared_by_code_and_values() -> None:
    with raises(InputError, "too_long", name="a") as raised:
        raise InputError("a is too long", code="too_long", name="a", limit=3)
    assert raised.value.values["limit"] == 3
    with raises(WorkspaceError):
        raise WorkspaceError("absent")


@pytest.mark.parametrize(
    "error",
    [
        InputError("a", code="too_long", name="b"),
        InputError("a", code="too_long"),
        InputError("a", name="a"),
        ReadError("a", name="a"),
    ],
)
def test_an_error_of_another_code_or_value_is_not_the_expected_one(error: InputError) -> None:
    with pytest.raises(AssertionError), raises(InputError, "too_long", name="a"):
        raise error


def test_a_block_without_the_expected_error_fails() -> None:
    with pytest.raises(pytest.fail.Exception), raises(InputError):
        pass
    with pytest.raises(KeyError), raises(InputError):
        raise KeyError("a")
