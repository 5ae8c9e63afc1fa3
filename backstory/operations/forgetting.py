"""Forgets one conversation, member or document of a workspace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import polars as pl
from pydantic import BaseModel

from backstory.base.errors import InputError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.wording import name_some
from backstory.index.snapshot import current_version, prune
from backstory.ingest.chats.export_files import conversation_of
from backstory.ingest.chats.merging import NAMED_SCHEMA, read_archive, write_archive
from backstory.ingest.documents.files import is_of_source, list_foreign, locate
from backstory.ingest.privacy.exclusions import Forgotten, Kind, hide_members
from backstory.ingest.privacy.names import normalize_name
from backstory.ingest.privacy.pseudonyms import make_finder, make_pseudonym
from backstory.ingest.sources.listing import make_locator
from backstory.operations.corrections import keep_corrections
from backstory.pipeline.chats.copies import find_holding_posts, find_stale_copies, pick_parts
from backstory.pipeline.chats.exports_reading import put_as_stored, read_chats
from backstory.pipeline.history.history import BY_LIBRARY
from backstory.pipeline.rendered_pages import remove_pages
from backstory.pipeline.run.cache_use import drop_unused
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import execute_run, list_tables
from backstory.pipeline.stages.posts import FILES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.schemas import TABLES
from backstory.storage.turns import running

_NAMED: Final = 10
_ROWS_AT_ONCE: Final = 10_000


class Forgetting(BaseModel, frozen=True):
    """Result of forgetting: what was removed, and what is left to delete.

    All tables and the state were queried for ``wanted`` texts and ids; ``left`` counts those that a table still holds.
    ``inputs`` are files of the user that hold the forgotten thing: paths in the workspace, absolute elsewhere.
    ``open_snapshots`` are earlier ones that a process has open. Dagster's history, if there is one, may show rows.
    """

    rows: int
    vectors: int
    reports: tuple[str, ...]
    wanted: int
    left: dict[str, int]
    inputs: tuple[str, ...]
    open_snapshots: tuple[str, ...]
    copies: tuple[str, ...]
    has_history: bool


class _Target(NamedTuple):
    """The thing to forget: the names to add to the list, its ids in the tables, and the user's files that hold it.

    ``known`` are ids of things of its kind, which an error names if this one is not there.
    """

    names: frozenset[str]
    ids: frozenset[str]
    inputs: tuple[str, ...]
    known: Collection[str]


def forget(workspace: Workspace, kind: Kind, name: str) -> Forgetting:
    """Remove one thing from everything that Backstory wrote into a workspace, and exclude it from later runs.

    The list of forgotten things is written first: if this process is killed, no later run restores anything. The
    tables are then rebuilt as in a run, but only the partitions that already exist. The call waits for a run that is
    under way, and can be retried after an error.
    """
    with running(workspace.catalog.state, "forgetting"):
        return _forget(workspace, kind, name)


def _forget(workspace: Workspace, kind: Kind, name: str) -> Forgetting:
    def name_of(path: Path) -> str:
        return path.relative_to(workspace.root).as_posix()

    find = {"conversation": _find_conversation, "member": _find_member, "document": _find_document}[kind]
    target = find(workspace, name)
    if not target.ids:
        listed = name_some(sorted(target.known), _NAMED) or "none"
        raise InputError(
            f"there is no {kind} {name!r}; name it as its files or the tables do, such as: {listed}",
            code=f"unknown_{kind}",
        )
    table = workspace.tables.read("documents") if kind == "document" else _read_messages(workspace)
    column = {"conversation": "conversation_id", "member": "author", "document": "uri"}[kind]
    rows = table.filter(pl.col(column).is_in(list(target.ids)))
    wanted = _choose_wanted(workspace, kind, target, rows)
    windows = set(workspace.tables.read("windows")["window_id"])
    forgotten = Forgotten.read(workspace.forgotten).add(kind, target.names)
    posts = find_holding_posts(workspace, lambda text: any(part in text for part in wanted))
    # A post that a person has edited is theirs: it stays, and is no document any more.
    of_people = [path for path, state in posts.items() if state == "edited"]
    forgotten = forgotten.add("document", [f"{WRITTEN_PREFIX}{name_of(path)}" for path in of_people])
    forgotten.write(workspace.forgotten)
    if kind != "document":
        _clean_archive(workspace, column, target, forgotten)
    for path in posts.keys() - of_people:
        path.unlink()  # the run writes it anew if its window is still there
    reports = remove_pages(workspace.root)
    if any(workspace.tables.keys(table) for table in TABLES):
        fresh = open_workspace(workspace.root, accept_removals=True, keys=workspace.keys)
        days = workspace.tables.keys("messages")
        run = Run(days, list_tables(fresh), BY_LIBRARY, isolates_failures=False, checks=False)
        execute_run(fresh, run, holds_lock=True)
    workspace.tables.collect(timedelta(0))
    workspace.catalog.state.compact()
    prune(workspace.index)
    kept = {path.name for path in workspace.index.iterdir() if path.is_dir()}
    left_windows = set(workspace.tables.read("windows")["window_id"])
    wanted |= windows - left_windows
    holding = find_holding_posts(workspace, lambda text: any(part in text for part in wanted))
    held = [path for path, state in holding.items() if state == "edited"]
    keep_corrections(workspace.state, left_windows, set(workspace.tables.read("documents")["document_id"]))
    # No later prompt contains the forgotten thing, so no run can use what is dropped.
    vectors = drop_unused(workspace, workspace.embeddings.count_by_owner())["vectors"]
    return Forgetting(
        rows=len(rows),
        vectors=vectors,
        reports=reports,
        wanted=len(wanted),
        left=find_left(workspace, wanted),
        inputs=tuple(dict.fromkeys([*target.inputs, *map(name_of, held)])),
        open_snapshots=tuple(sorted(kept - {current_version(workspace.index)})),
        copies=tuple(find_stale_copies(workspace)),
        has_history=workspace.dagster_home.is_dir(),
    )


def find_left(workspace: Workspace, wanted: Collection[str]) -> dict[str, int]:
    """Query all tables and the state for texts and ids; return how many of them each table still holds."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, texts in _read_texts(workspace):
        distinct = texts.drop_nulls().unique()
        if wanted and distinct.str.contains_any(list(wanted)).any():
            found[name].update(
                distinct.str.extract_many(list(wanted), overlapping=True).explode().drop_nulls()
            )
    return {name: len(hits) for name, hits in found.items()}


def _read_texts(workspace: Workspace) -> Iterator[tuple[str, pl.Series]]:
    """Yield the texts of each table of a workspace and of its state, with the name of the table."""
    for name in TABLES:
        for column in workspace.tables.read(name).iter_columns():
            texts = column.explode() if column.dtype == pl.List(pl.String) else column
            if texts.dtype == pl.String:
                yield name, texts
    for state in (workspace.catalog.state, workspace.state, workspace.cache):
        if state.exists():
            with state.reading() as session:
                for table in state.part.tables:
                    rows = session.execute(f"SELECT * FROM {table.name}")  # noqa: S608 - a name of its own
                    while some := rows.fetchmany(_ROWS_AT_ONCE):
                        values = [value for row in some for value in row if isinstance(value, str | bytes)]
                        # Drafts and judgements are stored as bytes.
                        read = [
                            one if isinstance(one, str) else one.decode(errors="ignore") for one in values
                        ]
                        yield table.name, pl.Series(read, dtype=pl.String)


def _find_conversation(workspace: Workspace, name: str) -> _Target:
    folder = PurePosixPath(workspace.settings.conversations.folder)
    origins = put_as_stored(workspace).origins
    stored = set(_read_messages(workspace)["conversation_id"])
    ids = {
        conversation
        for file, conversation in origins.select("file", "conversation_id").iter_rows()
        if name in (conversation, conversation_of(file), file, str(folder / file))
    }
    ids |= {name} & stored
    is_meant = pl.col("conversation_id").is_in(list(ids))
    held = origins.filter(is_meant)
    files = sorted(set(held["file"]))
    others = set(origins.filter(~is_meant)["file"])
    # An export of several chats is read on without the forgotten one.
    whole = {conversation_of(file) for file in files if file not in others}
    names = frozenset({*ids, *held["conversation"], *whole})
    inputs = tuple(str(folder / file) for file in files)
    return _Target(names, frozenset(ids), inputs, stored | set(origins["conversation_id"]))


def _find_member(workspace: Workspace, name: str) -> _Target:
    read = read_chats(workspace)
    identify: Callable[[str], str] = lambda written: read.aliases.get(written, written)  # noqa: E731
    if secret := _load_secret(workspace):
        finder = make_finder(read.messages, read.aliases, read.unread_authors)
        identify = lambda written: make_pseudonym(finder.person(written), secret)  # noqa: E731
    wanted = normalize_name(name)
    people = {normalize_name(written): identify(written) for written in read.names}
    found = {person for written, person in people.items() if wanted == written or name == person}
    stored = set(_read_messages(workspace)["author"].drop_nulls())
    found |= {name, identify(name)} & stored
    names = {written for written in read.names if identify(written) in found} or {name}
    holds = pl.col("author").is_in(list(names)) | pl.col("text").str.contains_any(list(names))
    folder = PurePosixPath(workspace.settings.conversations.folder)
    # An earlier attempt may have put the member on the list, so that only the exports as a whole show the files.
    files = sorted(set(workspace.last_reading.read().messages.filter(holds)["source"]))
    inputs = tuple(str(folder / file) for file in files)
    return _Target(frozenset(names | found), frozenset(found), inputs, stored)


def _find_document(workspace: Workspace, name: str) -> _Target:
    folder = PurePosixPath(workspace.settings.documents.folder)
    documents = workspace.tables.read("documents")
    relative = name.removeprefix(f"{folder}/")
    is_called = pl.col("uri").is_in([name, relative, f"{WRITTEN_PREFIX}{name}"])
    uris = set(documents.filter(is_called | pl.any_horizontal(pl.col("document_id", "slug") == name))["uri"])
    if not uris and (workspace.documents_dir / relative).is_file():
        uris = {relative}
    posts = f"{WRITTEN_PREFIX}{workspace.settings.writers.folder}"
    for uri in uris & {f"{posts}/{slug}.md" for slug in workspace.catalog.read(FILES)}:
        raise InputError(
            f"{uri.removeprefix(WRITTEN_PREFIX)} is a post that Backstory wrote about a window and would write again; "
            "forget the conversation, member or document behind it",
            code="written_post",
        )
    paths = [locate(uri, str(folder)) for uri in sorted(uris)]
    files = tuple(path for path in paths if (workspace.root / path).exists())
    of_sources = map(make_locator(workspace), filter(is_of_source, sorted(uris)))
    files += tuple(str(path) for path in of_sources if path.is_file())
    known = frozenset(documents["uri"]) - list_foreign(documents, workspace.settings.rag.tenant)
    return _Target(frozenset(uris), frozenset(uris), files, known)


def _read_messages(workspace: Workspace) -> pl.DataFrame:
    tables = (workspace.tables.read("messages"), read_archive(workspace.archive))
    return pl.concat(table.select(NAMED_SCHEMA.names()) for table in tables).unique("message_id")


def _choose_wanted(workspace: Workspace, kind: Kind, target: _Target, rows: pl.DataFrame) -> frozenset[str]:
    """Choose what must not occur any more: ids, and pieces of texts that nothing else holds."""
    messages, documents = _read_messages(workspace), workspace.tables.read("documents")
    if kind == "document":
        ids, texts = set(rows["document_id"]), [*rows["text"], *rows["title"]]
        documents = documents.join(rows, on=["document_id", "revision"], how="anti")
        chunks = workspace.tables.read("document_chunks").filter(pl.col("document_id").is_in(list(ids)))
        ids |= set(chunks["chunk_id"])
    else:
        messages = messages.join(rows, on="message_id", how="anti")
        ids, texts = set(rows["message_id"]), rows["text"].drop_nulls().to_list()
        ids |= target.ids if kind == "member" else set()  # the id of a conversation may be any word
    # Written posts are rebuilt, so their texts do not count as remaining.
    documents = documents.filter(~pl.col("uri").str.starts_with(WRITTEN_PREFIX))
    others = [*messages["text"].drop_nulls(), *documents["text"], *documents["title"]]
    return pick_parts(texts, others) | ids


def _clean_archive(workspace: Workspace, column: str, target: _Target, forgotten: Forgotten) -> None:
    """Take a conversation or a member out of the archive, and the member's names out of what others wrote."""
    is_gone = pl.col(column).is_in(list(target.ids)).fill_null(value=False)
    left = read_archive(workspace.archive).filter(~is_gone)
    if column == "author":
        columns, names = ("conversation_id", "text", "source"), sorted(target.names)
        left = hide_members(left, columns, names, _load_secret(workspace), forgotten)
    write_archive(workspace.archive, left)


def _load_secret(workspace: Workspace) -> bytes | None:
    return workspace.load_secret() if workspace.settings.privacy.pseudonyms else None
