"""A community after its first run, and after it has learned."""

from pathlib import Path

import pytest

from backstory.operations.learn import learn
from backstory.pipeline.workspace import Workspace
from tests.builders.communities import DAYS, write_community
from tests.workspaces import copy_made
from tests.world import run, write_inputs


@pytest.fixture(scope="session")
def community_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("community") / "workspace"
    write_inputs(root, write_community(DAYS))
    run(root)
    return root


@pytest.fixture(scope="session")
def learned_once(community_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The community after it has learned, and before the next run."""
    workspace = copy_made(community_once, tmp_path_factory.mktemp("learned") / "workspace")
    learn(workspace)
    return workspace.root


@pytest.fixture
def community(community_once: Path, tmp_path: Path) -> Workspace:
    return copy_made(community_once, tmp_path / "community")


@pytest.fixture
def learned(learned_once: Path, tmp_path: Path) -> Workspace:
    return copy_made(learned_once, tmp_path / "learned")
