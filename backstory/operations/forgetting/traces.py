"""Searches every file of a workspace, the posts among them, for leftovers of forgotten texts and ids."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from backstory.base.environment import SETTINGS_FILE
from backstory.base.ids import WRITTEN_PREFIX
from backstory.ingest.documents.written import DRAFT_SUFFIX
from backstory.ingest.sources.roots import list_sources
from backstory.pipeline.incremental.document_fingerprint import list_post_folders
from backstory.pipeline.workspace import Workspace
from backstory.storage.state_sqlite import is_database, is_shared_memory, read_stored, read_texts
from backstory.writing.post_files import inspect_file

_BYTES_AT_ONCE: Final = 1 << 23
_SQLITE: Final = b"SQLite format 3\0"
_PARQUET: Final = b"PAR1"


@dataclass(frozen=True)
class Wanted:
    """The texts and ids to search for.

    Attributes:
        parts: Texts and ids that must not occur anywhere, not even inside longer text.
        conversations: Ids that must not occur in a column ``conversation_id``, but may occur as words elsewhere.
    """

    parts: frozenset[str]
    conversations: frozenset[str]


@dataclass(frozen=True)
class Search:
    """Result of a search.

    Attributes:
        files: Number of files.
        cells: Number of decoded cells of tables and databases.
        found: Files that still hold a searched text or id, relative to the workspace, with what was found.
    """

    files: int
    cells: int
    found: dict[str, list[str]]


def search_workspace(workspace: Workspace, wanted: Wanted, apart: Collection[Path] = ()) -> Search:
    """Search every file of a workspace except the user's exports, documents and settings.

    The bytes of every file are searched for each text, plain and JSON-escaped. In Parquet files and in SQLite
    databases, every decoded cell is searched too.

    Args:
        workspace: An open workspace.
        wanted: What to search for.
        apart: Files of people in other folders, which are not searched.

    Returns:
        What was searched and found.
    """
    found: dict[str, list[str]] = {}
    files = cells = 0
    patterns = _as_written(wanted.parts)
    left_out = set(apart)
    for path in _list_made(workspace):
        if path in left_out:
            continue
        files += 1
        with _open_bytes(path) as file:
            hits = set(_search_bytes(file, patterns))
            file.seek(0)
            head = file.read(len(_SQLITE))
        for column in _read_cells(path, head):
            cells += len(column)
            hits |= _search_cells(column, wanted)
        if hits:
            found[path.relative_to(workspace.root).as_posix()] = sorted(hits)
    return Search(files, cells, found)


def search_file(path: Path, wanted: Wanted) -> bool:
    """Return whether the bytes of a file hold one of the texts or ids."""
    with _open_bytes(path) as file:
        return any(True for _ in _search_bytes(file, _as_written(wanted.parts)))


def _list_made(workspace: Workspace) -> Iterator[Path]:
    made = (
        workspace.tables_dir,
        workspace.index,
        workspace.secret.parent,
        workspace.dagster_home,
        workspace.posts_dir,
    )
    inputs = (
        workspace.chats_dir,
        workspace.documents_dir,
        *(source.root for source in list_sources(workspace)),
    )
    for place, _, names in os.walk(workspace.root):
        folder = Path(place)
        is_made = any(folder.is_relative_to(one) for one in made)
        is_input = any(folder.is_relative_to(one) for one in inputs)
        for name in sorted(names):
            path = folder / name
            if path in (workspace.root / SETTINGS_FILE, *inputs):
                continue
            if path.is_file() and (is_made or not is_input) and not is_shared_memory(path):
                yield path


def _as_written(parts: Iterable[str]) -> dict[str, str]:
    """Return the ways to write each text into a file, byte by byte, with the text."""
    patterns: dict[str, str] = {}
    for part in parts:
        escaped = json.dumps(part)[1:-1]
        for written in (part, json.dumps(part, ensure_ascii=False)[1:-1], escaped, json.dumps(escaped)[1:-1]):
            patterns[written.encode("utf-8", "surrogatepass").decode("latin-1")] = part
    return patterns


def _open_bytes(path: Path) -> BinaryIO:
    """Open a file, or the content of a database on the disk, which SQLite reads."""
    # No connection can use a damaged one, so that none holds a lock on it.
    stored = read_stored(path) if is_database(path) else None
    return path.open("rb") if stored is None else BytesIO(stored)


def _search_bytes(file: BinaryIO, patterns: dict[str, str]) -> Iterator[str]:
    if not patterns:
        return
    written = list(patterns)
    longest = max(map(len, written))
    before = b""
    while block := file.read(_BYTES_AT_ONCE):
        text = pl.Series([(before + block).decode("latin-1")])
        if text.str.contains_any(written).item():
            yield from (patterns[hit] for hit in text.str.extract_many(written, overlapping=True).item())
        before = block[-longest:]


def _search_cells(column: pl.Series, wanted: Wanted) -> set[str]:
    distinct = column.drop_nulls().unique()
    is_id = column.name == "conversation_id"
    hits = set(distinct.filter(distinct.is_in(list(wanted.conversations)))) if is_id else set()
    if wanted.parts and distinct.str.contains_any(list(wanted.parts)).any():
        hits |= set(distinct.str.extract_many(list(wanted.parts), overlapping=True).explode().drop_nulls())
    return hits


def _read_cells(path: Path, head: bytes) -> Iterator[pl.Series]:
    """Yield the texts of a table or database, column by column; nothing for any other file."""
    if head.startswith(_PARQUET):
        yield from _texts_of(pl.read_parquet(path))
    elif head == _SQLITE:
        for texts in read_texts(path):
            yield pl.Series(texts, dtype=pl.String)


def _texts_of(frame: pl.DataFrame) -> Iterator[pl.Series]:
    for column in frame.iter_columns():
        if column.dtype == pl.List(pl.String):
            yield column.explode()
        elif column.dtype == pl.String:
            yield column


@dataclass(frozen=True)
class HoldingPosts:
    """The files in the folders of the posts that hold something forgotten.

    Attributes:
        made: Posts and drafts as Backstory wrote them.
        of_people: Posts that a person has edited, and files of people.
    """

    made: tuple[Path, ...]
    of_people: tuple[Path, ...]

    def list_uris(self, workspace: Workspace) -> list[str]:
        """List the files of people by their uris as documents."""
        return [f"{WRITTEN_PREFIX}{path.relative_to(workspace.root).as_posix()}" for path in self.of_people]


def find_holding_posts(workspace: Workspace, wanted: Wanted) -> HoldingPosts:
    """Find the files of written posts that hold one of the texts or ids.

    Args:
        workspace: An open workspace.
        wanted: What to search for.
    """
    made: list[Path] = []
    of_people: list[Path] = []
    paths = [path for folder in list_post_folders(workspace) for path in sorted(folder.rglob("*.md"))]
    for path in paths:
        if path.is_file() and search_file(path, wanted):
            is_made = path.name.endswith(DRAFT_SUFFIX) or inspect_file(path) == "ours"
            (made if is_made else of_people).append(path)
    return HoldingPosts(tuple(made), tuple(of_people))
