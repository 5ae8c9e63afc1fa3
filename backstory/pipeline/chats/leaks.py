"""The search of stored tables for what must not be in them, which remembers the partitions that were clean.

That is: authors' real names, messages of people who opted out, and contact data that ``privacy.scrub`` lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import digest, digest_json
from backstory.ingest.privacy.exclusions import Forgotten, find_opted_out
from backstory.ingest.privacy.names import Place
from backstory.ingest.privacy.pseudonyms import find_naming_texts, find_real_names
from backstory.pipeline.chats.exports_reading import EXPORT_SOURCES, scrub_messages
from backstory.pipeline.chats.named_documents import list_hidden_names, make_contact_scrub, scrub_contacts
from backstory.pipeline.chats.people import hash_names, read_names, read_people, show_chunks
from backstory.pipeline.chats.stored_messages import PARTITIONED
from backstory.pipeline.incremental.inputs import content_of
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.passages.provenance import find_quotes, quote_chunk
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.text.layout import MESSAGE_SEPARATOR
from backstory.text.people import Discretion, FindLeaks
from backstory.text.prompts.entries import MESSAGE_AUTHOR

_MESSAGES: Final = "messages"
_OPTED_OUT: Final = "opted out"

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

_SHOWN: Final[Mapping[str, Place]] = dict.fromkeys(("title", "tags", "content", "passage"), "message")
"""Columns of the contexts with texts of documents, in which the names of members are replaced."""


def find_leaks(workspace: Workspace, table: str, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    """Search a table for what must not be in it, but for partitions that passed and have not changed since.

    In the messages that is real names, messages of people who opted out before the last run, and contact data. The
    other tables are searched for names, which a model may write that no message of its window holds. Text of documents
    is published as it is, and not searched. It returns ``column`` of every cell with its ``message_id`` or
    ``window_id`` (null in a table without windows), never what was found.
    """
    identifier = "message_id" if table == _MESSAGES else "window_id"
    found = [pl.DataFrame(schema={"column": pl.String, identifier: pl.String})]
    # The other partition of the sources lists documents.
    wanted = [EXPORT_SOURCES] if table == "sources" else partitions
    known, columns = read_people(workspace).real, SEARCHED_COLUMNS.get(table, {})
    if pending := _find_pending(workspace, table, columns, wanted, known):
        found.append(_find_names(workspace, table, columns, [*pending], _list_names(workspace, table)))
        # Exports that were changed since the last run may lack names.
        if found[-1].is_empty() and hash_names(workspace) == known:
            workspace.catalog.record(_name_passed(table, columns), pending)
    if table == _MESSAGES:
        found += _find_others(workspace, partitions)
    return pl.concat(found)


def find_former_names(workspace: Workspace) -> set[str]:
    """List the partitions in which earlier runs wrote real names that are replaced now, as of members who joined later.

    Nothing is searched unless a name, or the code that finds names, is new since a search that found none.
    """
    known, named = hash_names(workspace), set[str]()
    searched = [(table, SEARCHED_COLUMNS.get(table, {})) for table in PARTITIONED if table != "hits"]
    if workspace.settings.privacy.documents == "replace":
        searched.append(("contexts", _SHOWN))
    for table, columns in searched:
        pending = _find_pending(workspace, table, columns, None, known)
        names = _list_names(workspace, table) if pending else []
        clean = {}
        for key, entry in pending.items():
            with suppress(ContractError):  # the run makes it again, and says so
                if _find_names(workspace, table, columns, [key], names).is_empty():
                    clean[key] = entry
                else:
                    named.add(key)
        workspace.catalog.record(_name_passed(table, columns), clean)
    return named


def make_leak_finder(workspace: Workspace) -> FindLeaks:
    """Make the function that finds the texts of models that hold a real name; any thread may call it.

    The names are read from the exports before it is returned. Where no author is hidden, it finds nothing.
    """
    if not workspace.settings.privacy.pseudonyms:
        return lambda _: ()
    names, agreed = list_hidden_names(workspace), read_people(workspace).agreed.values()
    return lambda texts: find_naming_texts(texts, names, agreed)


def make_discretion(workspace: Workspace) -> Discretion:
    """Make what a post may say about people, by the settings; see :func:`make_leak_finder`."""
    rule, find_names = workspace.settings.privacy.documents, make_leak_finder(workspace)
    if rule != "reject":
        return Discretion(find_names, make_contact_scrub(workspace), rule)
    scrub_text = partial(scrub_contacts, region=workspace.settings.privacy.phone_region)
    return Discretion(
        lambda texts: {*find_names(texts), *(text for text in texts if scrub_text(text) != text)}, rule=rule
    )


def record_opted_out(workspace: Workspace, opted_out: pl.DataFrame) -> None:
    """Record who is out of which conversation (null: of all), as tables name them, for the search."""
    pairs = opted_out.filter("is_out").select("conversation_id", "author").sort(pl.all()).rows()
    workspace.catalog.record(_OPTED_OUT, {WHOLE: Entry("", json.dumps(pairs), len(pairs))})


def _find_pending(
    workspace: Workspace,
    table: str,
    columns: Mapping[str, Place],
    partitions: Sequence[str] | None,
    names: str,
) -> dict[str, Entry]:
    """Return what is recorded of the partitions that have not passed the search for names, once they have."""
    if not workspace.hides_names:
        return {}
    wanted = list(partitions) if partitions is not None else workspace.tables.keys(table)
    contents = {key: content for key, content in content_of(workspace, table, wanted).items() if content}
    agreed = sorted(read_people(workspace).agreed.values())
    further = [Forgotten.read(workspace.forgotten).fingerprint, workspace.settings.privacy.documents]
    searched_for = [names, digest_json([columns, agreed]), *further]
    inputs = {key: digest([*searched_for, content]) for key, content in contents.items()}
    pending = workspace.catalog.pending(_name_passed(table, columns), inputs, contents)
    return {key: Entry(inputs[key], contents[key], 0) for key in pending}


def _name_passed(table: str, columns: Mapping[str, Place]) -> str:
    return f"names in {table}: {', '.join(columns)}"


def _list_names(workspace: Workspace, table: str) -> list[str]:
    """Read the names that must not be in a table from the exports, because nothing else holds them."""
    return read_names(workspace) if table == _MESSAGES else list_hidden_names(workspace)


def _find_names(
    workspace: Workspace,
    table: str,
    columns: Mapping[str, Place],
    partitions: Sequence[str],
    names: Sequence[str],
) -> pl.DataFrame:
    rows, agreed = workspace.tables.read(table, partitions), read_people(workspace).agreed.values()
    if table == _MESSAGES:
        return find_real_names(rows, names)
    identifier = "window_id" if "window_id" in rows.columns else pl.lit(None, pl.String).alias("window_id")
    found = [pl.DataFrame(schema={"column": pl.String, "window_id": pl.String, "part": pl.String})]
    for column, place in columns.items():
        cells = rows.select(pl.lit(column).alias("column"), identifier, part=_list_parts(rows, column))
        parts = cells.with_row_index("cell").explode("part")
        texts = parts["part"].drop_nulls().unique()
        if place == "message":
            held = find_naming_texts(texts, names, agreed)
        else:
            values = pl.DataFrame({"message_id": texts, "source": texts})
            held = set(find_real_names(values, names)["message_id"])
        found.append(
            parts.filter(pl.col("part").is_in(list(held))).unique("cell", maintain_order=True).drop("cell")
        )
    cells = pl.concat(found)
    if "serves" in columns and not cells.is_empty():
        cells = _leave_out_joints(workspace, cells, partitions)
    return cells.select("column", "window_id")


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
    quoted = found.with_columns(quote=find_quotes(found["part"]))
    return quoted.join(quotes.cast(pl.String), on=["window_id", "quote"], how="anti")


def _find_others(workspace: Workspace, partitions: Sequence[str] | None) -> list[pl.DataFrame]:
    """Find messages of people who opted out, and texts with contact data."""
    recorded = workspace.catalog.read(_OPTED_OUT).get(WHOLE)
    schema = {"conversation_id": pl.String, "author": pl.String}
    people = pl.DataFrame(json.loads(recorded.content) if recorded else [], schema=schema, orient="row")
    if people.is_empty() and not workspace.settings.privacy.scrub:
        return []
    rows = workspace.tables.read(_MESSAGES, partitions)
    is_scrubbed = rows["text"].eq_missing(scrub_messages(workspace, rows)["text"])
    breaches = {"author": find_opted_out(rows, people), "text": rows.filter(~is_scrubbed)}
    return [rows.select(pl.lit(name).alias("column"), "message_id") for name, rows in breaches.items()]
