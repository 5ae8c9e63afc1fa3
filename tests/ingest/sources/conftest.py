"""A server that plays Google Drive, and workspaces with sources."""

from collections.abc import Callable, Iterator

import pytest

from backstory.pipeline.workspace import Workspace
from tests.ingest.sources.drive_server import Drive, serve_drive
from tests.workspaces import SETTINGS


@pytest.fixture
def drive() -> Iterator[Drive]:
    with serve_drive() as drive:
        yield drive


@pytest.fixture
def with_sources(make_workspace: Callable[..., Workspace]) -> Callable[..., Workspace]:
    """Give a function that makes a workspace whose settings name these sources, each as YAML or a dictionary."""
    return lambda *sources: make_workspace(
        f"{SETTINGS}documents: {{sources: [{', '.join(map(str, sources))}]}}\n"
    )
