"""The assets of a workspace as specs: all that Dagster knows of them but the functions that make them."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import dagster as dg

from backstory.orchestration.partitions import partitions_definition
from backstory.pipeline import STAGES
from backstory.tables.contracts import describe_table
from backstory.tables.schemas import TABLES
from backstory.workspace import open_workspace


class _Shown(NamedTuple):
    group: str
    description: str
    kind: str = "parquet"


_SHOWN = {
    "messages": _Shown(
        "conversations",
        "Messages of all chat exports, authors as pseudonyms; unread lines are in `quarantine`.",
    ),
    "quarantine": _Shown(
        "conversations", "Lines and records of chat exports that could not be read; written with `messages`."
    ),
    "sources": _Shown(
        "conversations",
        "Every file of chats and documents, read or not, and why not; written with `messages` and `documents`.",
    ),
    "windows": _Shown(
        "conversations", "Windows of a partition's messages; the overlap is read from the partition before."
    ),
    "window_chunks": _Shown(
        "conversations", "Query chunks of each window, at every granularity that is set."
    ),
    "documents": _Shown("corpus", "Every revision of every document, with its status and error."),
    "document_chunks": _Shown("corpus", "Stored chunks of the documents that are searched."),
    "search_index": _Shown("corpus", "The published snapshot of vectors and keywords.", kind="duckdb"),
    "hits": _Shown("retrieval", "What each query chunk finds in the index."),
    "decisions": _Shown("retrieval", "Every hit, kept or dropped with its cause."),
    "contexts": _Shown("retrieval", "The chosen chunks of each window, best first: what writer jobs read."),
    "window_contexts": _Shown(
        "retrieval", "One row per window: status, prompt text, counts of every stage, coverage, verdict."
    ),
}

# Overlap messages of a window come from the partition before; the first partition has none before it.
_PREVIOUS_TOO = dg.TimeWindowPartitionMapping(start_offset=-1, allow_nonexistent_upstream_partitions=True)


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
    return specify_assets(partitions_definition(open_workspace(Path(root)).settings.partitions))


def specify_assets(partitions: dg.TimeWindowPartitionsDefinition) -> list[dg.AssetSpec]:
    """Describe the assets of every workspace that has these partitions.

    Args:
        partitions: The calendar partitions.

    Returns:
        One spec for each stage, and then one for each table that stages write in passing.
    """
    beside: dict[str, list[str]] = {}
    for stage in STAGES:
        for table in stage.writes_beside:
            beside.setdefault(table, []).append(stage.table)
    specs = [
        _specify(
            stage.table,
            [
                dg.AssetDep(table, partition_mapping=_PREVIOUS_TOO if table in stage.reads_previous else None)
                for table in stage.reads
            ],
            partitions if stage.partitioned else None,
        )
        for stage in STAGES
    ]
    return [
        *specs,
        *(_specify(table, [*map(dg.AssetDep, writers)], None) for table, writers in beside.items()),
    ]


def _specify(
    table: str, reads: list[dg.AssetDep], partitions: dg.TimeWindowPartitionsDefinition | None
) -> dg.AssetSpec:
    shown = _SHOWN[table]
    return dg.AssetSpec(
        table,
        deps=reads,
        description=shown.description,
        group_name=shown.group,
        kinds={shown.kind},
        metadata=_describe_columns(table) if table in TABLES else None,
        partitions_def=partitions,
    )


def _describe_columns(table: str) -> Mapping[str, dg.TableSchema]:
    """Give the metadata that Dagster shows as an asset's columns."""
    columns = describe_table(TABLES[table])
    schema = dg.TableSchema(
        [dg.TableColumn(column.name, str(column.dtype), column.description) for column in columns]
    )
    return {"dagster/column_schema": schema}
