"""Finds leftovers of forgotten texts and ids in the tables, in the state, and in the files of the posts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from backstory.ingest.documents.written import DRAFT_SUFFIX
from backstory.pipeline.incremental.fingerprints import list_post_folders
from backstory.pipeline.workspace import Workspace
from backstory.storage.state import State
from backstory.storage.tables.schemas import TABLES
from backstory.writing.post_files import inspect_file

_ROWS_AT_ONCE: Final = 10_000


@dataclass(frozen=True)
class Wanted:
    """The texts and ids to search for.

    Attributes:
        parts: Texts and ids that must not occur anywhere, not even inside longer text.
        conversations: Ids that must not occur in a column ``conversation_id``, but may occur as words elsewhere.
    """

    parts: frozenset[str]
    conversations: frozenset[str]


def find_left(workspace: Workspace, wanted: Wanted) -> dict[str, int]:
    """Query all tables and the state for texts and ids; return how many of them each table still holds."""
    found: dict[str, set[str]] = {}
    for name in TABLES:
        for column in workspace.tables.read(name).iter_columns():
            texts = column.explode() if column.dtype == pl.List(pl.String) else column
            if texts.dtype == pl.String:
                found.setdefault(name, set()).update(_search(texts, wanted))
    for state in (workspace.catalog.state, workspace.state, workspace.cache):
        for name, texts in _read_texts(state):
            found.setdefault(name, set()).update(_search(texts, wanted))
    return {name: len(hits) for name, hits in found.items() if hits}


def _read_texts(state: State) -> Iterator[tuple[str, pl.Series]]:
    """Yield the texts of each table of a database with the name of the table."""
    if not state.exists():
        return
    with state.reading() as session:
        for table in state.part.tables:
            rows = session.execute(f"SELECT * FROM {table.name}")  # noqa: S608 - a name of its own
            while some := rows.fetchmany(_ROWS_AT_ONCE):
                texts = [text for row in some for value in row if (text := _as_text(value)) is not None]
                yield table.name, pl.Series(texts, dtype=pl.String)


def _as_text(value: object) -> str | None:
    """Return a text, or what is text of bytes, since drafts and judgements are stored so; None for a number."""
    if isinstance(value, bytes):
        return value.decode(errors="ignore")
    return value if isinstance(value, str) else None


def _search(texts: pl.Series, wanted: Wanted) -> set[str]:
    distinct = texts.drop_nulls().unique()
    is_id = texts.name == "conversation_id"
    hits = set(distinct.filter(distinct.is_in(list(wanted.conversations)))) if is_id else set()
    if wanted.parts and distinct.str.contains_any(list(wanted.parts)).any():
        hits |= set(distinct.str.extract_many(list(wanted.parts), overlapping=True).explode().drop_nulls())
    return hits


def find_holding_posts(workspace: Workspace, wanted: Wanted) -> tuple[list[Path], list[Path]]:
    """Find the files of written posts that hold one of the texts or ids.

    Returns:
        Posts and drafts as Backstory wrote them; and posts that a person has edited, with files of people.
    """
    made: list[Path] = []
    of_people: list[Path] = []
    for path in (path for folder in list_post_folders(workspace) for path in sorted(folder.rglob("*.md"))):
        text = path.read_text("utf-8", "replace") if path.is_file() else ""
        if any(part in text for part in wanted.parts):
            is_made = path.name.endswith(DRAFT_SUFFIX) or inspect_file(path) == "ours"
            (made if is_made else of_people).append(path)
    return made, of_people
