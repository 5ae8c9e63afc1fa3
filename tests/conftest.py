"""How all tests are collected."""

import gc
import os
import sys
from collections.abc import Generator

import pytest

from tests.long_tests import LONG_TESTS

# In a run of all tests, the process that shows what the workers report runs none, and imports nothing for them.
_RUNS_TESTS = "PYTEST_XDIST_WORKER" in os.environ or "tests.files_in_turn" not in sys.modules
_PLUGINS = (
    "environment",
    "privileges",
    "postgres",
    "workspaces",
    "bucket",
    "forms",
    "models.services.chat_server",
)
pytest_plugins = [f"tests.{name}" for name in _PLUGINS] if _RUNS_TESTS else []

# Consoles take their width from here when they are made, which is when a test first imports them.
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)

# What pytest rewrites, and what the commands under test import, is compiled once: it is half of the collection.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the tests that are collected: there is none, and it takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that take long, unless asked for."""
    if not LONG_TESTS:
        skip = pytest.mark.skip(reason="takes long; `make test-long` runs it")
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(skip)
