"""What is opened is a regular file in the root, whatever becomes of the names meanwhile."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import open_inside
from backstory.ingest.walk import ListedFile
from tests.errors import raises


def read(root: Path, name: str, *, size: int = -1, most_bytes: int | None = None) -> bytes:
    return ListedFile(name, root / name, root).read(size, most_bytes=most_bytes)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "root" / "inner" / "a.md").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_bytes(b"outside")
    return (tmp_path / "root").resolve()


def test_files_and_links_to_files_inside_are_opened(root: Path) -> None:
    (root / "link.md").symlink_to("inner/a.md")
    (root / "folder").symlink_to("inner")
    assert {read(root, name) for name in ("inner/a.md", "link.md", "folder/a.md")} == {b"inside"}


@pytest.mark.parametrize("name", ["link.md", "folder/a.md", "inner/../../outside/a.md"])
def test_nothing_outside_is_opened(root: Path, name: str) -> None:
    (root / "link.md").symlink_to("../outside/a.md")
    (root / "folder").symlink_to("../outside")
    with raises(ReadError, "outside_link"):
        read(root, name)


def test_only_regular_files_are_opened(root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    (root / "circle.md").symlink_to("circle.md")
    (root / "broken.md").symlink_to("nothing.md")
    (root / "folder.md").mkdir()
    for name in ("pipe.md", "circle.md", "broken.md", "folder.md"):
        with raises(ReadError, "no_file"):
            read(root, name)
    with raises(ReadError, "gone_file"):
        read(root, "absent.md")


def test_a_file_above_the_limit_is_not_opened(root: Path) -> None:
    assert read(root, "inner/a.md", most_bytes=6) == b"inside"
    with raises(ReadError, "too_large"):
        read(root, "inner/a.md", most_bytes=5)
    os.truncate(root / "inner" / "a.md", 1 << 40)
    with raises(ReadError, "too_large"):
        read(root, "inner/a.md", size=1)


@pytest.mark.parametrize("swapped", ["inner", "inner/a.md"])
def test_a_link_put_there_after_the_path_was_resolved_is_not_followed(
    root: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = os.path.realpath

    def resolve_and_swap(path: Path) -> str:
        resolved = resolve(path)
        (root / swapped).rename(root / "moved")
        (root / swapped).symlink_to(root.parent / "outside" / Path(swapped).relative_to("inner"))
        return resolved

    monkeypatch.setattr("backstory.base.files.safe_open.os.path.realpath", resolve_and_swap)
    with pytest.raises(ReadError) as raised:
        read(root, "inner/a.md")
    assert raised.value.code in {"unreadable_file", "no_file"}


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_takes_the_place_of_a_file_after_the_look_at_it_is_closed_again(
    root: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_before = os.open

    def swap_and_open(name: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        if name == "a.md":
            (root / name).unlink()
            make(root / name)
        return open_before(name, flags, dir_fd=dir_fd)

    (root / "a.md").write_bytes(b"inside")
    descriptors = sorted(Path("/dev/fd").iterdir())
    with monkeypatch.context() as patched:
        patched.setattr("backstory.base.files.safe_open.os.open", swap_and_open)
        with raises(ReadError, "no_file"), open_inside(root, root / "a.md"):
            pass
    assert sorted(Path("/dev/fd").iterdir()) == descriptors


def test_while_links_come_and_go_nothing_outside_is_ever_read(root: Path) -> None:
    """Another thread exchanges a folder and a link out of the root, as fast as it can."""
    (root / "link").symlink_to("../outside")
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():
            (root / "inner").rename(root / "aside")
            (root / "link").rename(root / "inner")
            (root / "inner").rename(root / "link")
            (root / "aside").rename(root / "inner")

    other = threading.Thread(target=exchange)
    other.start()
    found: set[bytes] = set()
    try:
        for _ in range(3000):
            with suppress(ReadError):
                found.add(read(root, "inner/a.md"))
    finally:
        done.set()
        other.join()
    assert found == {b"inside"}
