"""A workspace that ran twice, so that it had an earlier snapshot, with posts and a line that nobody can read."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backstory.storage.state import close_idle
from tests.forms import Share, is_shared
from tests.workspaces import copy_made
from tests.world import describe, first_inputs, run, write_inputs

LATER_POST = (
    "---\ntitle: Frost\ndate: 2025-01-01\n---\n\n# Frost\n\nA frost that cracked the plastic elbow.\n"
)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two snapshots, which no test changes."""
    root = tmp_path_factory.mktemp("survival") / "workspace"
    inputs = first_inputs()
    inputs["chats/garden.txt"] += "31/02/2025, 10:00 - Ada Lind: no such day\n"
    inputs["backstory.yaml"] += "writers: {provider: digest}\n"
    write_inputs(root, inputs)
    assert run(root).success
    write_inputs(root, {**inputs, "posts/frost.md": LATER_POST})
    assert run(root).success
    close_idle()
    return root


@pytest.fixture(scope="session")
def expected(made: Path) -> dict[str, Any]:
    """What that workspace holds."""
    return describe(made)


@pytest.fixture
def root(made: Path, tmp_path: Path, share: Share) -> Iterator[Path]:
    """A copy of either form, of which the views are right."""
    copy = copy_made(made, tmp_path / "workspace").root
    share(copy)
    if is_shared(copy):
        assert run(copy).success
    yield copy
    shutil.rmtree(copy, ignore_errors=True)
