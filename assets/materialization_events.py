"""Report partitions to Dagster: one event per changed partition with its own figures, stored in batches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeAlias

import dagster as dg

from assets import tags
from assets.metadata import Metadata, describe_posts, describe_rows
from assets.tags import tag_input
from backstory.base.ids import digest, digest_json
from backstory.interfaces.dagster_specs.asset_keys import DOCUMENT_FILES, asset_key, name_of
from backstory.pipeline.run.builder import find_broken
from backstory.pipeline.run.plan import PARTITIONED, STAGES
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE

PREVIEWED: Final = 31
"""Most partitions for which a run stores a preview, which is ten times as large as the rest of the event."""

BY_NAME: Final = (tags.BACKFILL, tags.PARTITION)
"""Tags of runs whose partitions were selected by name; each gets an event, changed or not."""

_NO_ROWS = "no rows"
_CHARACTERS = 16
_WRITTEN = "posts"
_READS = {stage.table: stage.reads for stage in STAGES}
_STAGES = {stage.table: stage for stage in STAGES}
_DERIVED = PARTITIONED - {"messages"}  # which are what the last run read, whatever the exports hold now

_UNDER_WAY = "under way"

Tags = dict[str, str]

KnownVersions = Mapping[str, str]
"""Partition key to the digest of the tags that Dagster last received for the partition."""


Event: TypeAlias = dg.AssetMaterialization | dg.AssetCheckEvaluation


class Events(Protocol):
    """Sink of the events of assets and checks: the run of a step, or no run.

    Attributes:
        instance: The instance that stores the events.
        batch: Name under which events are stored together, such as the id of the run.
        run_tags: Tags of the run; empty without one.
    """

    @property
    def instance(self) -> dg.DagsterInstance:
        """The instance that stores the events."""

    @property
    def batch(self) -> str:
        """Name under which events are stored together."""

    @property
    def run_tags(self) -> Mapping[str, str]:
        """Tags of the run."""

    def report(self, event: Event) -> None:
        """Store an event at once."""

    def report_many(self, events: Sequence[Event], batch: str) -> None:
        """Store events in one batch, if the way of storing knows batches.

        Args:
            events: The events.
            batch: Name of the batch, different from all others.
        """


class StepEvents:
    """The events of a step, by the public API of Dagster: each is stored by itself."""

    def __init__(self, context: dg.AssetExecutionContext) -> None:
        """Wrap the step that is executing."""
        self._context = context
        self.instance = context.instance
        self.batch = context.run.run_id
        self.run_tags: Mapping[str, str] = context.run.tags

    def report(self, event: Event) -> None:
        """Store an event at once."""
        self._context.log_event(event)

    def report_many(self, events: Sequence[Event], batch: str) -> None:  # noqa: ARG002 - there are no batches
        """Store events one by one."""
        for event in events:
            self.report(event)


class RunlessEvents:
    """Events without a run, by the public API of Dagster: each is stored by itself."""

    batch = "no run"

    def __init__(self, instance: dg.DagsterInstance) -> None:
        """Wrap the instance that stores the events."""
        self.instance = instance
        self.run_tags: Mapping[str, str] = {}

    def report(self, event: Event) -> None:
        """Store an event at once."""
        self.instance.report_runless_asset_event(event)

    def report_many(self, events: Sequence[Event], batch: str) -> None:  # noqa: ARG002 - there are no batches
        """Store events one by one."""
        for event in events:
            self.report(event)


def report_partitions(
    events: Events,
    workspace: Workspace,
    spec: dg.AssetSpec,
    partitions: Sequence[str],
    figures: Metadata,
    known_versions: KnownVersions,
    *,
    of_all: bool,
) -> int:
    """Report to Dagster, in one batch, the partitions that differ from its records.

    A partition without rows that Dagster has no record of is not reported, unless it was selected by name.

    Args:
        events: Where the events go.
        workspace: An open workspace.
        spec: The asset.
        partitions: Keys of the partitions that are not broken.
        figures: Further metadata, if the run has a single partition.
        known_versions: The result of :func:`begin`.
        of_all: Whether to report every partition. After a failed run, Dagster marks those without an event as failed.

    Returns:
        How many partitions were reported.
    """
    table = name_of(spec.key)
    versions = _tag_partitions(events.instance, workspace, spec, partitions)
    is_chosen = any(name in events.run_tags for name in BY_NAME)
    news = (
        list(versions)
        if of_all or is_chosen
        else _find_news(events.instance, spec.key, versions, known_versions)
    )
    rows = {key: entry.rows for key, entry in workspace.catalog.read(table).items()}
    materializations = []
    for key in news:
        metadata: Metadata = {"dagster/row_count": rows.get(key, 0)}
        if len(news) <= PREVIEWED:
            metadata = metadata | figures | _show_partition(workspace, table, key)
        materializations.append(
            dg.AssetMaterialization(spec.key, partition=key, metadata=metadata, tags=versions[key])
        )
    events.report_many(materializations, f"{events.batch} {table}")
    workspace.catalog.record(
        _name_in_catalog(table),
        {key: Entry(_hash_versions(its_tags), "", 0) for key, its_tags in versions.items()},
    )
    return len(news)


def report_built(events: Events, workspace: Workspace, specs: Iterable[dg.AssetSpec]) -> int:
    """Report partitions built without Dagster that it does not know in their present version, by events without a run.

    Partitions are left out in which a blocking check has found cases, and those that a run would make again.

    Args:
        events: Where the events go, which are of no run.
        workspace: An open workspace, of which no run is under way.
        specs: The assets.

    Returns:
        How many partitions were reported.
    """
    entries = workspace.catalog.read_all([*PARTITIONED, *map(name_of, (spec.key for spec in specs))])
    made = sorted({key for table in PARTITIONED for key in entries.get(table, {})})
    known = find_broken(workspace, made)
    reported = 0
    for spec in specs:
        table = name_of(spec.key)
        if spec.partitions_def is not None:
            keys = [key for key in known.good(table, made) if key in entries.get(table, {})]
            stale = set() if table not in _DERIVED else set(_STAGES[table].find_stale(workspace, keys))
            offered = [key for key in keys if key not in stale and spec.partitions_def.has_partition_key(key)]
            known_versions = _read_known_versions(workspace, table)
            reported += report_partitions(events, workspace, spec, offered, {}, known_versions, of_all=False)
        elif entries.get(table) and WHOLE not in known.broken.get(table, {}):
            report_table(events, workspace, spec, {}, of_all=False)
    return reported


def begin(workspace: Workspace, table: str, partitions: Sequence[str]) -> KnownVersions:
    """Mark partitions as under way. If the run is lost, the next run reports all of them, changed or not.

    Args:
        workspace: An open workspace.
        table: The table.
        partitions: All partitions of the run.

    Returns:
        What Dagster last received for each partition of the table.
    """
    known_versions = _read_known_versions(workspace, table)
    workspace.catalog.record(_name_in_catalog(table), dict.fromkeys(partitions, Entry(_UNDER_WAY, "", 0)))
    return known_versions


def _read_known_versions(workspace: Workspace, table: str) -> KnownVersions:
    return {key: entry.inputs for key, entry in workspace.catalog.read(_name_in_catalog(table)).items()}


def _find_news(
    instance: dg.DagsterInstance,
    asset: dg.AssetKey,
    versions: Mapping[str, Tags],
    known_versions: KnownVersions,
) -> list[str]:
    known = instance.event_log_storage.get_latest_tags_by_partition(
        asset, dg.DagsterEventType.ASSET_MATERIALIZATION, [tags.DATA_VERSION]
    )
    news = []
    for key, its_tags in versions.items():
        version = its_tags[tags.DATA_VERSION]
        is_known = key in known and known[key].get(tags.DATA_VERSION) == version
        is_empty_as_ever = key not in known and version == _NO_ROWS
        is_told = known_versions.get(key) == _hash_versions(its_tags) and is_known
        if known_versions.get(key) == _UNDER_WAY or not (is_told or is_empty_as_ever):
            news.append(key)
    return news


def report_table(
    events: Events,
    workspace: Workspace,
    spec: dg.AssetSpec,
    figures: Metadata,
    *,
    of_all: bool,
) -> None:
    """Report a table without partitions to Dagster, unless Dagster's record is up to date and no backfill waits for it.

    Args:
        events: Where the events go.
        workspace: An open workspace.
        spec: The asset.
        figures: Further metadata of the event.
        of_all: Whether to report the table even if it has not changed.
    """
    table = name_of(spec.key)
    [its_tags] = _tag_partitions(events.instance, workspace, spec, [WHOLE]).values()
    if DOCUMENT_FILES in {name_of(dep.asset_key) for dep in spec.deps}:
        posts = asset_key(workspace, DOCUMENT_FILES)
        its_tags |= tag_input(posts, _observed_version(events.instance, posts))
    latest = events.instance.get_latest_materialization_event(spec.key)
    known = (latest.tags or {}) if latest is not None else {}
    is_chosen = tags.BACKFILL in events.run_tags
    if of_all or is_chosen or any(known.get(name) != value for name, value in its_tags.items()):
        rows = sum(entry.rows for entry in workspace.catalog.read(table).values())
        metadata = {"dagster/row_count": rows, **figures}
        events.report(dg.AssetMaterialization(spec.key, metadata=metadata, tags=its_tags))


def _observed_version(instance: dg.DagsterInstance, source: dg.AssetKey) -> str:
    [*records] = instance.fetch_observations(source, limit=1).records
    observed = records[0].asset_observation if records else None
    observed_tags: Mapping[str, str] = observed.tags if observed else {}
    return observed_tags.get(tags.DATA_VERSION, tags.UNKNOWN_VERSION)


def _tag_partitions(
    instance: dg.DagsterInstance, workspace: Workspace, spec: dg.AssetSpec, partitions: Sequence[str]
) -> dict[str, Tags]:
    """Return the tags that Dagster compares: the data version of each partition and of its inputs."""
    table = name_of(spec.key)
    own = _name_versions(workspace, table)
    if spec.code_version is None:
        return {key: {tags.DATA_VERSION: own.get(key, _NO_ROWS)} for key in partitions}
    inputs = [_Input.read(instance, workspace, dep.asset_key) for dep in spec.deps]
    return {
        key: {
            tags.DATA_VERSION: own.get(key, _NO_ROWS),
            tags.CODE_VERSION: spec.code_version,
            tags.DATA_VERSION_IS_USER_PROVIDED: "true",
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
        pointers: Storage id of the latest event by partition, by which Dagster detects a change of a partition
            since; empty for an asset without partitions, of which Dagster compares the versions.
    """

    key: dg.AssetKey
    versions: Mapping[str, str]
    pointers: Mapping[str, int]

    @classmethod
    def read(cls, instance: dg.DagsterInstance, workspace: Workspace, key: dg.AssetKey) -> Self:
        name = name_of(key)
        if name not in _READS:
            return cls(key, {WHOLE: tags.UNKNOWN_VERSION}, {})
        pointers: Mapping[str, int] = {}
        if name in PARTITIONED:
            storage = instance.event_log_storage
            pointers = storage.get_latest_storage_id_by_partition(
                key, dg.DagsterEventType.ASSET_MATERIALIZATION
            )
        return cls(key, _name_versions(workspace, name), pointers)

    def tag(self, partition: str) -> Tags:
        place = partition if name_of(self.key) in PARTITIONED else WHOLE
        pointer = self.pointers.get(place)
        return tag_input(
            self.key,
            self.versions.get(place, _NO_ROWS),
            tags.NO_POINTER if pointer is None else str(pointer),
        )


def _hash_versions(its_tags: Tags) -> str:
    """Hash the tags without the pointers.

    A new event with the same data version must not make downstream assets stale.
    """
    compared = {
        name: value for name, value in its_tags.items() if not name.startswith(tags.INPUT_POINTER_PREFIX)
    }
    return digest_json(compared)


def _name_versions(workspace: Workspace, table: str) -> dict[str, str]:
    """Return a data version per partition: the beginning of the hash of its rows."""
    contents = {key: entry.content for key, entry in workspace.catalog.read(table).items()}
    if table not in PARTITIONED and WHOLE not in contents:
        contents = {WHOLE: digest(sorted(contents.values()))}
    return {key: content[:_CHARACTERS] or _NO_ROWS for key, content in contents.items()}


def _show_partition(workspace: Workspace, table: str, key: str) -> Metadata:
    rows = workspace.tables.read(table, [key])
    shown = describe_rows(rows)
    return shown | describe_posts(workspace, rows) if table == _WRITTEN else shown


def _name_in_catalog(table: str) -> str:
    return f"told {table}"
