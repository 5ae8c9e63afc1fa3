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
    """Reads the tables of the workspace in the folder ``root``; never writes."""

    root: str

    def read(self, table: str, partitions: Sequence[str] | None = None) -> pl.DataFrame:
        """Read all partitions of a table, or some, such as ``context.partition_keys``; an absent one has no rows."""
        return self._tables.read(table, partitions)

    def connect(self) -> "ibis.BaseBackend":
        """Open the tables through Ibis: an in-memory DuckDB with one view per table over the stored files."""
        return connect(self._tables)

    @cached_property
    def _tables(self) -> Tables:
        return open_workspace(Path(self.root)).tables
