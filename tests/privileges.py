"""A folder that everyone may enter, and tests as an ordinary user: root may read and write everything."""

import os
import tempfile
import traceback
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


def run_forked(act: Callable[[], None], user: int = 0) -> None:
    """Do something in a copy of this process, as another user if one is given, and expect that it raises nothing."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if user:
                os.setuid(user)
            act()
            code = 0
        except BaseException:  # noqa: BLE001 - told, and an error of the child
            traceback.print_exc()
        finally:
            os._exit(code)  # a copy that went on would run the other tests, too
    assert os.waitpid(child, 0)[1] == 0
