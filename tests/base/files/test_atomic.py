"""Locks between holders of one file. That files are replaced at once is tested with the tables that are."""

import subprocess
import sys
from pathlib import Path

import pytest

from backstory.base.files.atomic import exclusive_temporary, lock, publish, temporary_path

HOLDER = """
import sys
from backstory.base.files.atomic import lock

with open(sys.argv[1]) as file:
    print(lock(file, shared=True), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("length", [4, 250, 251, 255])
def test_a_file_of_any_name_is_replaced(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("n" * length)
    with exclusive_temporary(path) as file:
        file.write(b"content")
        file.flush()
        publish(temporary_path(path), path)
    assert path.read_bytes() == b"content"
    assert [*tmp_path.iterdir()] == [path]


def test_a_shared_lock_of_another_process_ends_when_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    command = [sys.executable, "-c", HOLDER, str(path)]
    with (
        path.open() as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not lock(file, wait=False)
        assert lock(file, shared=True, wait=False)
        holder.kill()
        assert lock(file)


def test_two_openings_in_one_process_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with path.open() as first, path.open() as second:
        assert lock(first)
        assert not lock(second, wait=False)
        assert not lock(second, shared=True, wait=False)
        first.close()
        assert lock(second, wait=False)
