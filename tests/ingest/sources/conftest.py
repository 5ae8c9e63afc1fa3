"""A server that plays Google Drive."""

from collections.abc import Iterator

import pytest

from tests.ingest.sources.drive_server import Drive, serve_drive


@pytest.fixture
def drive() -> Iterator[Drive]:
    with serve_drive() as drive:
        yield drive
