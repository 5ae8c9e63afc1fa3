"""The assets of a workspace as specs: keys, groups, partitions and columns, without the functions that make them."""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg

from backstory.orchestration.partitions import partitions_definition
from backstory.tables.contracts import describe_table
from backstory.tables.schemas import TABLES
from backstory.workspace import open_workspace

_GROUPS = {
    "conversations": ("messages", "windows", "window_chunks"),
    "corpus": ("documents", "document_chunks", "search_index"),
    "retrieval": ("hits", "decisions", "contexts", "window_contexts"),
}
_UNPARTITIONED_GROUP = "corpus"
_SEARCH_INDEX = "The published snapshot of vectors and keywords."


def asset_specs(root: str | Path) -> list[dg.AssetSpec]:
    """Describe Backstory's assets to a code location that does not make them.

    Put them into its ``Definitions`` and depend on them: Dagster then knows their partitions and columns there.
    Where Backstory's own code location is loaded beside it, Dagster joins the two graphs by key.

    Args:
        root: Folder of the workspace; its settings say the grain and the start of the partitions.

    Returns:
        One spec per asset, in the order of the pipeline. The key is the name of the table, and ``search_index`` for the
        index, which is no table.

    Raises:
        WorkspaceError: The folder is not a workspace.
        SettingsError: Its settings are invalid.
    """
    partitions = partitions_definition(open_workspace(Path(root)).settings.partitions)
    return [
        dg.AssetSpec(
            table,
            description=(TABLES[table].__doc__ or "").split("\n", 1)[0] if table in TABLES else _SEARCH_INDEX,
            group_name=group,
            partitions_def=None if group == _UNPARTITIONED_GROUP else partitions,
            kinds={"parquet" if table in TABLES else "duckdb"},
            metadata=describe_columns(table) if table in TABLES else {},
        )
        for group, tables in _GROUPS.items()
        for table in tables
    ]


def describe_columns(table: str) -> Mapping[str, dg.TableSchema]:
    """Give the metadata of an asset's definition that Dagster shows as its columns.

    Args:
        table: Name of the table, one of :data:`backstory.tables.schemas.TABLES`.
    """
    columns = describe_table(TABLES[table])
    schema = dg.TableSchema(
        [dg.TableColumn(column.name, str(column.dtype), column.description) for column in columns]
    )
    return {"dagster/column_schema": schema}
