"""Files that are written while they are read."""

import hashlib
import io
import os
from pathlib import Path

import pytest

from backstory.base.files.steady import BLOCK_BYTES, ChangedFileError, SteadyFile

CONTENT = os.urandom(2 * BLOCK_BYTES + 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def overwrite(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([CONTENT[place] ^ 1]))


def test_what_is_read_is_what_is_hashed_in_any_order(path: Path) -> None:
    with path.open("rb") as file:
        steady = SteadyFile(file)
        buffered = io.BufferedReader(steady)
        assert buffered.seek(-10, os.SEEK_END) == len(CONTENT) - 10
        assert buffered.read() == CONTENT[-10:]
        buffered.seek(BLOCK_BYTES - 5)
        assert buffered.read(10) == CONTENT[BLOCK_BYTES - 5 : BLOCK_BYTES + 5]
        buffered.seek(0)
        assert buffered.read() == CONTENT
        assert steady.sha256() == hashlib.sha256(CONTENT).hexdigest()
        with pytest.raises(OSError, match="Invalid argument"):
            steady.seek(-1)


@pytest.mark.parametrize("content", [b"", b"a", CONTENT])
def test_a_file_that_nobody_reads_is_hashed_all_the_same(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with path.open("rb") as file:
        assert SteadyFile(file).sha256() == hashlib.sha256(content).hexdigest()


def test_a_part_that_is_read_again_must_be_as_it_was(path: Path) -> None:
    with path.open("rb") as file:
        steady = SteadyFile(file)
        steady.sha256()
        overwrite(path, 7)
        steady.seek(0)
        with pytest.raises(ChangedFileError):
            steady.read(10)
        assert steady.is_changed


def test_a_part_that_is_written_before_it_is_read_is_hashed_as_it_was_read(path: Path) -> None:
    with path.open("rb") as file:
        steady = SteadyFile(file)
        steady.read(10)
        overwrite(path, BLOCK_BYTES)
        assert steady.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()
        assert not steady.is_changed


def test_what_is_appended_is_not_seen_and_what_is_cut_off_is_missed(path: Path) -> None:
    with path.open("rb") as file:
        steady = SteadyFile(file)
        with path.open("ab") as more:
            more.write(b"more")
        assert io.BufferedReader(steady).read() == CONTENT
        assert steady.sha256() == hashlib.sha256(CONTENT).hexdigest()
    with path.open("rb") as file:
        steady = SteadyFile(file)
        os.truncate(path, 10)
        with pytest.raises(ChangedFileError):
            steady.sha256()
