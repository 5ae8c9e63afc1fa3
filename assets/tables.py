"""The assets: one for each stage of the library's plan, made by one factory, and one for each table written beside."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from assets.metadata import describe_columns, describe_picture, describe_report
from assets.partitioning import BACKFILL, PREVIOUS_TOO
from assets.workspace_resource import WorkspaceResource
from backstory.pipeline import STAGES, Stage
from backstory.report import picture_windows
from backstory.tables.schemas import TABLES


@dataclass(frozen=True)
class Presentation:
    """What the Dagster UI shows of a table beyond what the library's plan says.

    Attributes:
        group: Group of assets.
        description: What a row is, and what is not obvious of it.
        kind: File format.
        picture: Whether a run draws the windows that it made.
    """

    group: str
    description: str
    kind: str = "parquet"
    picture: bool = False


PRESENTATIONS = {
    "messages": Presentation(
        "conversations",
        "Messages of all chat exports, authors as pseudonyms; unread lines are in `quarantine`.",
    ),
    "quarantine": Presentation(
        "conversations", "Lines and records of chat exports that could not be read; written with `messages`."
    ),
    "sources": Presentation(
        "conversations",
        "Every file of chats and documents, read or not, and why not; written with `messages` and `documents`.",
    ),
    "windows": Presentation(
        "conversations", "Windows of a partition's messages; the overlap is read from the partition before."
    ),
    "window_chunks": Presentation(
        "conversations", "Query chunks of each window, at every granularity that is set."
    ),
    "documents": Presentation("corpus", "Every revision of every document, with its status and error."),
    "document_chunks": Presentation("corpus", "Stored chunks of the documents that are searched."),
    "search_index": Presentation("corpus", "The published snapshot of vectors and keywords.", kind="duckdb"),
    "hits": Presentation("retrieval", "What each query chunk finds in the index."),
    "decisions": Presentation("retrieval", "Every hit, kept or dropped with its cause."),
    "contexts": Presentation(
        "retrieval", "The chosen chunks of each window, best first: what writer jobs read."
    ),
    "window_contexts": Presentation(
        "retrieval",
        "One row per window: status, prompt text, counts of every stage, coverage, verdict.",
        picture=True,
    ),
}


def make_assets(
    partitions: dg.PartitionsDefinition[str],
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Make all assets.

    Args:
        partitions: The calendar partitions of the workspace.

    Returns:
        An asset for each stage; and for each table that is written beside, which nothing can make alone, the
        specification of an external asset.
    """
    beside: dict[str, list[str]] = {}
    for stage in STAGES:
        for table in stage.writes_beside:
            beside.setdefault(table, []).append(stage.table)
    assets = [_make_asset(stage, partitions if stage.partitioned else None) for stage in STAGES]
    return [*assets, *(_specify_beside(table, writers) for table, writers in beside.items())]


def _make_asset(stage: Stage, partitions: dg.PartitionsDefinition[str] | None) -> dg.AssetsDefinition:
    shown = PRESENTATIONS[stage.table]

    @dg.asset(
        name=stage.table,
        group_name=shown.group,
        description=shown.description,
        kinds={shown.kind},
        metadata=describe_columns(stage.table) if stage.table in TABLES else None,
        partitions_def=partitions,
        backfill_policy=BACKFILL if partitions else None,
        deps=[
            dg.AssetDep(table, partition_mapping=PREVIOUS_TOO if table in stage.reads_previous else None)
            for table in stage.reads
        ],
    )
    def make(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
        keys: Sequence[str] = context.partition_keys if partitions else ()
        report = stage.make(workspace.workspace, keys)
        for table in stage.writes_beside:
            context.log_event(dg.AssetMaterialization(table))
        picture = describe_picture(picture_windows(workspace.workspace, keys)) if shown.picture else {}
        return dg.MaterializeResult(metadata=describe_report(report) | picture)

    return make


def _specify_beside(table: str, writers: Sequence[str]) -> dg.AssetSpec:
    shown = PRESENTATIONS[table]
    return dg.AssetSpec(
        table,
        deps=writers,
        group_name=shown.group,
        description=shown.description,
        kinds={shown.kind},
        metadata=describe_columns(table),
    )
