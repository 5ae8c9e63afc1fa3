"""A workspace that ran twice, so that it has an earlier snapshot."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forms import Share
from tests.world import first_inputs, run, write_inputs

LATER_POST = (
    "---\ntitle: Frost\ndate: 2025-01-01\n---\n\n# Frost\n\nA frost that cracked the plastic elbow.\n"
)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two snapshots, which no test changes."""
    root = tmp_path_factory.mktemp("survival") / "workspace"
    write_inputs(root, first_inputs())
    assert run(root).success
    (root / "posts" / "frost.md").write_text(LATER_POST, encoding="utf-8")
    assert run(root).success
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path, share: Share) -> Iterator[Path]:
    """A copy of either form, of which the views are right."""
    copy = tmp_path / "workspace"
    shutil.copytree(made, copy)
    share(copy)
    assert run(copy).success
    yield copy
    shutil.rmtree(copy, ignore_errors=True)


def flip(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
