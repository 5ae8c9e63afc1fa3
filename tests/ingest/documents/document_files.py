"""Writes the files of a folder of documents, and tells what became of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from backstory.ingest.documents.files import DocumentFolder, make_rules
from backstory.ingest.documents.reader import DocumentRead, read_listed_documents
from backstory.settings.inputs import DocumentSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Sources

Write = Callable[[Mapping[str, str | bytes]], Path]


def make_writer(parent: Path) -> Write:
    """Make a folder of documents, and give a function that writes files into it and returns it."""
    folder = parent / "posts"
    folder.mkdir()
    return partial(_write_files, folder)


def _write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for uri, content in files.items():
        path = folder / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def read_documents(
    folder: Path,
    settings: DocumentSettings,
    previous: pl.DataFrame | None = None,
    *,
    previous_reading: str = "",
    apart: Sequence[Path] = (),
) -> DocumentRead:
    """Read every document of a folder, by the rules of the settings."""
    listing = DocumentFolder(folder, make_rules(settings)).list_all(apart)
    return read_listed_documents(listing, settings, previous, previous_reading=previous_reading)


def states(found: DocumentRead, below: str = "") -> dict[str, tuple[str, str | None]]:
    """Give status and reason of every file, by its path, or that below a folder or an archive."""
    rows = validate(found.sources, Sources).select("source", "status", "reason").rows()
    return {source.removeprefix(below): (status, reason) for source, status, reason in rows}
