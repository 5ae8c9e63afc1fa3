"""Files that are written while they are read."""

import hashlib
import os
from pathlib import Path

import pytest

from backstory.base.files.safe_open import ChangedFileError, hash_unchanged, require_unchanged, state_of


def test_what_stays_as_it_is_is_hashed_as_a_whole_wherever_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b"a", os.urandom(100_000)):
        path.write_bytes(content)
        with path.open("rb") as file:
            before = state_of(file)
            file.seek(7)
            file.read(10)
            assert hash_unchanged(file, before) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("mode", ["append", "cut", "overwrite"])
def test_what_is_written_meanwhile_is_noticed(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    os.utime(path, ns=(0, 0))
    with path.open("rb") as file:
        before = state_of(file)
        file.read(3)
        require_unchanged(file, before)
        match mode:
            case "append":
                path.write_bytes(b"content and more")
            case "cut":
                os.truncate(path, 2)
            case _:
                path.write_bytes(b"CONTENT")
        with pytest.raises(ChangedFileError):
            require_unchanged(file, before)
        with pytest.raises(ChangedFileError):
            hash_unchanged(file, before)
