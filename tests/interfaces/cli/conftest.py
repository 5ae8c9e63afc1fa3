"""A workspace of two messages and two posts."""

from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.pipeline.workspace import open_workspace
from tests.interfaces.cli.invocation import run
from tests.workspaces import copy_made

CHAT = """\
13/03/2025, 09:01 - Ada Lind: The drip irrigation line broke again
13/03/2025, 09:02 - Ben Okri: My backup disk makes a clicking noise
"""
POSTS = {"irrigation": "The drip irrigation line and its elbow.", "disk": "A clicking backup disk."}


def write(folder: Path) -> Path:
    run("init", str(folder))
    (folder / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    (folder / "chats" / "garden.txt").write_text(CHAT, encoding="utf-8")
    for name, text in POSTS.items():
        (folder / "posts" / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", encoding="utf-8")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "workspace")


@pytest.fixture(scope="session")
def small_made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace after its first run, which no test changes."""
    folder = write(tmp_path_factory.mktemp("small-made-once") / "workspace")
    run_pipeline(open_workspace(folder))
    return folder


@pytest.fixture
def made(small_made_once: Path, tmp_path: Path) -> Path:
    return copy_made(small_made_once, tmp_path / "workspace").root
