"""The tables of a workspace as a Dagster resource."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import polars as pl

from backstory.pipeline.workspace import open_workspace
from backstory.storage.tables.tables import Tables
from backstory.storage.tables.views import connect

if TYPE_CHECKING:
    import ibis


class TablesResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Reads the tables of a workspace; never writes.

    Attributes:
        root: Folder of the workspace.
    """

    root: str

    def read(self, table: str, partitions: Sequence[str] | None = None) -> pl.DataFrame:
        """Read partitions of a table.

        Args:
            table: Name of the table, one of :data:`backstory.storage.tables.schemas.TABLES`.
            partitions: Partition keys, such as ``context.partition_keys``; None for all partitions.

        Returns:
            The rows, ordered by partition key; an absent partition has no rows.

        Raises:
            WorkspaceError: The folder is not a workspace.
            InputError: The table or a partition's key is not valid.
            ContractError: A file is damaged, or was written by another version of Backstory.
        """
        return self._tables.read(table, partitions)

    def connect(self) -> "ibis.BaseBackend":
        """Open the tables through Ibis: an in-memory DuckDB with one view per table over the stored files.

        Raises:
            WorkspaceError: The folder is not a workspace.
            MissingExtraError: Ibis is not installed.
        """
        return connect(self._tables)

    @cached_property
    def _tables(self) -> Tables:
        return open_workspace(Path(self.root)).tables
