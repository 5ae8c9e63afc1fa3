"""Searches what runs have stored for authors' real names, and remembers which partitions were clean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from backstory.ids import digest
from backstory.pipeline.incremental import content_of
from backstory.pipeline.readings import exports_fingerprint
from backstory.privacy import find_real_names
from backstory.tables import list_partitions, read_table
from backstory.tables.ledger import Entry
from backstory.workspace import Workspace

_CLEAN: Final = {"messages": "privacy", "posts": "privacy of posts"}
"""Names in the ledger of the partitions that were clean, by table."""


def find_privacy_breaches(workspace: Workspace, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    """Search the stored messages, from which all other tables are built, for authors' real names.

    The names are read from the exports, because nothing else holds them. Partitions that passed before and
    have not changed since are skipped.

    Args:
        workspace: An open workspace.
        partitions: Keys to search, or None for all.

    Returns:
        ``column`` and ``message_id`` of every breach, never the name. No rows if there is no breach, or if
        pseudonyms are switched off.
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
    if not workspace.settings.privacy.pseudonyms:
        return clean
    contents = content_of(workspace, table, wanted)
    fingerprint = exports_fingerprint(workspace)
    inputs = {key: digest([fingerprint, content]) for key, content in contents.items()}
    pending = workspace.ledger.pending(_CLEAN[table], inputs, contents)
    if not pending:
        return clean
    rows = read_table(workspace.tables, table, pending)
    breaches = clean
    if not rows.is_empty():
        names = workspace.last_reading.read_names(workspace.exports, workspace.settings.conversations)
        breaches = find_real_names(_gather_texts(rows) if table == "posts" else rows, names)
    if breaches.is_empty():
        workspace.ledger.record(_CLEAN[table], {key: Entry(inputs[key], contents[key], 0) for key in pending})
    return breaches


def _gather_texts(posts: pl.DataFrame) -> pl.DataFrame:
    """Give everything that was written of each window as one text, under the name that the search gives back."""
    written = [pl.col("title"), pl.col("tags").list.join("\n"), pl.col("text")]
    return posts.select(message_id="window_id", text=pl.concat_str(written, separator="\n"))
