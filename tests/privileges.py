"""A folder that everyone may enter, and tests as an ordinary user: root may read and write everything."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

NOBODY = 65_534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give an empty folder that does not lie below one of root's own, as ``tmp_path`` does."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture
def shut() -> Callable[[Path, int], AbstractContextManager[None]]:
    """Give a function that takes permissions from a file or a folder, and the privileges of root from the test."""

    @contextmanager
    def shut_path(path: Path, mode: int) -> Iterator[None]:
        before, user = path.stat().st_mode, os.geteuid()
        path.chmod(mode)
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(user)
            path.chmod(before)

    return shut_path
