"""The assets of a workspace as Dagster specs with their partitions, without the functions that build them."""

from datetime import UTC, datetime, timedelta
from inspect import cleandoc
from pathlib import Path
from typing import Final

import dagster as dg

from backstory.base.ids import digest_json
from backstory.pipeline.incremental.inputs import code_version, name_groups
from backstory.pipeline.run.plan import CORPUS, SEARCHED, STAGES
from backstory.pipeline.stages.messages import known_first_partition
from backstory.pipeline.stages.stage import Stage
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.models import PartitionSettings
from backstory.storage.tables.partitions import partition_key
from backstory.storage.tables.schemas import TABLES

CHATS: Final = "chats"
DOCUMENT_FILES: Final = "document_files"
SOURCES: Final = (CHATS, DOCUMENT_FILES)
"""Names of the source assets, which Backstory reads and never writes."""

_FRESHNESS: Final = dg.FreshnessPolicy.time_window(
    fail_window=timedelta(days=7), warn_window=timedelta(days=2)
)
_NO_WRITER: Final = (
    "\n\n**No writer is set**, so there are no rows: `writers.provider` names one (docs/configuration.md)."
)
_DESCRIPTIONS: Final = {
    CHATS: "Chat exports as people put them into the workspace; never changed.",
    DOCUMENT_FILES: "Documents for the contexts of windows; never changed.",
    "search_index": "The published snapshot of vectors and keywords.",
}
_KINDS: Final = {CHATS: "file", DOCUMENT_FILES: "markdown", "search_index": "duckdb", "posts": "markdown"}
_READ_FROM_OUTSIDE: Final = {"messages": CHATS, "documents": DOCUMENT_FILES}
_SCHEDULES: Final = {
    "hour": ("0 * * * *", "%Y-%m-%dT%H"),
    "day": ("0 0 * * *", "%Y-%m-%d"),
    "week": ("0 0 * * 1", "%Y-%m-%d"),
    "month": ("0 0 1 * *", "%Y-%m-%d"),
}


def asset_specs(root: str | Path) -> list[dg.AssetSpec]:
    """Describe the assets of a workspace for a code location that does not build them: sources, then tables.

    Add the specs to its ``Definitions`` and depend on them, so that Dagster knows their partitions and columns. If
    Backstory's own code location is loaded, too, Dagster joins the two graphs by key. The last part of a key is the
    name of the table, or ``search_index``; the setting ``orchestration.key_prefix`` stands before it.
    """
    workspace = open_workspace(Path(root))
    return [*specify_sources(workspace), *specify_assets(workspace)]


def asset_key(workspace: Workspace, name: str) -> dg.AssetKey:
    """Return the key of a table, ``search_index`` or source asset, after ``orchestration.key_prefix`` if it is set."""
    prefix = workspace.settings.orchestration.key_prefix
    return dg.AssetKey([name] if prefix is None else [prefix, name])


def name_of(key: dg.AssetKey) -> str:
    """Return the name of the table or source of an asset, without the prefix."""
    return key.path[-1]


def specify_sources(workspace: Workspace) -> list[dg.AssetSpec]:
    """Describe the source assets of a workspace: the chats and the documents."""
    return [_specify(workspace, name, []) for name in SOURCES]


def specify_assets(workspace: Workspace) -> list[dg.AssetSpec]:
    """Describe the assets that Backstory builds: one per stage, then one per table that stages write as a by-product.

    Each partition depends on the same partition of the upstream assets, although windows may also read the one before.
    """
    specs = []
    beside: dict[str, list[str]] = {}
    for stage in STAGES:
        outside = [_READ_FROM_OUTSIDE[stage.table]] if stage.table in _READ_FROM_OUTSIDE else []
        specs.append(_specify(workspace, stage.table, [*outside, *stage.reads], stage))
        for table in stage.side_outputs:
            beside.setdefault(table, []).extend(outside)
    return specs + [_specify(workspace, table, reads) for table, reads in beside.items()]


def specify_code_version(workspace: Workspace, stage: type[Stage]) -> str:
    """Return the code version of a stage: the version of its code and a hash of the settings that it may read.

    After a change, the UI shows the asset as out of date.
    """
    settings = workspace.settings.model_dump(mode="json")
    read = {group: settings[group] for group in name_groups(stage.table)}
    return f"{code_version(stage.table)}-{digest_json(read, length=8)}"


def _specify(
    workspace: Workspace, name: str, reads: list[str], stage: type[Stage] | None = None
) -> dg.AssetSpec:
    """Describe the table of a stage, or a table or source that no stage has as its own."""
    group = _name_group(name)
    table = TABLES.get(name)
    description = _DESCRIPTIONS[name] if table is None else cleandoc(table.__doc__ or "")
    if name == "posts" and workspace.settings.writers.provider == "none":
        description += _NO_WRITER
    columns = [
        dg.TableColumn(column.name, str(column.dtype), column.description)
        for column in (table.columns if table else ())
    ]
    return dg.AssetSpec(
        asset_key(workspace, name),
        deps=[asset_key(workspace, read) for read in reads],
        description=description.replace("``", "`"),
        group_name=group,
        kinds={_KINDS.get(name, "parquet")},
        owners=["team:backstory"],
        tags={"layer": group},
        code_version=specify_code_version(workspace, stage) if stage else None,
        metadata={"dagster/column_schema": dg.TableSchema(columns)} if columns else {},
        partitions_def=partitions_of(workspace) if stage and stage.partitioned else None,
        freshness_policy=None if name in SOURCES else _FRESHNESS,
    )


def _name_group(name: str) -> str:
    if name in SOURCES:
        return "inputs"
    if name == "posts":
        return "writers"
    if name in SEARCHED:
        return "retrieval"
    return "corpus" if name in {stage.table for stage in CORPUS} else "conversations"


def partitions_definition(
    settings: PartitionSettings, first_message: str | None = None, timezone: str = "UTC"
) -> dg.TimeWindowPartitionsDefinition:
    """Define time partitions from the first day of the settings, else from that of the first message, else from today.

    ``first_message`` is the key of its partition. Hours are those of UTC, whatever the time zone of the calendar.
    """
    cron_schedule, form = _SCHEDULES[settings.grain]
    if settings.start is None and first_message is not None:
        start = first_message
    else:
        today = datetime.now(UTC)
        first_day = datetime.fromisoformat(settings.start).replace(tzinfo=UTC) if settings.start else today
        start = partition_key(first_day, settings.grain, "UTC" if settings.start else timezone)
    return dg.TimeWindowPartitionsDefinition(
        start=start,
        fmt=form,
        cron_schedule=cron_schedule,
        timezone="UTC" if settings.grain == "hour" else timezone,
    )


def partitions_of(workspace: Workspace) -> dg.TimeWindowPartitionsDefinition:
    """Define the time partitions of a workspace from the setting ``partitions.start``, else from its first message.

    The exports are not read: the date of the first message is the one that the last run stored.
    """
    settings = workspace.settings
    return partitions_definition(
        settings.partitions, known_first_partition(workspace), settings.conversations.timezone
    )
