"""The stored messages, and the calendar partitions of all tables that follow from them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from typing import Final

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import digest
from backstory.base.wording import name_some
from backstory.pipeline.incremental.inputs import content_of, read_table_rows
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.partitions import partition_keys, previous_partition
from backstory.storage.tables.schemas import Messages

_NAMED: Final = 5

logger = logging.getLogger(__name__)

PARTITIONED: Final = (
    *("messages", "windows", "window_chunks", "hits", "decisions", "contexts", "window_contexts", "posts"),
)
"""Tables with calendar partitions, in the order in which data flows."""


def read_intact_messages(workspace: Workspace) -> pl.DataFrame:
    """Read the stored messages, without partitions whose files differ from those written or have other columns.

    The run rebuilds these partitions from the exports. Their old content cannot be compared with the exports.
    """
    try:
        return workspace.tables.read("messages")
    except ContractError:
        intact, damaged = [empty(Messages)], []
    for key in workspace.tables.keys("messages"):
        try:
            intact.append(workspace.tables.read("messages", [key]))
        except ContractError:
            damaged.append(key)
    if damaged:
        logger.warning(
            "whether the exports have lost messages of %s cannot be told, since the files of the table are damaged or "
            "of another version of Backstory",
            name_some(damaged, _NAMED),
        )
    return pl.concat(intact)


def read_with_previous(workspace: Workspace, partitions: Sequence[str]) -> pl.DataFrame:
    """Read the messages of partitions that were built, and of the partition before each."""
    grain = workspace.settings.partitions.grain
    wanted = sorted({*partitions, *(previous_partition(key, grain) for key in partitions)})
    # The partition before the first one may not exist. The wanted partitions must exist.
    made = workspace.catalog.read("messages")
    messages = read_table_rows(
        workspace, "messages", [key for key in wanted if key in made or key in partitions]
    )
    return messages.with_columns(partition_keys(messages, grain))


def hash_read_messages(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    """Hash for each partition the messages that its windows hold: where windows overlap, also those before it.

    The windows name messages by their ids, which an edited message keeps, so that a stage that reads the messages of
    windows must not rest on the table of windows alone.
    """
    settings = workspace.settings
    read = {key: [key] for key in partitions}
    if settings.windows.overlap:
        read = {key: [key, previous_partition(key, settings.partitions.grain)] for key in partitions}
    contents = content_of(workspace, "messages", [*chain(*read.values())])
    return {key: digest(contents[one] for one in keys) for key, keys in read.items()}
