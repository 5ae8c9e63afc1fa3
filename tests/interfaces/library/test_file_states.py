"""The states of all files, which follow the disk, and pictures of pages."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.base.errors import InputError, ReadError, StoppedError
from backstory.base.progress import listening
from backstory.ingest.documents.pages import draw_page
from backstory.interfaces.library.library import Library
from backstory.settings.inputs import DocumentSettings
from tests.errors import raises
from tests.ingest.documents.pdf_files import make_pdf, write_lines


def states(library: Library) -> dict[str, str]:
    return {file.uri: file.state for file in library.files()}


def age(path: Path) -> None:
    """Let a file seem old, so that what is read of it is remembered."""
    os.utime(path, (1_000_000_000, 1_000_000_000))


def test_files_wait_until_they_are_read_and_searched(make_library: Callable[..., Library]) -> None:
    library = make_library()
    assert set(states(library).values()) == {"pending"}

    def stop(step: str, done: int, total: int) -> None:  # noqa: ARG001
        if step == "embedding documents":
            raise StoppedError("enough; go on later")

    with listening(stop):
        library.index()
    assert set(states(library).values()) == {"pending"}
    library.index()
    assert set(states(library).values()) == {"read"}


def test_a_file_is_found_changed_though_its_size_and_time_are_the_same(library: Library) -> None:
    post = library.workspace.documents_dir / "unrelated.md"
    content = post.read_text(encoding="utf-8")
    age(post)
    assert states(library)["unrelated.md"] == "read"
    post.write_text(content.replace("lamp", "fire"), encoding="utf-8")
    age(post)
    assert states(library)["unrelated.md"] == "pending"
    post.write_text(content, encoding="utf-8")
    assert states(library)["unrelated.md"] == "read"


def test_a_changed_member_of_an_archive_waits_alone_and_can_be_excluded(library: Library) -> None:
    packed = library.workspace.documents_dir / "pack.zip"

    def pack(lamp: str) -> None:
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("lamp.md", f"# Lamp\n\n{lamp}\n")
            archive.writestr("moth.md", "# Moth\n\nA moth.\n")

    pack("A lamp.")
    library.index()
    assert states(library)["pack.zip/lamp.md"] == "read"
    pack("Another lamp.")
    assert (states(library)["pack.zip/lamp.md"], states(library)["pack.zip/moth.md"]) == ("pending", "read")
    library.index()
    library.remove("pack.zip/lamp.md")
    assert (states(library)["pack.zip/lamp.md"], states(library)["pack.zip/moth.md"]) == ("skipped", "read")
    assert packed.exists()


def test_a_page_is_drawn_and_a_damaged_file_is_named(library: Library) -> None:
    content = make_pdf([write_lines("The first page"), write_lines("The second page")])
    (library.workspace.documents_dir / "paper.pdf").write_bytes(content)
    library.index()
    first, second = library.page_picture("paper.pdf", 1), library.page_picture("paper.pdf", 2)
    assert first != second
    # The header of a PNG holds width and height: a page of 8.5 by 11 inches at 110 dots per inch.
    assert (int.from_bytes(first[16:20]), int.from_bytes(first[20:24])) == (935, 1210)
    for page in (0, 3):
        with raises(InputError, "unknown_page"):
            library.page_picture("paper.pdf", page)
    with raises(InputError, "unknown_page"):
        library.page_picture("sourdough.md", 1)
    with raises(ReadError, "damaged_file"):
        draw_page(content[:200], 1, DocumentSettings())
    with raises(ReadError, "damaged_file"):
        draw_page(content, 3, DocumentSettings())


@pytest.mark.parametrize("size", [20_000, 200_000])
def test_a_picture_of_a_huge_page_stays_small(size: int) -> None:
    content = make_pdf([write_lines("Large")], box=(0, 0, size, size))
    picture = draw_page(content, 1, DocumentSettings())
    assert int.from_bytes(picture[16:20]) * int.from_bytes(picture[20:24]) <= 4_100_000
