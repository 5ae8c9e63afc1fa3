"""Copies of rows outside the tables: pages, dumped texts, posts that people edited, answers.

A run that drops a message or a document from the tables deletes the copies that Backstory made and may make again,
before it writes a table, so that a killed run leaves none. What it may not delete is remembered in the catalog until it
is changed or gone: a page or a text whose place a person chose, and a post that a person has edited.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl
import regex

from backstory.base.ids import WRITTEN_PREFIX, is_written
from backstory.base.wording import count, name_some
from backstory.index.snapshot import current_version
from backstory.ingest.documents.written import DRAFT_SUFFIX
from backstory.ingest.privacy.folding import UNSPACED, is_unspaced
from backstory.pipeline.chats.stored_messages import find_replaced, read_intact_messages
from backstory.pipeline.incremental.fingerprints import list_post_folders
from backstory.pipeline.rendered_pages import EXPORT_MARK, list_site_pages, remove_pages
from backstory.pipeline.run.cache_use import list_drafted, list_windows
from backstory.pipeline.workspace import Workspace
from backstory.storage.conversations import ConversationStore, KeptTurn
from backstory.storage.tables.catalog import Entry
from backstory.writing.post_files import inspect_file

_COPIES: Final = "copies"
_MADE, _TEXT, _STALE = "made", "text", "stale"
_ANSWERS: Final = "answers of models"
"""Key in the catalog for the caches of drafts and judgements, which the end of the run looks through."""

_LEAST_CHARACTERS: Final = 8
_MOST_CHARACTERS: Final = 60
_NAMED: Final = 5
_LETTER: Final = rf"(?![{UNSPACED}])[\p{{L}}\p{{M}}\p{{N}}]"


def pick_parts(texts: Iterable[str], others: Iterable[str]) -> frozenset[str]:
    """Choose pieces that identify texts: beginnings of their lines that occur in no other text.

    They have 8 to 60 characters.
    """
    lines = {line.strip()[:_MOST_CHARACTERS].strip() for text in texts for line in text.splitlines()}
    parts = sorted(line for line in lines if len(line) >= _LEAST_CHARACTERS)
    if not parts:
        return frozenset()
    shared = pl.Series(list(others), dtype=pl.String).str.extract_many(parts, overlapping=True)
    return frozenset(parts) - set(shared.explode().drop_nulls())


def record_copy(workspace: Workspace, path: Path, *, is_text: bool = False) -> None:
    """Remember a page, a site or a text that was written where a person chose.

    Whoever may only read the workspace leaves no note in it: of their copies a later run knows nothing. A page is taken
    to hold whatever a run drops; of a file that ``is_text``, a run reads what it holds.
    """
    if os.access(workspace.tables_dir, os.W_OK):
        place = _name(workspace, path.absolute())
        workspace.catalog.record(_COPIES, {place: Entry(_TEXT if is_text else _MADE, _hash(path), 0)})


def clear_copies_of_messages(
    workspace: Workspace, messages: pl.DataFrame, partitions: Sequence[str]
) -> str | None:
    """Delete the copies of messages that a run drops or replaces, before it does.

    It says what was deleted, and what holds them still; None if the run drops none. So do the next two functions.
    """
    dropped = find_replaced(workspace, read_intact_messages(workspace), messages, partitions)
    return _clear_texts(workspace, "messages", dropped["text"], messages["text"])


def clear_copies_of_names(workspace: Workspace, names: Collection[str]) -> str | None:
    """Delete the copies that show the names of people who have withdrawn their agreement."""
    if not names:
        return None
    # A short name is also a part of words, but "Al" is not named by "also".
    named = regex.compile("|".join(_write_pattern(name) for name in sorted(names)))
    return _clear(workspace, "names", lambda text: named.search(text) is not None)


def clear_copies_of_documents(workspace: Workspace, before: pl.DataFrame, now: pl.DataFrame) -> str | None:
    """Delete the copies of documents that a run drops, before it does. Posts of windows go with their messages."""
    is_there = pl.col("status").is_in(["ok", "error"]) & ~pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    remaining = now.filter(is_there)
    gone = before.filter(is_there).join(remaining, on="document_id", how="anti")["document_id"]
    dropped = before.filter(pl.col("document_id").is_in(gone.implode()))
    texts, others = (pl.concat([table["text"], table["title"]]) for table in (dropped, remaining))
    ConversationStore(workspace.state).admit_again(set(now["document_id"]))
    return _clear_texts(workspace, "documents", texts, others, frozenset(gone))


def find_stale_copies(workspace: Workspace) -> list[str]:
    """Name the copies of rows that have left the tables which Backstory may not delete, with what to do."""
    said = []
    for name, entry in sorted(workspace.catalog.read(_COPIES).items()):
        path = workspace.root / name
        if entry.inputs != _STALE or name == _ANSWERS or not path.exists() or _hash(path) != entry.content:
            continue
        said.append(f"{name} holds what has left the tables: {_find_remedy(path)}")
    return said


def drop_unused_answers(workspace: Workspace) -> None:
    """Delete the drafts and judgements that the tables do not use, if a run has dropped rows since they were made.

    Called when every table is made: what a model was shown of a dropped row is shown to it no more.
    """
    if _ANSWERS in workspace.catalog.read(_COPIES):
        workspace.drafts.keep_only(list_drafted(workspace), "owner")
        workspace.judgements.keep_only(list_windows(workspace), "owner")
        workspace.cache.compact()
        workspace.catalog.forget(_COPIES, [_ANSWERS])


def _clear_texts(
    workspace: Workspace,
    rows: str,
    dropped: pl.Series,
    remaining: pl.Series,
    documents: Collection[str] = (),
) -> str | None:
    if dropped.is_empty():
        return None
    parts = list(pick_parts(dropped.drop_nulls(), remaining.drop_nulls()))

    def is_shown(text: str) -> bool:
        return bool(parts) and bool(pl.Series([text]).str.contains_any(parts).item())

    return _clear(workspace, rows, is_shown, documents)


def _write_pattern(name: str) -> str:
    """Write an expression that finds a name as a whole word; the scripts without spaces have no such limits."""
    before, after = (
        "" if is_unspaced(letter) else limit
        for letter, limit in ((name[0], f"(?<!{_LETTER})"), (name[-1], f"(?!{_LETTER})"))
    )
    return f"{before}{regex.escape(name)}{after}"


def _clear(
    workspace: Workspace, rows: str, is_shown: Callable[[str], bool], documents: Collection[str] = ()
) -> str | None:
    removed = list(remove_pages(workspace.root))
    cleared = _clear_given_answers(workspace, is_shown, documents)
    for path in _list_made(workspace):
        if _holds(path, is_shown):
            path.unlink()
            removed.append(_name(workspace, path))
    entries = {
        name: Entry(_STALE, entry.content, 0)
        for name, entry in workspace.catalog.read(_COPIES).items()
        if entry.inputs != _TEXT or _holds_if_there(workspace.root / name, is_shown)
    }
    entries |= {
        _name(workspace, path): Entry(_STALE, _hash(path), 0)
        for path in _list_posts_of_people(workspace)
        if _holds(path, is_shown)
    }
    workspace.catalog.record(_COPIES, {**entries, _ANSWERS: Entry(_STALE, "", 0)})
    notes = []
    if removed:
        notes.append(
            f"deleted {name_some(removed, _NAMED)}, which may show {rows} that the tables no longer hold; "
            "`backstory site` and `backstory report` write pages of the present ones"
        )
    if cleared:
        notes.append(f"took {count(cleared, 'answer')} that may show {rows} out of people's conversations")
    notes += find_stale_copies(workspace)
    if workspace.dagster_home.is_dir():
        notes.append(
            f"Dagster's history in {workspace.dagster_home} may show previews of {rows} that the tables no "
            "longer hold; delete that folder if they must go"
        )
    return ". ".join(notes) or None


def _clear_given_answers(
    workspace: Workspace, is_shown: Callable[[str], bool], documents: Collection[str]
) -> int:
    """Take answers out of people's conversations: those that show documents, and those that hold a dropped text.

    An answer may quote a sentence from the middle of a line, which the beginnings of lines do not find. So whatever
    shows a dropped document goes, and where messages or names are dropped, whatever shows a written post.
    """
    ids = frozenset(documents)

    def is_held(turn: KeptTurn) -> bool:
        shown = turn.documents
        is_of_rows = not ids.isdisjoint(shown) if ids else any(is_written(uri) for uri in shown.values())
        return is_of_rows or is_shown("\n".join(turn.list_texts()))

    return ConversationStore(workspace.state).clear_answers(
        is_held, ids or {WRITTEN_PREFIX}, current_version(workspace.index) or None
    )


def _list_made(workspace: Workspace) -> Iterator[Path]:
    """List the files that Backstory made of rows and may delete: dumped texts and drafts."""
    for folder in list_post_folders(workspace):
        yield from sorted(path for path in folder.rglob(f"*{DRAFT_SUFFIX}") if path.is_file())
    yield from sorted(path for path in workspace.dumps.glob("*.txt") if path.is_file())


def _list_posts_of_people(workspace: Workspace) -> Iterator[Path]:
    for folder in list_post_folders(workspace):
        for path in sorted(folder.rglob("*.md")):
            if not path.name.endswith(DRAFT_SUFFIX) and inspect_file(path) == "edited":
                yield path


def _holds(path: Path, is_shown: Callable[[str], bool]) -> bool:
    return is_shown(path.read_text(encoding="utf-8", errors="replace"))


def _holds_if_there(path: Path, is_shown: Callable[[str], bool]) -> bool:
    return path.is_file() and _holds(path, is_shown)


def _find_remedy(path: Path) -> str:
    if (path / EXPORT_MARK).is_file():
        return f"write it again by `backstory export --output {path}` with its --format, or delete its files"
    if path.is_dir():
        return f"write it again by `backstory site --output {path}`, or delete it"
    if path.suffix == ".md":
        return "a person has edited it, so Backstory leaves it; remove the text, or delete the file"
    return "write it again, or delete it"


def _name(workspace: Workspace, path: Path) -> str:
    return path.relative_to(workspace.root).as_posix() if path.is_relative_to(workspace.root) else str(path)


def _hash(path: Path) -> str:
    """Hash a file, or the pages of a site."""
    total = hashlib.sha256()
    for page in list_site_pages(path) if path.is_dir() else [path]:
        total.update(hashlib.sha256(page.read_bytes()).digest())
    return total.hexdigest()
