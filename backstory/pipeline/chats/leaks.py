"""The search of stored tables for what must not be in them, which remembers the partitions that were clean.

That is: authors' real names, messages of people who opted out, and contact data that ``privacy.scrub`` lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import polars as pl

from backstory.base.environment import read_variable
from backstory.base.errors import ContractError
from backstory.base.ids import digest, digest_json
from backstory.ingest.privacy.erasure_list import read_forgotten
from backstory.ingest.privacy.leaks import find_naming_texts, find_real_names
from backstory.ingest.privacy.names import Place
from backstory.pipeline.chats.exports_reading import EXPORT_SOURCES, find_opted_out, scrub_messages
from backstory.pipeline.chats.named_documents import list_hidden_names
from backstory.pipeline.chats.people import (
    hash_names,
    read_agreed_names,
    read_hash_of_names,
    read_names,
    read_people,
    show_chunks,
)
from backstory.pipeline.incremental.fingerprints import code_version
from backstory.pipeline.incremental.partitions import content_of
from backstory.pipeline.rendered_pages import remove_pages
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.passages.provenance import find_quotes, quote_chunk
from backstory.storage.tables.catalog import Entry
from backstory.text.message_markdown import MESSAGE_SEPARATOR
from backstory.text.prompts.entries import MESSAGE_AUTHOR

_MESSAGES: Final = "messages"
_NAMES: Final = "names in {}"
_CONTACTS: Final = "contacts in messages"
_OPTED_OUT: Final = "opted out"
_PEOPLE: Final = "people"

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


def find_leaks(workspace: Workspace, table: str, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    """Search a table for what must not be in it, but for partitions that passed and have not changed since.

    The messages, from which most other tables are made, are searched for real names, for messages of people who opted
    out before the last run, and for contact data. The search of the other tables for names also finds what was changed,
    restored or written by a model since: a model may write a name that no message of its window holds, such as one that
    a document tells it. Text of documents is published as it is, and not searched; nor are posts that a person edited.
    It returns ``column`` of every cell with its ``message_id`` or ``window_id`` (null in a table without windows),
    never what was found.
    """
    found = [pl.DataFrame(schema={"column": pl.String, _identify(table): pl.String})]
    # The other partition of the sources lists documents.
    wanted = [EXPORT_SOURCES] if table == "sources" else partitions
    known = read_hash_of_names(workspace)
    if pending := _find_pending_names(workspace, table, wanted, known):
        rows, keys = workspace.tables.read(table, [*pending]), [*pending]
        found.append(_find_names(workspace, table, rows, keys))
        # Exports that were changed since the last run may lack names.
        if found[-1].is_empty() and hash_names(workspace) == known:
            workspace.catalog.record(_NAMES.format(table), pending)
    if table == _MESSAGES:
        found += _find_others(workspace, partitions)
    return pl.concat(found)


def find_former_names(workspace: Workspace) -> set[str]:
    """List the partitions in which earlier runs wrote real names that are replaced now, as of members who joined later.

    Nothing is searched unless a name, or the code that finds names, is new since a search that found none.
    """
    pending = _find_pending_names(workspace, _MESSAGES, None, hash_names(workspace))
    named: dict[str, bool] = {}
    for key in pending:
        try:
            messages = workspace.tables.read(_MESSAGES, [key])
        except ContractError:
            continue  # the run makes it again, and says so
        named[key] = not _find_names(workspace, _MESSAGES, messages, [key]).is_empty()
    clean = {key: pending[key] for key, is_named in named.items() if not is_named}
    workspace.catalog.record(_NAMES.format(_MESSAGES), clean)
    return named.keys() - clean.keys()


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


def record_opted_out(workspace: Workspace, opted_out: pl.DataFrame) -> None:
    """Record who is out of which conversation (null: of all), as tables name them, for the search."""
    pairs = opted_out.filter("is_out").select("conversation_id", "author").sort(pl.all()).rows()
    workspace.catalog.record(_OPTED_OUT, {_PEOPLE: Entry("", json.dumps(pairs), len(pairs))})


def _identify(table: str) -> str:
    return "message_id" if table == _MESSAGES else "window_id"


def _find_pending_names(
    workspace: Workspace, table: str, partitions: Sequence[str] | None, names: str
) -> dict[str, Entry]:
    """Return what is recorded of the partitions that have not passed the search for names, once they have."""
    if not workspace.hides_names:
        return {}
    further = [names, read_forgotten(workspace.forgotten).fingerprint, workspace.settings.privacy.documents]
    columns = [SEARCHED_COLUMNS.get(table), read_agreed_names(workspace)]
    return _find_pending(workspace, _NAMES.format(table), table, partitions, [*further, digest_json(columns)])


def _find_pending(
    workspace: Workspace, kind: str, table: str, partitions: Sequence[str] | None, searched_for: Sequence[str]
) -> dict[str, Entry]:
    wanted = list(partitions) if partitions is not None else workspace.tables.keys(table)
    contents = {key: content for key, content in content_of(workspace, table, wanted).items() if content}
    inputs = {key: digest([*searched_for, content]) for key, content in contents.items()}
    pending = workspace.catalog.pending(kind, inputs, contents)
    return {key: Entry(inputs[key], contents[key], 0) for key in pending}


def _find_names(
    workspace: Workspace, table: str, rows: pl.DataFrame, partitions: Sequence[str]
) -> pl.DataFrame:
    """Search rows for authors' real names, which are read from the exports, because nothing else holds them."""
    if table == _MESSAGES:
        return find_real_names(rows, read_names(workspace))
    names, agreed = list_hidden_names(workspace), read_agreed_names(workspace)
    found = _find_cells(rows, SEARCHED_COLUMNS[table], names, agreed)
    if table == "contexts" and not found.is_empty():
        found = _leave_out_joints(workspace, found, partitions)
    return found.select("column", "window_id")


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


def _find_others(workspace: Workspace, partitions: Sequence[str] | None) -> list[pl.DataFrame]:
    """Find messages of people who opted out, and texts with contact data."""
    recorded = workspace.catalog.read(_OPTED_OUT).get(_PEOPLE)
    opted_out, scrub = recorded.content if recorded else "[]", workspace.settings.privacy.scrub
    people = pl.DataFrame(
        json.loads(opted_out), schema={"conversation_id": pl.String, "author": pl.String}, orient="row"
    )
    if people.is_empty() and not scrub:
        return []
    how = [opted_out, code_version(_MESSAGES), *scrub, str(workspace.settings.privacy.phone_region)]
    pending = _find_pending(workspace, _CONTACTS, _MESSAGES, partitions, how)
    rows = workspace.tables.read(_MESSAGES, [*pending])
    is_scrubbed = rows["text"].eq_missing(scrub_messages(workspace, rows)["text"])
    breaches = {"author": find_opted_out(rows, people), "text": rows.filter(~is_scrubbed)}
    found = [rows.select(pl.lit(name).alias("column"), "message_id") for name, rows in breaches.items()]
    if all(frame.is_empty() for frame in found):
        workspace.catalog.record(_CONTACTS, pending)
    return found
