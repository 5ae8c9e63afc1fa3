"""Searches stored tables for real names and other leaks, and remembers which partitions were clean.

That is: authors' real names, messages of people who opted out, and contact data that ``privacy.scrub`` lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import polars as pl

from backstory.base.environment import read_variable
from backstory.base.errors import ContractError
from backstory.base.ids import digest, digest_json
from backstory.ingest.privacy.leaks import find_naming_texts, find_real_names
from backstory.ingest.privacy.names import Place
from backstory.ingest.privacy.personal_data import scrub
from backstory.ingest.privacy.pseudonyms import make_pseudonym
from backstory.pipeline.chats.exports_reading import (
    EXPORT_SOURCES,
    exports_fingerprint,
    find_opted_out,
    scrub_messages,
)
from backstory.pipeline.chats.named_documents import DocumentView, list_hidden_names
from backstory.pipeline.chats.people import read_agreed_names, read_people, show_chunks
from backstory.pipeline.incremental.fingerprints import code_version
from backstory.pipeline.incremental.partitions import content_of
from backstory.pipeline.rendered_pages import remove_pages
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.passages.provenance import find_quotes, quote_chunk
from backstory.storage.tables.catalog import Entry
from backstory.text.message_markdown import MESSAGE_SEPARATOR
from backstory.text.people import Discretion, FindLeaks, ShowText, find_no_leaks
from backstory.text.prompts.entries import MESSAGE_AUTHOR

_OPTED_OUT: Final = "opted out"
_PEOPLE: Final = "people"
_CONTACTS: Final = ("email", "phone")
_SHOWN_TEXTS: Final = 1 << 13

SEARCHED_COLUMNS: Final[Mapping[str, Mapping[str, Place]]] = MappingProxyType(
    {
        "quarantine": {"source": "identifier", "reason": "message"},
        "sources": {"source": "identifier", "reason": "message"},
        "windows": {"conversation_id": "identifier"},
        "window_chunks": {"text": "message"},
        "decisions": {"rerank_note": "message", "uncovered_topics": "message"},
        "contexts": {"serves": "message"},
        "window_contexts": {"uncovered_topics": "message", "messages": "message", "error": "message"},
        "posts": {"title": "message", "tags": "message", "text": "message", "reason": "message"},
    }
)
"""Columns of the tables after the messages that hold words of chats or names of their files, and how each is read."""


def find_privacy_breaches(workspace: Workspace, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    """Search the stored messages, from which most other tables are built, for what must not be in them.

    That is: authors' real names, which are read from the exports, because nothing else holds them; messages of people
    who opted out before the last run; and contact data that ``privacy.scrub`` lists. Partitions that passed before and
    have not changed since are skipped. It returns ``column`` and ``message_id`` of every breach, never what was found.
    """
    privacy, opted_out = workspace.settings.privacy, _read_opted_out(workspace)
    nothing = pl.DataFrame(schema={"column": pl.String, "message_id": pl.String})

    def find(rows: pl.DataFrame, _partitions: Sequence[str]) -> pl.DataFrame:
        breaches = _find_others(workspace, rows, opted_out) if opted_out or privacy.scrub else nothing
        if not privacy.pseudonyms:
            return breaches
        names = workspace.last_reading.read_names(workspace.chats_dir, workspace.settings.conversations)
        return pl.concat([breaches, find_real_names(rows, names)])

    if not (privacy.pseudonyms or privacy.scrub or opted_out):
        return nothing
    found = _search_once(workspace, "messages", partitions, digest_json(opted_out, length=16), find)
    return nothing if found is None else found


def _search_once(
    workspace: Workspace,
    table: str,
    partitions: Sequence[str] | None,
    searched_for: str,
    find: Callable[[pl.DataFrame, Sequence[str]], pl.DataFrame],
) -> pl.DataFrame | None:
    """Search those partitions, or of all, which have not passed since they, the exports or the search changed."""
    wanted = list(partitions) if partitions is not None else workspace.tables.keys(table)
    contents = {key: content for key, content in content_of(workspace, table, wanted).items() if content}
    if not contents:
        return None
    made_by = digest([exports_fingerprint(workspace), searched_for])
    inputs = {key: digest([made_by, content]) for key, content in contents.items()}
    pending = workspace.catalog.pending(f"privacy of {table}", inputs, contents)
    rows = workspace.tables.read(table, pending) if pending else None
    if rows is None or rows.is_empty():
        return None
    found = find(rows, pending)
    if found.is_empty():
        passed = {key: Entry(inputs[key], contents[key], 0) for key in pending}
        workspace.catalog.record(f"privacy of {table}", passed)
    return found


def make_leak_finder(workspace: Workspace) -> FindLeaks:
    """Make the function that finds the texts of models that hold a real name.

    The names are read from the exports, which alone hold them, before the function is returned, so that any thread may
    call it. Where no author is hidden, it finds nothing.
    """
    if not workspace.settings.privacy.pseudonyms:
        return find_no_leaks
    names = list_hidden_names(workspace)
    agreed = read_agreed_names(workspace)
    return lambda texts: find_naming_texts(texts, names, agreed)


def make_discretion(workspace: Workspace) -> Discretion:
    """Make what a post may say about people, by the settings; see :func:`make_leak_finder`."""
    privacy = workspace.settings.privacy
    find_leaks = make_leak_finder(workspace)
    scrub_text = partial(_scrub_contacts, region=privacy.phone_region)

    def find_contacts_and_leaks(texts: Sequence[str]) -> Collection[str]:
        return {*find_leaks(texts), *(text for text in texts if scrub_text(text) != text)}

    if privacy.documents == "reject":
        return Discretion(find_contacts_and_leaks, rule=privacy.documents)
    return Discretion(find_leaks, make_contact_scrub(workspace), privacy.documents)


def make_contact_scrub(workspace: Workspace) -> Callable[[str], str]:
    """Make what puts markers in place of the contact data of a text that readers see, if the settings ask for it."""
    privacy = workspace.settings.privacy
    return partial(_scrub_contacts, region=privacy.phone_region) if privacy.documents == "replace" else str


def make_page_view(workspace: Workspace, conversations: Mapping[str, str]) -> ShowText:
    """Make what shows a text of a document on a page: with the names that readers see, and without contact data."""
    view = DocumentView(workspace)
    scrub_text = make_contact_scrub(workspace)

    @lru_cache(maxsize=_SHOWN_TEXTS)  # the windows of a chat find the same documents
    def show(conversation: str, document_id: str, text: str) -> str:
        return scrub_text(view.show(conversation, document_id, text))

    return lambda window_id, document_id, text: show(conversations[window_id], document_id, text)


def _scrub_contacts(text: str, *, region: str | None) -> str:
    return str(scrub(pl.Series([text]), _CONTACTS, region)[0])


def find_names(workspace: Workspace, table: str, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    """Search what a table holds of chats, or of models that were shown chats, for authors' real names.

    The texts of messages are searched before any other table is made of them. This search also finds what was changed,
    restored or written by a model since: a model may write a name that no message of its window holds, such as one that
    a document tells it. Text of documents is published as it is, and not searched; nor are posts that a person edited.
    It returns ``column`` and ``window_id`` (null in a table without windows) of every cell that holds a name, never the
    name.
    """

    def find(rows: pl.DataFrame, partitions: Sequence[str]) -> pl.DataFrame:
        found = _find_cells(rows, SEARCHED_COLUMNS[table], list_hidden_names(workspace), agreed)
        is_quoted = table == "contexts" and not found.is_empty()
        return _leave_out_joints(workspace, found, partitions) if is_quoted else found

    nothing = pl.DataFrame(schema={"column": pl.String, "window_id": pl.String})
    if not (workspace.settings.privacy.pseudonyms and workspace.has_chats):
        return nothing
    agreed = read_agreed_names(workspace)
    columns = digest_json([SEARCHED_COLUMNS[table], agreed], length=16)
    # The other partition of the sources lists documents.
    wanted = [EXPORT_SOURCES] if table == "sources" else partitions
    found = _search_once(workspace, table, wanted, columns, find)
    return nothing if found is None else found.select("column", "window_id")


def _find_cells(
    rows: pl.DataFrame, columns: Mapping[str, Place], names: Iterable[str], agreed: Sequence[str]
) -> pl.DataFrame:
    """Return ``column``, ``window_id`` and ``parts`` of every cell that holds a name; equal texts are searched once."""
    window_id = "window_id" if "window_id" in rows.columns else pl.lit(None, pl.String)
    cells = pl.concat(
        rows.select(
            pl.lit(column).alias("column"),
            pl.lit(place).alias("place"),
            window_id=window_id,
            parts=_list_parts(rows, column),
        )
        for column, place in columns.items()
    ).with_row_index("number")
    parts = cells.select("number", "place", part="parts").explode("part").drop_nulls("part")
    distinct = parts.select("place", "part").unique()
    said, named = (distinct.filter(place=place)["part"] for place in ("message", "identifier"))
    texts = find_naming_texts(said, names, agreed)
    identifiers = find_real_names(pl.DataFrame({"message_id": named, "source": named}), names)["message_id"]
    if not texts and identifiers.is_empty():
        return cells.clear().select("column", "window_id", "parts")
    is_text = pl.col("place") == "message"
    leaking = parts.filter(
        (is_text & pl.col("part").is_in(list(texts)))
        | (~is_text & pl.col("part").is_in(identifiers.implode()))
    )
    return cells.filter(pl.col("number").is_in(leaking["number"].implode())).select(
        "column", "window_id", "parts"
    )


def _list_parts(rows: pl.DataFrame, column: str) -> pl.Expr:
    """Return the texts of a cell that are searched one by one, since two of them may together spell a name."""
    if rows.schema[column] != pl.String:
        return pl.col(column)
    if column == "messages":
        return pl.col(column).str.replace_all(MESSAGE_AUTHOR, "$1\n").str.split("\n")
    is_chunk = column == "text" and "chunk_index" in rows.columns  # the texts of several messages
    return pl.col(column).str.split(MESSAGE_SEPARATOR) if is_chunk else pl.concat_list(column)


def _leave_out_joints(workspace: Workspace, found: pl.DataFrame, partitions: Sequence[str]) -> pl.DataFrame:
    """Leave out quotes of query chunks: these are searched message by message, and two may together spell a name."""
    window_chunks, windows = (
        workspace.tables.read(name, partitions) for name in ("window_chunks", "windows")
    )
    texts = show_chunks(window_chunks, windows, read_people(workspace))
    quotes = pl.DataFrame({"quote": map(quote_chunk, texts), "window_id": window_chunks["window_id"]})
    quoted = found.with_columns(quote=find_quotes(found["parts"].list.first()))
    return quoted.join(quotes.cast(pl.String), on=["window_id", "quote"], how="anti")


def record_opted_out(workspace: Workspace, opted_out: pl.DataFrame) -> None:
    """Record who is out of which conversation (null: of all), as tables name them, for the search."""
    pairs = opted_out.filter("is_out").select("conversation_id", "author").sort(pl.all()).rows()
    workspace.catalog.record(_OPTED_OUT, {_PEOPLE: Entry("", json.dumps(pairs), len(pairs))})


def _read_opted_out(workspace: Workspace) -> list[list[str | None]]:
    recorded = workspace.catalog.read(_OPTED_OUT).get(_PEOPLE)
    return json.loads(recorded.content) if recorded else []


def _find_others(workspace: Workspace, rows: pl.DataFrame, opted_out: list[list[str | None]]) -> pl.DataFrame:
    """Find messages of people who opted out, and texts with contact data."""
    pairs = pl.DataFrame(opted_out, schema={"conversation_id": pl.String, "author": pl.String}, orient="row")
    of_people = find_opted_out(rows, pairs)
    is_scrubbed = rows["text"].eq_missing(scrub_messages(workspace, rows)["text"])
    columns = (("author", of_people), ("text", rows.filter(~is_scrubbed)))
    return pl.concat([found.select(pl.lit(name).alias("column"), "message_id") for name, found in columns])


_TABLE: Final = "known_names"
_KEY: Final = "exports"


def find_former_names(workspace: Workspace, names: Sequence[str]) -> set[str]:
    """List the partitions in which earlier runs wrote real names that are replaced now.

    Nothing is searched unless a name, or the code that finds names, is new since a run that found none.
    """
    if not workspace.settings.privacy.pseudonyms:
        workspace.catalog.forget(_TABLE, [_KEY])
        return set()
    secret = workspace.load_secret()
    # Another version of the code may find names in forms that this one left.
    known = digest([code_version("messages"), *(make_pseudonym(name, secret) for name in sorted(set(names)))])
    recorded = workspace.catalog.read(_TABLE).get(_KEY)
    if recorded is not None and recorded.content == known:
        return set()
    named = _find_named_partitions(workspace, names)
    if not named:
        workspace.catalog.record(_TABLE, {_KEY: Entry("", known, len(names))})
    return named


def clear_former_names(workspace: Workspace) -> str:
    """Delete the pages that earlier runs wrote with real names; say what was deleted and what may still hold names."""
    deleted = list(remove_pages(workspace.root))
    notes = ["earlier runs wrote real names that are replaced now"]
    if deleted:
        notes.append(f"deleted {', '.join(deleted)}")
    # That of the workspace, and that which the environment names.
    histories = {workspace.dagster_home, Path(read_variable("DAGSTER_HOME") or workspace.dagster_home)}
    notes += [
        f"Dagster's history in {place} may hold some: stop its processes, and delete the folder"
        for place in sorted(histories)
        if place.is_dir()
    ]
    return "; ".join(notes)


def _find_named_partitions(workspace: Workspace, names: Sequence[str]) -> set[str]:
    """List the partitions whose stored messages hold a name."""
    named = set()
    for key in workspace.tables.keys("messages"):
        try:
            messages = workspace.tables.read("messages", [key])
        except ContractError:
            continue  # the run makes it again, and says so
        if not find_real_names(messages, names).is_empty():
            named.add(key)
    return named
