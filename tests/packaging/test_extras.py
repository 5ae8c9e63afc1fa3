"""The extras are those of the package, and their absence is told by their name."""

import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from backstory.base import extras
from backstory.base.errors import MissingExtraError
from backstory.base.extras import MODULES, Extra, is_installed, require_extra
from tests.errors import raises

ROOT = Path(__file__).resolve().parents[2]


def declared() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def test_the_extras_are_those_of_the_package() -> None:
    assert sorted(MODULES) == sorted(declared())


@pytest.mark.parametrize(
    "extra", ["dagster", "drive", "gemini", "ibis", "mcp", "office", "otel", "remote", "serve"]
)
def test_the_modules_of_an_extra_come_from_its_requirements(extra: Extra) -> None:
    required = {canonicalize_name(Requirement(line).name) for line in declared()[extra]}
    providers = packages_distributions()
    for module in MODULES[extra]:
        assert required & {canonicalize_name(name) for name in providers[module.split(".")[0]]}
    assert is_installed(extra)
    require_extra(extra, "Nothing", "do nothing")


@pytest.mark.parametrize("absent", ["google", "google.genai"])
def test_an_absent_module_is_told_with_the_extra_to_install(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [name for name in sys.modules if name == absent or name.startswith(f"{absent}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.setattr(extras, "_can_be_found", extras._can_be_found.__wrapped__)
    assert not is_installed("gemini")
    with raises(MissingExtraError):
        require_extra("gemini", "Embedding by Gemini", "use a local model")
