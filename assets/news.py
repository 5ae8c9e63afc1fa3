"""Reports partitions to Dagster: one event per changed partition with its own figures, stored in batches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    INPUT_EVENT_POINTER_TAG_PREFIX,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.events import (
    DagsterEvent,
    DagsterEventBatchMetadata,
    StepMaterializationData,
)
from dagster._core.instance import RUNLESS_JOB_NAME, RUNLESS_RUN_ID

from assets.metadata import Metadata, describe_picture, describe_posts, describe_rows
from backstory.ids import digest, digest_json
from backstory.making import find_broken
from backstory.orchestration import DOCUMENT_FILES, asset_key, name_of
from backstory.pipeline import STAGES
from backstory.report import picture_windows
from backstory.tables import read_table
from backstory.tables.ledger import Entry
from backstory.tables.parquet import WHOLE
from backstory.workspace import Workspace

PREVIEWED: Final = 31
"""Most partitions for which a run stores a preview, which is ten times as large as the rest of the event."""

BACKFILL: Final = "dagster/backfill"
"""Tag of the runs of a backfill, which ends well only if every selected asset has an event."""

BY_NAME: Final = (BACKFILL, "dagster/partition")
"""Tags of runs whose partitions were selected by name; each gets an event, changed or not."""

_NO_ROWS = "no rows"
_CHARACTERS = 16
_PICTURED = "window_contexts"
_WRITTEN = "posts"
_READS = {stage.table: stage.reads for stage in STAGES}
_PARTITIONED = {stage.table for stage in STAGES if stage.partitioned}
_STAGES = {stage.table: stage for stage in STAGES}
_DERIVED = _PARTITIONED - {"messages"}  # which are what the last run read, whatever the exports hold now

_UNDER_WAY = "under way"

Tags = dict[str, str]

Told = Mapping[str, str]
"""Partition key to the digest of the tags that Dagster last received for the partition."""


@dataclass(frozen=True)
class Origin:
    """From where events come: the step of a run, or by default no run.

    Attributes:
        instance: The instance that stores the events.
        run_id: Id of the run.
        job_name: Name of its job.
        step_key: Key of the step.
        tags: Tags of the run.
    """

    instance: dg.DagsterInstance
    run_id: str = RUNLESS_RUN_ID
    job_name: str = RUNLESS_JOB_NAME
    step_key: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_step(cls, context: dg.AssetExecutionContext) -> Self:
        """Name the step that is executing."""
        run, step = context.run, str(context.op_execution_context.op_handle)
        return cls(context.instance, run.run_id, run.job_name, step, run.tags)

    def report(
        self,
        told: dg.AssetMaterialization | dg.AssetCheckEvaluation,
        batch: DagsterEventBatchMetadata | None = None,
    ) -> None:
        """Report an event to Dagster.

        Args:
            told: What happened.
            batch: The batch that is stored in one transaction; None if the event is stored at once.
        """
        kind, data = (
            (dg.DagsterEventType.ASSET_CHECK_EVALUATION, told)
            if isinstance(told, dg.AssetCheckEvaluation)
            else (dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(told))
        )
        event = DagsterEvent(
            kind.value,
            job_name=self.job_name,
            step_key=self.step_key,
            event_specific_data=data,
        )
        self.instance.report_dagster_event(event, self.run_id, batch_metadata=batch)


def tell_partitions(
    origin: Origin,
    workspace: Workspace,
    spec: dg.AssetSpec,
    partitions: Sequence[str],
    figures: Metadata,
    told: Told,
    *,
    of_all: bool,
) -> int:
    """Report to Dagster, in one batch, the partitions that differ from its records.

    A partition without rows that Dagster has no record of is not reported, unless it was selected by name.

    Args:
        origin: From where the events come.
        workspace: An open workspace.
        spec: The asset.
        partitions: Keys of the partitions that are not broken.
        figures: Further metadata, if the run has a single partition.
        told: The result of :func:`begin`.
        of_all: Whether to report every partition. After a failed run, Dagster marks those without an event as failed.

    Returns:
        How many partitions were reported.
    """
    table = name_of(spec.key)
    tags = _tag_partitions(origin.instance, workspace, spec, partitions)
    is_chosen = any(name in origin.tags for name in BY_NAME)
    news = list(tags) if of_all or is_chosen else _find_news(origin.instance, spec.key, tags, told)
    rows = {key: entry.rows for key, entry in workspace.ledger.read(table).items()}
    batch = f"{origin.run_id} {table}"
    for place, key in enumerate(news, 1):
        metadata: Metadata = {"dagster/row_count": rows.get(key, 0)}
        if len(news) <= PREVIEWED:
            metadata = metadata | figures | _show_partition(workspace, table, key)
        origin.report(
            dg.AssetMaterialization(spec.key, partition=key, metadata=metadata, tags=tags[key]),
            DagsterEventBatchMetadata(batch, place == len(news)),
        )
    workspace.ledger.record(
        _name_in_ledger(table),
        {key: Entry(_hash_versions(its_tags), "", 0) for key, its_tags in tags.items()},
    )
    return len(news)


def tell_made(instance: dg.DagsterInstance, workspace: Workspace, specs: Iterable[dg.AssetSpec]) -> int:
    """Report what was made without Dagster, by events without a run: what Dagster does not know in its present version.

    Partitions are left out in which a blocking check has found cases, and those that a run would make again.

    Args:
        instance: The instance.
        workspace: An open workspace, of which no run is under way.
        specs: The assets.

    Returns:
        How many partitions were reported.
    """
    origin = Origin(instance)
    entries = workspace.ledger.read_all()
    made = sorted({key for table in _PARTITIONED for key in entries.get(table, {})})
    known = find_broken(workspace, made)
    reported = 0
    for spec in specs:
        table = name_of(spec.key)
        if spec.partitions_def is not None:
            keys = [key for key in known.good(table, made) if key in entries.get(table, {})]
            stale = set() if table not in _DERIVED else set(_STAGES[table].find_pending(workspace, keys))
            offered = [key for key in keys if key not in stale and spec.partitions_def.has_partition_key(key)]
            told = _read_told(workspace, table)
            reported += tell_partitions(origin, workspace, spec, offered, {}, told, of_all=False)
        elif entries.get(table) and WHOLE not in known.broken.get(table, {}):
            tell_table(origin, workspace, spec, {}, of_all=False)
    return reported


def begin(workspace: Workspace, table: str, partitions: Sequence[str]) -> Told:
    """Mark partitions as under way. If the run is lost, the next run reports all of them, changed or not.

    Args:
        workspace: An open workspace.
        table: The table.
        partitions: All partitions of the run.

    Returns:
        What Dagster last received for each partition of the table.
    """
    told = _read_told(workspace, table)
    workspace.ledger.record(_name_in_ledger(table), dict.fromkeys(partitions, Entry(_UNDER_WAY, "", 0)))
    return told


def _read_told(workspace: Workspace, table: str) -> Told:
    return {key: entry.inputs for key, entry in workspace.ledger.read(_name_in_ledger(table)).items()}


def _find_news(
    instance: dg.DagsterInstance, asset: dg.AssetKey, tags: Mapping[str, Tags], told: Told
) -> list[str]:
    known = instance.event_log_storage.get_latest_tags_by_partition(
        asset, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
    )
    news = []
    for key, its_tags in tags.items():
        version = its_tags[DATA_VERSION_TAG]
        is_known = key in known and known[key].get(DATA_VERSION_TAG) == version
        is_empty_as_ever = key not in known and version == _NO_ROWS
        is_told = told.get(key) == _hash_versions(its_tags) and is_known
        if told.get(key) == _UNDER_WAY or not (is_told or is_empty_as_ever):
            news.append(key)
    return news


def tell_table(
    origin: Origin,
    workspace: Workspace,
    spec: dg.AssetSpec,
    figures: Metadata,
    *,
    of_all: bool,
) -> None:
    """Report a table without partitions to Dagster, unless Dagster's record is up to date and no backfill waits for it.

    Args:
        origin: From where the events come.
        workspace: An open workspace.
        spec: The asset.
        figures: Further metadata of the event.
        of_all: Whether to report the table even if it has not changed.
    """
    table = name_of(spec.key)
    [tags] = _tag_partitions(origin.instance, workspace, spec, [WHOLE]).values()
    if DOCUMENT_FILES in {name_of(dep.asset_key) for dep in spec.deps}:
        posts = asset_key(workspace, DOCUMENT_FILES)
        tags |= _tag_input(posts, _observed_version(origin.instance, posts))
    latest = origin.instance.get_latest_materialization_event(spec.key)
    known = (latest.tags or {}) if latest is not None else {}
    is_chosen = BACKFILL in origin.tags
    if of_all or is_chosen or any(known.get(name) != value for name, value in tags.items()):
        rows = sum(entry.rows for entry in workspace.ledger.read(table).values())
        metadata = {"dagster/row_count": rows, **figures}
        origin.report(dg.AssetMaterialization(spec.key, metadata=metadata, tags=tags))


def _observed_version(instance: dg.DagsterInstance, source: dg.AssetKey) -> str:
    [*records] = instance.fetch_observations(source, limit=1).records
    observed = records[0].asset_observation if records else None
    tags: Mapping[str, str] = observed.tags if observed else {}
    return tags.get(DATA_VERSION_TAG, DEFAULT_DATA_VERSION.value)


def _tag_partitions(
    instance: dg.DagsterInstance, workspace: Workspace, spec: dg.AssetSpec, partitions: Sequence[str]
) -> dict[str, Tags]:
    """Return the tags that Dagster compares: the data version of each partition and of its inputs."""
    table = name_of(spec.key)
    own = _name_versions(workspace, table)
    if spec.code_version is None:
        return {key: {DATA_VERSION_TAG: own.get(key, _NO_ROWS)} for key in partitions}
    inputs = [_Input.read(instance, workspace, dep.asset_key) for dep in spec.deps]
    return {
        key: {
            DATA_VERSION_TAG: own.get(key, _NO_ROWS),
            CODE_VERSION_TAG: spec.code_version,
            DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
            **{name: value for one in inputs for name, value in one.tag(key).items()},
        }
        for key in partitions
    }


@dataclass(frozen=True)
class _Input:
    """An asset that another one reads.

    Attributes:
        key: Its key.
        versions: Its data version by partition.
        pointers: Storage id of the latest event by partition, from which Dagster tells whether a partition has changed
            since; empty for an asset without partitions, of which Dagster compares the versions.
    """

    key: dg.AssetKey
    versions: Mapping[str, str]
    pointers: Mapping[str, int]

    @classmethod
    def read(cls, instance: dg.DagsterInstance, workspace: Workspace, key: dg.AssetKey) -> Self:
        name = name_of(key)
        if name not in _READS:
            return cls(key, {WHOLE: DEFAULT_DATA_VERSION.value}, {})
        pointers: Mapping[str, int] = {}
        if name in _PARTITIONED:
            storage = instance.event_log_storage
            pointers = storage.get_latest_storage_id_by_partition(
                key, dg.DagsterEventType.ASSET_MATERIALIZATION
            )
        return cls(key, _name_versions(workspace, name), pointers)

    def tag(self, partition: str) -> Tags:
        place = partition if name_of(self.key) in _PARTITIONED else WHOLE
        pointer = self.pointers.get(place)
        return _tag_input(
            self.key,
            self.versions.get(place, _NO_ROWS),
            NULL_EVENT_POINTER if pointer is None else str(pointer),
        )


def _tag_input(key: dg.AssetKey, version: str, pointer: str = NULL_EVENT_POINTER) -> Tags:
    return {get_input_data_version_tag(key): version, get_input_event_pointer_tag(key): pointer}


def _hash_versions(tags: Tags) -> str:
    """Hash the tags without the pointers: another event of the same version is no news to those who read it."""
    compared = {
        name: value for name, value in tags.items() if not name.startswith(INPUT_EVENT_POINTER_TAG_PREFIX)
    }
    return digest_json(compared)


def _name_versions(workspace: Workspace, table: str) -> dict[str, str]:
    """Return a data version per partition: the beginning of the hash of its rows."""
    contents = {key: entry.content for key, entry in workspace.ledger.read(table).items()}
    if table not in _PARTITIONED and WHOLE not in contents:
        contents = {WHOLE: digest(sorted(contents.values()))}
    return {key: content[:_CHARACTERS] or _NO_ROWS for key, content in contents.items()}


def _show_partition(workspace: Workspace, table: str, key: str) -> Metadata:
    rows = read_table(workspace.tables, table, [key])
    shown = describe_rows(rows)
    if table == _WRITTEN:
        return shown | describe_posts(workspace, rows)
    return shown | describe_picture(picture_windows(workspace, [key])) if table == _PICTURED else shown


def _name_in_ledger(table: str) -> str:
    return f"told {table}"
