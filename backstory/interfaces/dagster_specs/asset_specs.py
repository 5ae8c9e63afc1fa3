"""The assets of a workspace as Dagster specs, without the functions that build them."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import dagster as dg

from backstory.base.ids import digest_json
from backstory.interfaces.dagster_specs.asset_keys import CHATS, DOCUMENT_FILES, asset_key
from backstory.interfaces.dagster_specs.partitions import partitions_of
from backstory.pipeline.incremental.fingerprints import code_version, name_groups
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.stages.stage import Stage
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.schemas import TABLES

SOURCES: Final = (CHATS, DOCUMENT_FILES)
"""Names of all source assets, which Backstory reads and never writes."""

_OWNER = "team:backstory"
_NO_WRITER = (
    "\n\n**No writer is set**, so there are no rows: `writers.provider` names one (docs/configuration.md)."
)
_STALE_AFTER = timedelta(days=7)
_LATE_AFTER = timedelta(days=2)


class _Shown(NamedTuple):
    group: str
    description: str
    kind: str = "parquet"


_SHOWN = {
    CHATS: _Shown("inputs", "Chat exports as people put them into the workspace; never changed.", "file"),
    DOCUMENT_FILES: _Shown("inputs", "Documents for the contexts of windows; never changed.", "markdown"),
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
        "conversations",
        "Windows of a partition's messages; overlapping messages are read from the partition before.",
    ),
    "window_chunks": _Shown(
        "conversations", "Query chunks of each window, at every granularity that is set."
    ),
    "documents": _Shown("corpus", "Every revision of every document, with its status and error."),
    "document_chunks": _Shown("corpus", "Stored chunks of the documents that are searched."),
    "search_index": _Shown("corpus", "The published snapshot of vectors and keywords.", kind="duckdb"),
    "hits": _Shown("retrieval", "What each query chunk finds in the index."),
    "decisions": _Shown("retrieval", "Every hit, chosen or dropped with its cause."),
    "contexts": _Shown(
        "retrieval",
        "The chosen chunks of each window, best first, each with the passage that serves the window.",
    ),
    "window_contexts": _Shown(
        "retrieval", "One row per window: status, prompt text, counts of every stage, coverage, verdict."
    ),
    "posts": _Shown(
        "writers",
        "One row per window: its post, or why there is none. `writers.folder` names the folder of its file.",
        "markdown",
    ),
}

_SOURCE_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    CHATS: {
        "file": "Path of the export, relative to the folder of exports.",
        "time": "Time of a message or line, as the export writes it.",
        "author": "Name or number of the author; no table holds it while `privacy.pseudonyms` is on.",
        "text": "Text of a message or line.",
        "message": "Other fields of a message on the platform: id, answered message, reactions, edits.",
    },
    DOCUMENT_FILES: {
        "path": "Path of the file, relative to the folder of documents.",
        "front_matter": "Fields between the lines of `---` or `+++`, such as title, date and tags.",
        "body": "Text without the front matter.",
    },
}
"""The columns of the people's files, by source asset."""

_READ_FROM_OUTSIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "messages": (CHATS,),
    "documents": (DOCUMENT_FILES,),
}


def asset_specs(root: str | Path) -> list[dg.AssetSpec]:
    """Describe Backstory's assets for a code location that does not build them.

    Add the specs to its ``Definitions`` and depend on them, so that Dagster knows their partitions and columns.
    If Backstory's own code location is loaded, too, Dagster joins the two graphs by key. The keys begin with the
    setting ``orchestration.key_prefix``, if it is set.

    Args:
        root: Folder of the workspace; its settings define the grain and the start of the partitions.

    Returns:
        One spec per asset: the sources, then the tables in the order of the pipeline. The last part of the key is
        the name of the table; the search index, which is not a table, has the key ``search_index``.

    Raises:
        WorkspaceError: The folder is not a workspace.
        SettingsError: Its settings are invalid.
    """
    workspace = open_workspace(Path(root))
    return [*specify_sources(workspace), *specify_assets(workspace)]


def specify_sources(workspace: Workspace) -> list[dg.AssetSpec]:
    """Describe the source assets of a workspace: the chats and the posts."""
    return [_specify(workspace, name, [], None, None) for name in SOURCES]


def specify_assets(workspace: Workspace) -> list[dg.AssetSpec]:
    """Describe the assets that Backstory builds.

    Each partition of an asset depends on the same partition of the upstream assets. Overlapping windows also read the
    previous partition. After a late message there, the catalog reports both partitions as changed.

    Args:
        workspace: An open workspace.

    Returns:
        One spec per stage, then one per table that stages write as a by-product.
    """
    partitions = partitions_of(workspace)
    beside: dict[str, list[str]] = {}
    for stage in STAGES:
        for table in stage.side_outputs:
            beside.setdefault(table, []).append(stage.table)
    return [
        *(
            _specify(
                workspace,
                stage.table,
                [*_READ_FROM_OUTSIDE.get(stage.table, ()), *stage.reads],
                partitions if stage.partitioned else None,
                specify_code_version(workspace, stage),
            )
            for stage in STAGES
        ),
        *(
            _specify(
                workspace,
                table,
                [key for writer in writers for key in _READ_FROM_OUTSIDE[writer]],
                None,
                None,
            )
            for table, writers in beside.items()
        ),
    ]


def specify_code_version(workspace: Workspace, stage: type[Stage]) -> str:
    """Return the code version of a stage: the version of its code and a hash of the settings that it may read.

    After a change, the UI shows the asset as out of date.
    """
    settings = workspace.settings.model_dump(mode="json")
    read = {group: settings[group] for group in name_groups(stage.table)}
    return f"{code_version(stage.table)}-{digest_json(read, length=8)}"


def _specify(
    workspace: Workspace,
    table: str,
    reads: list[str],
    partitions: dg.TimeWindowPartitionsDefinition | None,
    version: str | None,
) -> dg.AssetSpec:
    shown = _SHOWN[table]
    is_source = table in SOURCES
    is_written = workspace.settings.writers.provider != "none"
    return dg.AssetSpec(
        asset_key(workspace, table),
        deps=[asset_key(workspace, name) for name in reads],
        description=shown.description + (_NO_WRITER if table == "posts" and not is_written else ""),
        group_name=shown.group,
        kinds={shown.kind},
        owners=[_OWNER],
        tags={"layer": shown.group},
        code_version=version,
        metadata=_describe_columns(table),
        partitions_def=partitions,
        freshness_policy=None
        if is_source
        else dg.FreshnessPolicy.time_window(fail_window=_STALE_AFTER, warn_window=_LATE_AFTER),
    )


def _describe_columns(table: str) -> Mapping[str, Any]:
    """Return the metadata from which Dagster shows the columns of an asset; the search index has none."""
    if table in _SOURCE_FIELDS:
        columns = [dg.TableColumn(field, "text", text) for field, text in _SOURCE_FIELDS[table].items()]
    elif table in TABLES:
        columns = [
            dg.TableColumn(column.name, str(column.dtype), column.description)
            for column in TABLES[table].columns
        ]
    else:
        return {}
    return {"dagster/column_schema": dg.TableSchema(columns)}
