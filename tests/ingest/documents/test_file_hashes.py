"""Which files are taken for unchanged without being read."""

import hashlib
import os
import time
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.md"
    path.write_text("text", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take files for settled that were just written."""
    monkeypatch.setattr(files, "SETTLED_SECONDS", -3600.0)


def remember(catalog: Catalog, *paths: Path) -> None:
    hashes = FileHashes(catalog)
    for path in paths:
        hashes.hash(list_file(path))
    hashes.save()


def list_file(path: Path) -> ListedFile:
    return ListedFile(path.name, path, path.parent.resolve())


def hash_again(catalog: Catalog, path: Path) -> tuple[str, int]:
    """Give the hash of a file, and how many files were read for it."""
    hashes = FileHashes(catalog)
    return hashes.hash(list_file(path)), 1 - hashes.unchanged


def test_an_unchanged_file_is_not_read_again(path: Path, catalog: Catalog) -> None:
    remember(catalog, path)
    assert hash_again(catalog, path) == (hashlib.sha256(b"text").hexdigest(), 0)


def test_a_file_that_was_just_written_is_read_each_time(
    path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SETTLED_SECONDS", 60.0)
    remember(catalog, path)
    assert hash_again(catalog, path)[1] == 1


def test_an_edit_that_keeps_size_and_time_of_change_is_noticed(path: Path, catalog: Catalog) -> None:
    state = path.stat()
    remember(catalog, path)
    deadline = time.monotonic() + 600
    while path.stat().st_ctime_ns == state.st_ctime_ns:  # the system keeps its time in steps of milliseconds
        path.write_text("TEXT", encoding="utf-8")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert time.monotonic() < deadline
    assert path.stat().st_mtime_ns == state.st_mtime_ns
    assert hash_again(catalog, path) == (hashlib.sha256(b"TEXT").hexdigest(), 1)


def test_a_file_in_the_place_of_another_is_read(path: Path, catalog: Catalog) -> None:
    other = path.with_name("b.md")
    other.write_text("TEXT", encoding="utf-8")
    remember(catalog, path, other)
    other.replace(path)
    assert hash_again(catalog, path) == (hashlib.sha256(b"TEXT").hexdigest(), 1)


def test_a_link_is_read_each_time(path: Path, catalog: Catalog) -> None:
    link = path.with_name("link.md")
    link.symlink_to(path)
    remember(catalog, link)
    assert hash_again(catalog, link)[1] == 1


def test_a_file_that_is_gone_is_forgotten(path: Path, catalog: Catalog) -> None:
    other = path.with_name("b.md")
    other.write_text("text", encoding="utf-8")
    remember(catalog, path, other)
    assert len(catalog.read("document_files")) == 2
    remember(catalog, path)
    assert len(catalog.read("document_files")) == 1
