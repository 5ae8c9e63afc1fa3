"""Runs on a disk that becomes full: they say so, leave what was there whole, and continue when there is space."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import StateError
from backstory.index.search import open_index
from backstory.pipeline.workspace import open_workspace
from backstory.storage.state import close_idle
from backstory.storage.tables.schemas import TABLES
from tests.forms import Share
from tests.pipeline.workspace_states import describe, find_leftovers, first_inputs, run, write_inputs

ROOT = Path(__file__).resolve().parents[2]
_PLENTY = 50_000
_SENTENCE = "is full"


class Disk:
    """A disk in memory whose size can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, kilobytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", self.folder], check=True)

    @property
    def used(self) -> int:
        return shutil.disk_usage(self.folder).used // 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_PLENTY}k,mode=700", "none", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk can be mounted here, which needs root: {error}")
    yield Disk(folder)
    close_idle()
    subprocess.run(["umount", folder], check=True)


def attempt(root: Path) -> str:
    """Run, and give the sentence by which it failed, or an empty string."""
    try:
        return " ".join(run(root).failures)
    except StateError as error:
        return str(error)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, made: Path) -> dict[str, dict[str, Any]]:
    """What a first run and a later one leave on a disk with enough space."""
    first = tmp_path_factory.mktemp("expected") / "first"
    write_inputs(first, first_inputs())
    assert run(first).success
    later = first.with_name("later")
    shutil.copytree(made, later)
    edit(later)
    assert run(later).success
    return {"first": describe(first), "later": describe(later)}


def edit(root: Path) -> None:
    with (root / "chats" / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write("16/03/2025, 08:00 - Ada Lind: The frost came to the moths\n")
    post = root / "posts" / "frost.md"
    post.write_text(post.read_text(encoding="utf-8") + "\nAnd the moths.\n", encoding="utf-8")


@pytest.mark.parametrize("part", [pytest.param(0.2, marks=pytest.mark.long), 0.7])
def test_a_first_run_continues_when_there_is_space(
    disk: Disk, expected: Any, part: float, share: Share
) -> None:
    root = disk.folder / "workspace"
    share(root)
    write_inputs(root, first_inputs())
    disk.resize(disk.used + int(1400 * part))
    assert _SENTENCE in attempt(root)
    assert find_leftovers(root) == []
    disk.resize(_PLENTY)
    assert attempt(root) == ""
    assert describe(root) == expected["first"]
    assert run(root).fresh


@pytest.mark.parametrize("kilobytes", [0, pytest.param(200, marks=pytest.mark.long)])
def test_a_later_run_leaves_what_was_there_readable(
    disk: Disk, made: Path, expected: Any, kilobytes: int, share: Share
) -> None:
    root = disk.folder / "workspace"
    shutil.copytree(made, root)
    share(root)
    assert run(root).success
    edit(root)
    disk.resize(disk.used + kilobytes)
    assert _SENTENCE in attempt(root)
    assert find_leftovers(root) == []
    workspace = open_workspace(root)
    for table in TABLES:
        workspace.tables.read(table)  # each file with the checksum that its name holds
    open_index(workspace.index).close()  # each file with the checksum of the manifest
    disk.resize(_PLENTY)
    assert attempt(root) == ""
    assert describe(root) == expected["later"]
    assert run(root).fresh


def test_a_limit_of_file_sizes_is_told_in_a_sentence(tmp_path: Path, share: Share) -> None:
    """As a quota does, in a real process; this one needs no root."""
    root = tmp_path / "workspace"
    share(root)
    write_inputs(root, first_inputs())
    limit = 20_000
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "from backstory.interfaces.cli.app import main; main()",
            "run",
            "--workspace",
            str(root),
        ],
        cwd=ROOT,
        # Python 3.11 leaves half of a compiled file where the limit is reached, and cannot import it afterwards.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ended.returncode == 1
    assert _SENTENCE in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert find_leftovers(root) == []
    assert run(root).success
