"""The stored messages, and the calendar partitions of all tables that follow from them."""

from __future__ import annotations

import logging
from typing import Final

import polars as pl

from backstory.errors import ContractError, DamagedTableError
from backstory.tables import list_partitions, read_table, write_partition
from backstory.tables.contracts import empty
from backstory.tables.partitions import partition_keys
from backstory.tables.schemas import TABLES, Messages
from backstory.workspace import Workspace

logger = logging.getLogger(__name__)

PARTITIONED: Final = (
    *("messages", "windows", "window_chunks", "hits", "decisions", "contexts", "window_contexts", "posts"),
)
"""Tables with calendar partitions, in the order in which data flows."""


def read_intact_messages(workspace: Workspace) -> pl.DataFrame:
    """Read the stored messages, without partitions whose files differ from those written or have other columns.

    The run rebuilds these partitions from the exports. Their old content cannot be compared with the exports.
    """
    intact = [empty(Messages)]
    damaged = []
    for key in list_partitions(workspace.tables, "messages"):
        try:
            intact.append(read_table(workspace.tables, "messages", [key]))
        except (DamagedTableError, ContractError):
            damaged.append(key)
    if damaged:
        logger.warning(
            "messages of %s cannot be compared with the exports, since the file is damaged or of another version of "
            "Backstory (%d such files): whether "
            "the exports have lost messages of these days is not known",
            damaged[0],
            len(damaged),
        )
    return pl.concat(intact)


def span_of(workspace: Workspace, messages: pl.DataFrame) -> tuple[str, str]:
    """Return the keys of the first and last partition with messages; without messages, an empty range."""
    keys = partition_keys(messages["timestamp"], workspace.settings.partitions.grain)
    return (str(keys.min()), str(keys.max())) if len(keys) else ("~", "")


def drop_outside(workspace: Workspace, messages: pl.DataFrame) -> None:
    """Empty the partitions of all tables before the first message or after the last one.

    Args:
        workspace: An open workspace.
        messages: All messages.
    """
    first, last = span_of(workspace, messages)
    # The table of messages comes last, so that a run after a killed process finds the same partitions.
    for table in reversed(PARTITIONED):
        outside = [key for key in list_partitions(workspace.tables, table) if key < first or key > last]
        workspace.ledger.forget(table, outside)
        for key in outside:
            write_partition(workspace.tables, table, key, empty(TABLES[table]))
