"""Which files are taken for unchanged without being read."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.ingest.documents import files
from backstory.ingest.documents.files import FileHashes
from backstory.ingest.walk import ListedFile
from backstory.storage.tables.catalog import Catalog
from tests.workspaces import open_tables


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return open_tables(tmp_path / "tables").catalog


def hash_all(catalog: Catalog, *paths: Path) -> tuple[list[str], int]:
    """Give the hashes of files, store them, and give how many files were read for them."""
    hashes = FileHashes(catalog)
    found = [hashes.hash(ListedFile(path.name, path, path.parent.resolve())) for path in paths]
    hashes.save()
    return found, len(paths) - hashes.unchanged


def edit_unseen(path: Path) -> None:
    """Write another text of the same size, and set the time of its change back."""
    state = path.stat()
    deadline = time.monotonic() + 600
    while path.stat().st_ctime_ns == state.st_ctime_ns:  # the system keeps its time in steps of milliseconds
        path.write_text("TEXT", encoding="utf-8")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert time.monotonic() < deadline
    assert path.stat().st_mtime_ns == state.st_mtime_ns


def replace(path: Path) -> None:
    other = path.with_name("b.md")
    other.write_text("TEXT", encoding="utf-8")
    other.replace(path)


def link(path: Path) -> None:
    path.rename(path.with_name("b.md"))
    path.symlink_to("b.md")
    hash_all(open_tables(path.parent / "tables").catalog, path)


@pytest.mark.parametrize(
    ("change", "text", "read"),
    [
        (lambda _: None, "text", 0),
        (edit_unseen, "TEXT", 1),
        (replace, "TEXT", 1),
        (link, "text", 1),
    ],
    ids=["nothing", "edit that keeps size and time", "another file in its place", "link, read each time"],
)
def test_a_file_is_read_again_where_it_may_have_changed(
    tmp_path: Path,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    text: str,
    read: int,
) -> None:
    monkeypatch.setattr(files, "SETTLED_SECONDS", -3600.0)
    path = tmp_path / "a.md"
    path.write_text("text", encoding="utf-8")
    assert hash_all(catalog, path)[1] == 1
    change(path)
    assert hash_all(catalog, path) == ([hashlib.sha256(text.encode()).hexdigest()], read)


def test_only_files_that_are_settled_and_still_there_are_remembered(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "a.md", tmp_path / "b.md"]
    for path in paths:
        path.write_text("text", encoding="utf-8")
    for seconds, asked, remembered in ((60.0, paths, 0), (-3600.0, paths, 2), (-3600.0, paths[:1], 1)):
        monkeypatch.setattr(files, "SETTLED_SECONDS", seconds)
        hash_all(catalog, *asked)
        assert len(catalog.read("document_files")) == remembered
