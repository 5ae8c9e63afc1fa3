"""Searches what runs have stored for what must not be there, and remembers which partitions were clean.

That is: authors' real names, messages of people who opted out, and contact data that ``privacy.scrub`` lists.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import polars as pl

from backstory.ids import digest, digest_json
from backstory.pipeline.incremental import content_of
from backstory.pipeline.readings import exports_fingerprint, find_opted_out, scrub_messages
from backstory.privacy import find_real_names
from backstory.tables import list_partitions, read_table
from backstory.tables.ledger import Entry
from backstory.workspace import Workspace

_OPTED_OUT: Final = "opted out"
_PEOPLE: Final = "people"
_CLEAN: Final = {"messages": "privacy", "posts": "privacy of posts"}
"""Names in the ledger of the partitions that were clean, by table."""


def find_privacy_breaches(workspace: Workspace, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    """Search the stored messages, from which all other tables are built, for what must not be in them.

    That is: authors' real names, which are read from the exports, because nothing else holds them; messages of people
    who opted out before the last run; and contact data that ``privacy.scrub`` lists. Partitions that passed before and
    have not changed since are skipped.

    Args:
        workspace: An open workspace.
        partitions: Keys to search, or None for all.

    Returns:
        ``column`` and ``message_id`` of every breach, never what was found. Names are not searched for if pseudonyms
        are switched off.
    """
    return _search(workspace, "messages", partitions)


def find_names_in_posts(workspace: Workspace, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    """Search the titles, tags and texts of the stored posts and drafts for authors' real names.

    A model may write a name that no message of its window holds, such as one that a document tells it. Files that a
    person has edited are not searched.

    Args:
        workspace: An open workspace.
        partitions: Keys to search, or None for all; those that passed before are skipped as for messages.

    Returns:
        ``window_id`` of every post that holds a name, never the name; no rows if pseudonyms are switched off.
    """
    return _search(workspace, "posts", partitions).select(window_id="message_id").unique(maintain_order=True)


def _search(workspace: Workspace, table: str, partitions: Sequence[str] | None) -> pl.DataFrame:
    wanted = list(partitions) if partitions is not None else list_partitions(workspace.tables, table)
    clean = pl.DataFrame(schema={"column": pl.String, "message_id": pl.String})
    privacy = workspace.settings.privacy
    opted_out = _read_opted_out(workspace) if table == "messages" else []
    may_hold_others = bool(table == "messages" and (opted_out or privacy.scrub))
    if not privacy.pseudonyms and not may_hold_others:
        return clean
    contents = content_of(workspace, table, wanted)
    fingerprint = exports_fingerprint(workspace)
    out = digest_json(opted_out, length=16)
    inputs = {key: digest([fingerprint, out, content]) for key, content in contents.items()}
    pending = workspace.ledger.pending(_CLEAN[table], inputs, contents)
    if not pending:
        return clean
    rows = read_table(workspace.tables, table, pending)
    breaches = _find_others(workspace, rows, opted_out) if may_hold_others else clean
    if privacy.pseudonyms and not rows.is_empty():
        names = workspace.last_reading.read_names(workspace.exports, workspace.settings.conversations)
        named = find_real_names(_gather_texts(rows) if table == "posts" else rows, names)
        breaches = pl.concat([breaches, named])
    if breaches.is_empty():
        workspace.ledger.record(_CLEAN[table], {key: Entry(inputs[key], contents[key], 0) for key in pending})
    return breaches


def record_opted_out(workspace: Workspace, opted_out: pl.DataFrame) -> None:
    """Record who is out of which conversation (null: of all), as tables name them, for the search."""
    pairs = opted_out.filter("is_out").select("conversation_id", "author").sort(pl.all()).rows()
    workspace.ledger.record(_OPTED_OUT, {_PEOPLE: Entry("", json.dumps(pairs), len(pairs))})


def _read_opted_out(workspace: Workspace) -> list[list[str | None]]:
    recorded = workspace.ledger.read(_OPTED_OUT).get(_PEOPLE)
    return json.loads(recorded.content) if recorded else []


def _find_others(workspace: Workspace, rows: pl.DataFrame, opted_out: list[list[str | None]]) -> pl.DataFrame:
    """Find messages of people who opted out, and texts with contact data."""
    pairs = pl.DataFrame(opted_out, schema={"conversation_id": pl.String, "author": pl.String}, orient="row")
    of_people = find_opted_out(rows, pairs)
    is_scrubbed = rows["text"].eq_missing(scrub_messages(workspace, rows)["text"])
    columns = (("author", of_people), ("text", rows.filter(~is_scrubbed)))
    return pl.concat([found.select(pl.lit(name).alias("column"), "message_id") for name, found in columns])


def _gather_texts(posts: pl.DataFrame) -> pl.DataFrame:
    """Give everything that was written of each window as one text, under the name that the search gives back."""
    written = [pl.col("title"), pl.col("tags").list.join("\n"), pl.col("text")]
    return posts.select(message_id="window_id", text=pl.concat_str(written, separator="\n"))
