"""A worker that has published the small workspace, and others that begin on an empty folder."""

import shutil
from pathlib import Path

import pytest

from backstory.pipeline.workspace import Workspace, open_workspace
from tests.pipeline.sharing.workers import (
    SECRET,
    MakeWorker,
    publish_copy,
)


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


@pytest.fixture
def first(made_once: Path, tmp_path: Path, address: str) -> Workspace:
    """A worker that has published the small workspace."""
    return publish_copy(made_once, tmp_path / "first", address)


@pytest.fixture
def make_worker(first: Workspace, tmp_path: Path) -> MakeWorker:
    """Give a function that makes another worker, on an empty folder with the settings and the key."""

    def make(name: str = "second", settings: str | None = None, *, key: bool = True) -> Workspace:
        root = tmp_path / name
        (root / ".backstory").mkdir(parents=True)
        written = (first.root / "backstory.yaml").read_text(encoding="utf-8")
        (root / "backstory.yaml").write_text(settings or written, encoding="utf-8")
        if key:
            shutil.copy(first.root / SECRET, root / SECRET)
        return open_workspace(root)

    return make
