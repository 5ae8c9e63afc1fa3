"""Copies of rows outside the tables: pages, dumped texts, posts that people edited, answers.

A run that drops a message or a document from the tables deletes the copies that Backstory made and may make again,
before it writes a table, so that a killed run leaves none. What it may not delete is remembered in the catalog until it
is changed or gone: a page or a text whose place a person chose, and a post that a person has edited.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import polars as pl
import regex

from backstory.base.environment import read_variable
from backstory.base.ids import WRITTEN_PREFIX, is_written
from backstory.base.wording import count, name_some
from backstory.index.snapshot import current_version
from backstory.ingest.documents.files import DRAFT_SUFFIX
from backstory.ingest.privacy.forms import UNSPACED
from backstory.ingest.privacy.pseudonyms import find_naming_texts
from backstory.pipeline.chats.stored_messages import read_intact_messages
from backstory.pipeline.rendered_pages import list_site_pages, remove_pages
from backstory.pipeline.run.cache_use import drop_unused
from backstory.pipeline.workspace import Workspace
from backstory.storage.conversations import ConversationStore, KeptTurn
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.partitions import partition_keys
from backstory.writing.post_files import inspect_file

POST_FOLDERS: Final = "post_folders"
"""Name in the catalog of the folders that posts were written into."""

_COPIES: Final = "copies"
_OF_ANY_ROW, _STALE = "", "stale"
_ANSWERS: Final = "answers of models"
"""Key in the catalog for the caches of drafts and judgements, which the end of the run looks through."""

_LEAST_CHARACTERS: Final = 8
_MOST_CHARACTERS: Final = 60
_NAMED: Final = 5

_LETTER: Final = rf"(?![{UNSPACED}])[\p{{L}}\p{{M}}\p{{N}}]"
_BEGINNING: Final = rf"(?:(?=[{UNSPACED}])|(?<!{_LETTER}))"
_END: Final = rf"(?:(?<=[{UNSPACED}])|(?!{_LETTER}))"

IsShown = Callable[[str], bool]
"""Returns whether a text holds what has to go."""


def pick_parts(texts: Iterable[str], others: Iterable[str]) -> frozenset[str]:
    """Choose pieces of 8 to 60 characters that identify texts: beginnings of lines that occur in no other text."""
    lines = {line.strip()[:_MOST_CHARACTERS].strip() for text in texts for line in text.splitlines()}
    parts = sorted(line for line in lines if len(line) >= _LEAST_CHARACTERS)
    if not parts:
        return frozenset()
    shared = pl.Series(list(others), dtype=pl.String).str.extract_many(parts, overlapping=True)
    return frozenset(parts) - set(shared.explode().drop_nulls())


def record_copy(workspace: Workspace, path: Path, document_id: str = _OF_ANY_ROW) -> None:
    """Remember a page, a site or a text that was written where a person chose, of one document or of any rows.

    Whoever may only read the workspace leaves no note in it: of their copies a later run knows nothing.
    """
    if os.access(workspace.tables_dir, os.W_OK):
        place = _name(workspace, path.absolute())
        workspace.catalog.record(_COPIES, {place: Entry(document_id, _hash(path), 0)})


def clear_copies_of_messages(
    workspace: Workspace, messages: pl.DataFrame, partitions: Sequence[str]
) -> str | None:
    """Delete the copies of messages that a run drops or replaces, before it does.

    It says what was deleted, and what holds them still; None if the run drops none. So do the next two functions.
    """
    stored = read_intact_messages(workspace)
    written = stored.filter(partition_keys(stored, workspace.settings.partitions.grain).is_in(partitions))
    dropped = written.join(messages, on=["message_id", "author", "text"], how="anti", nulls_equal=True)
    if dropped.is_empty():
        return None
    return _clear(workspace, "messages", _find_parts(dropped["text"], messages["text"]))


def clear_copies_of_names(workspace: Workspace, shown: Collection[str], real: Collection[str]) -> str | None:
    """Delete the copies that show names: real ones, and those by which people were shown who agreed to it."""
    if not shown and not real:
        return None
    # A short name is also a part of words, but "Al" is not named by "also".
    words = [regex.compile(f"{_BEGINNING}{regex.escape(name)}{_END}") for name in shown]
    is_named: IsShown = lambda text: any(word.search(text) for word in words)  # noqa: E731
    return _clear(workspace, "names", lambda text: is_named(text) or bool(find_naming_texts([text], real)))


def clear_copies_of_documents(workspace: Workspace, before: pl.DataFrame, now: pl.DataFrame) -> str | None:
    """Delete the copies of documents that a run drops, before it does. Posts of windows go with their messages."""
    is_there = pl.col("status").is_in(["ok", "error"]) & ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    remaining = now.filter(is_there)
    dropped = before.filter(is_there).join(remaining, on="document_id", how="anti")["document_id"]
    ConversationStore(workspace.state).admit_again(set(now["document_id"]))
    if dropped.is_empty():
        return None
    gone = before.filter(pl.col("document_id").is_in(dropped.implode()))
    texts, others = (pl.concat([table["text"], table["title"]]) for table in (gone, remaining))
    return _clear(workspace, "documents", _find_parts(texts, others), frozenset(dropped))


def find_stale_copies(workspace: Workspace) -> list[str]:
    """Name the copies of rows that have left the tables which Backstory may not delete, with what to do."""
    return [
        f"{name} holds what has left the tables: take the text out or delete it; pages and dumped texts can be made "
        "again by their commands"
        for name, entry in sorted(workspace.catalog.read(_COPIES).items())
        for path in [workspace.root / name]
        if entry.inputs == _STALE and name != _ANSWERS and path.exists() and _hash(path) == entry.content
    ]


def find_holding_posts(workspace: Workspace, is_shown: IsShown) -> dict[Path, str]:
    """Find the files in the folders of the posts that hold a text.

    Each is a ``draft``, a post as Backstory wrote it (``ours``), or ``edited``, as is a file of a person.
    """
    names = {workspace.settings.writers.folder, *workspace.catalog.read(POST_FOLDERS)}
    return {
        path: "draft" if path.name.endswith(DRAFT_SUFFIX) else inspect_file(path)
        for name in sorted(names)
        for path in sorted((workspace.root / name).rglob("*.md"))
        if _is_shown_in(path, is_shown)
    }


def drop_unused_answers(workspace: Workspace) -> None:
    """Delete the drafts and judgements that the tables do not use, if a run has dropped rows since they were made.

    Called when every table is made: what a model was shown of a dropped row is shown to it no more.
    """
    if _ANSWERS in workspace.catalog.read(_COPIES):
        drop_unused(workspace)
        workspace.catalog.forget(_COPIES, [_ANSWERS])


def _find_parts(texts: pl.Series, others: pl.Series) -> IsShown:
    parts = list(pick_parts(texts.drop_nulls(), others.drop_nulls()))
    return lambda text: bool(parts) and bool(pl.Series([text]).str.contains_any(parts).item())


def _clear(
    workspace: Workspace, rows: str, is_shown: IsShown, documents: frozenset[str] = frozenset()
) -> str | None:
    def is_held(turn: KeptTurn) -> bool:
        """Return whether an answer shows a dropped document or text; where it is no document, any written post.

        An answer may quote a sentence from the middle of a line, which the beginnings of lines do not find.
        """
        shown = turn.documents
        is_cited = not documents.isdisjoint(shown) if documents else any(map(is_written, shown.values()))
        return is_cited or is_shown("\n".join(turn.list_texts()))

    cleared = ConversationStore(workspace.state).clear_answers(
        is_held, documents or {WRITTEN_PREFIX}, current_version(workspace.index) or None
    )
    entries: dict[str, Entry | None] = {_ANSWERS: Entry(_STALE, "", 0)}
    for name, entry in workspace.catalog.read(_COPIES).items():
        is_made_of_it = entry.inputs in (_OF_ANY_ROW, _STALE, *documents)
        if is_made_of_it or _is_shown_in(workspace.root / name, is_shown):
            entries[name] = Entry(_STALE, entry.content, 0)
    deleted = [path for name in entries if (path := workspace.root / name).is_relative_to(workspace.dumps)]
    for path, state in find_holding_posts(workspace, is_shown).items():
        if state == "edited":
            entries[_name(workspace, path)] = Entry(_STALE, _hash(path), 0)
        elif state == "draft":
            deleted.append(path)
    removed = [*remove_pages(workspace.root), *(_name(workspace, path) for path in deleted)]
    for path in deleted:
        path.unlink(missing_ok=True)
        entries[_name(workspace, path)] = None
    workspace.catalog.record(_COPIES, entries)
    notes = []
    if removed:
        notes.append(
            f"deleted {name_some(removed, _NAMED)}, which may show {rows} that the tables no longer hold; "
            "`backstory site` and `backstory report` write pages of the present ones"
        )
    if cleared:
        notes.append(f"took {count(cleared, 'answer')} that may show {rows} out of people's conversations")
    notes += find_stale_copies(workspace)
    # That of the workspace, and that which the environment names.
    histories = {workspace.dagster_home, Path(read_variable("DAGSTER_HOME") or workspace.dagster_home)}
    notes += [
        f"Dagster's history in {place} may show previews of {rows} that the tables no longer hold; delete that folder "
        "if they must go"
        for place in sorted(histories)
        if place.is_dir()
    ]
    return ". ".join(notes) or None


def _is_shown_in(path: Path, is_shown: IsShown) -> bool:
    return path.is_file() and is_shown(path.read_text(encoding="utf-8", errors="replace"))


def _name(workspace: Workspace, path: Path) -> str:
    return path.relative_to(workspace.root).as_posix() if path.is_relative_to(workspace.root) else str(path)


def _hash(path: Path) -> str:
    """Hash a file, or the pages of a site."""
    total = hashlib.sha256()
    for page in list_site_pages(path) if path.is_dir() else [path]:
        total.update(hashlib.sha256(page.read_bytes()).digest())
    return total.hexdigest()
