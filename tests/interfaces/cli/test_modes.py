"""Who may read a workspace, by the modes of its folders."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from backstory.operations.inspection.doctor import examine
from backstory.settings.paths import init_workspace

NAME = "workspace closed to others"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def finding(root: Path) -> tuple[bool, str]:
    return next((found.passed, found.detail) for found in examine(root) if found.name == NAME)


@pytest.mark.parametrize(("mask", "mode"), [(0o000, 0o700), (0o022, 0o700), (0o077, 0o700), (0o277, 0o500)])
def test_a_new_workspace_is_its_owners_and_a_stricter_umask_is_honoured(
    tmp_path: Path, mask: int, mode: int
) -> None:
    root = tmp_path / "garden"
    with umask(mask):
        if mode & 0o200 or os.geteuid() == 0:
            init_workspace(root)
        else:
            pytest.skip("an ordinary user cannot write into a folder of mode 0500")
    assert root.stat().st_mode & 0o777 == mode


def test_another_user_reads_nothing_below_a_new_workspace(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with umask(0):
        root = init_workspace(open_folder / "garden")
    message = root / "chats" / "garden.txt"
    message.write_text("hello", encoding="utf-8")
    message.chmod(0o666)
    with shut(root, 0o700), pytest.raises(PermissionError):
        message.read_text(encoding="utf-8")


def test_doctor_says_that_a_workspace_is_open_to_everyone(open_folder: Path) -> None:
    root = init_workspace(open_folder / "garden")
    assert finding(root) == (True, f"no user but the owner reaches {root}")
    root.chmod(0o750)
    assert finding(root) == (True, f"no user but the owner and the group reaches {root}")
    root.chmod(0o755)
    passed, detail = finding(root)
    assert not passed
    assert detail.endswith(f"run `chmod o-rwx {root}`")
    open_folder.chmod(0o700)
    assert finding(root)[0]
