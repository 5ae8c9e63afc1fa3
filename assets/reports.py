"""Report tables to Dagster: an event for each changed partition, with its own figures, stored in batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import dagster as dg

from assets import tags
from assets.metadata import Metadata, describe_posts, describe_rows
from backstory.base.ids import digest, digest_json
from backstory.interfaces.dagster_specs.asset_specs import SOURCES, name_of
from backstory.pipeline.run.builder import find_broken
from backstory.pipeline.run.plan import PARTITIONED, STAGES
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE, Tables

PREVIEWED: Final = 31
"""Most partitions for which a run stores a preview, which is ten times as large as the rest of the event."""

BY_NAME: Final = (tags.BACKFILL, tags.PARTITION)
"""Tags of runs whose partitions were selected by name; each gets an event, changed or not."""

_NO_ROWS = "no rows"
_CHARACTERS = 16
_WRITTEN = "posts"
_DERIVED = {stage.table: stage for stage in STAGES if stage.partitioned and stage.table != "messages"}

Tags: TypeAlias = dict[str, str]


class Failed(NamedTuple):
    """A partition that a run could not build, which Dagster shows as failed until it is materialized."""

    asset_key: dg.AssetKey
    partition: str


Event: TypeAlias = dg.AssetMaterialization | dg.AssetCheckEvaluation | Failed

Store: TypeAlias = Callable[[Sequence[Event]], None]
"""Stores events in one batch, as those of the step of a run or of no run."""


@dataclass(frozen=True)
class Reporter:
    """Reports the tables of a workspace to Dagster.

    Attributes:
        workspace: An open workspace, whose tables no other run changes meanwhile.
        instance: What Dagster knows.
        store: Where the events go.
        run: The run of the step; None for events without a run.
    """

    workspace: Workspace
    instance: dg.DagsterInstance
    store: Store
    run: dg.DagsterRun | None = None

    def report(
        self, spec: dg.AssetSpec, partitions: Sequence[str], figures: Metadata, *, has_failed: bool = False
    ) -> int:
        """Report the partitions of an asset that differ from what Dagster knows of them, or that it shows as failed.

        A partition without rows that Dagster has no record of is not reported, unless it was selected by name.

        Returns:
            How many partitions were reported.
        """
        table, memory = name_of(spec.key), self.workspace.catalog
        versions = self._tag(spec, partitions)
        hashes = {key: Entry(_hash_versions(its), "", 0) for key, its in versions.items()}
        told, known = memory.read(f"told {table}"), self._read_versions(spec)
        failed = self._find_failed(spec, has_failed=has_failed)
        is_chosen = self.run is not None and any(name in self.run.tags for name in BY_NAME)

        def is_news(key: str, version: str) -> bool:
            if key not in known and version == _NO_ROWS:
                return False
            return known.get(key) != version or told.get(key) != hashes[key]

        news = [
            key
            for key, its in versions.items()
            if is_chosen or key in failed or is_news(key, its[tags.DATA_VERSION])
        ]
        rows = {key: entry.rows for key, entry in memory.read(table).items()}
        if spec.partitions_def is None:
            rows = {WHOLE: sum(rows.values())}
        events = []
        tables = self.workspace.tables.pin()  # else each preview would ask the database for its partition
        for key in news:
            metadata: Metadata = {"dagster/row_count": rows.get(key, 0)}
            if spec.partitions_def is None or len(news) <= PREVIEWED:
                metadata |= figures | self._show(tables, table, key)
            partition = None if spec.partitions_def is None else key
            events.append(
                dg.AssetMaterialization(spec.key, partition=partition, metadata=metadata, tags=versions[key])
            )
        self.store(events)
        memory.record(f"told {table}", hashes)
        return len(news)

    def report_failed(self, spec: dg.AssetSpec, partitions: Iterable[str]) -> None:
        """Report the partitions that the run could not build."""
        self.store([Failed(spec.key, key) for key in partitions])

    def report_built(self, specs: Iterable[dg.AssetSpec]) -> int:
        """Report partitions built without Dagster that it does not know in their present version.

        Partitions are left out in which a blocking check has found cases, and those that a run would make again.

        Returns:
            How many partitions were reported.
        """
        workspace, reported = self.workspace, 0
        entries = workspace.catalog.read_all([*PARTITIONED, *(name_of(spec.key) for spec in specs)])
        made = sorted({key for table in PARTITIONED for key in entries.get(table, {})})
        found = find_broken(workspace, made)
        for spec in specs:
            table = name_of(spec.key)
            if spec.partitions_def is None:
                good = [WHOLE] if entries.get(table) and WHOLE not in found.broken.get(table, {}) else []
            else:
                offered = filter(spec.partitions_def.has_partition_key, found.good(table, made))
                good = [key for key in offered if key in entries.get(table, {})]
                stale = _DERIVED[table].find_stale(workspace, good) if table in _DERIVED else []
                good = [key for key in good if key not in stale]
            reported += self.report(spec, good, {})
        return reported

    def _show(self, tables: Tables, table: str, key: str) -> Metadata:
        """Return a preview of a partition; none of a table without partitions."""
        if key == WHOLE:
            return {}
        rows = tables.read(table, [key])
        return describe_rows(rows) | (describe_posts(self.workspace, rows) if table == _WRITTEN else {})

    def _find_failed(self, spec: dg.AssetSpec, *, has_failed: bool) -> set[str]:
        """Find the partitions that Dagster shows as failed, or would after this run, if they have no event."""
        if spec.partitions_def is None:
            return {WHOLE} if has_failed else set()
        storage, own = self.instance.event_log_storage, self.run.run_id if self.run else ""
        attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(
            spec.key
        )
        return {key for key, (run_id, _) in attempts.items() if has_failed or run_id != own}

    def _read_versions(self, spec: dg.AssetSpec) -> Mapping[str, str | None]:
        """Read the data version of each partition that Dagster received last."""
        if spec.partitions_def is None:
            latest = self.instance.get_latest_materialization_event(spec.key)
            event = latest and latest.asset_materialization
            return {WHOLE: (event.tags or {}).get(tags.DATA_VERSION)} if event else {}
        known = self.instance.event_log_storage.get_latest_tags_by_partition(
            spec.key, dg.DagsterEventType.ASSET_MATERIALIZATION, [tags.DATA_VERSION]
        )
        return {key: its.get(tags.DATA_VERSION) for key, its in known.items()}

    def _tag(self, spec: dg.AssetSpec, partitions: Sequence[str]) -> dict[str, Tags]:
        """Return the tags that Dagster compares: the data version of each partition and of its inputs."""
        own = self._name_versions(name_of(spec.key))
        if spec.code_version is None:
            return {key: {tags.DATA_VERSION: own.get(key, _NO_ROWS)} for key in partitions}
        inputs = [
            (dep.asset_key, self._name_versions(name_of(dep.asset_key)), self._find_pointers(dep.asset_key))
            for dep in spec.deps
        ]
        tagged = {}
        for key in partitions:
            tagged[key] = {
                tags.DATA_VERSION: own.get(key, _NO_ROWS),
                tags.CODE_VERSION: spec.code_version,
                tags.DATA_VERSION_IS_USER_PROVIDED: "true",
            }
            for asset, versions, pointers in inputs:
                place = key if name_of(asset) in PARTITIONED else WHOLE
                version = versions.get(place, _NO_ROWS)
                tagged[key] |= tags.tag_input(asset, version, str(pointers.get(place, tags.NO_POINTER)))
        return tagged

    def _name_versions(self, table: str) -> dict[str, str]:
        """Return a data version per partition: the beginning of the hash of its rows."""
        if table in SOURCES:
            return {WHOLE: tags.UNKNOWN_VERSION}
        contents = {key: entry.content for key, entry in self.workspace.catalog.read(table).items()}
        if table not in PARTITIONED and WHOLE not in contents:
            contents = {WHOLE: digest(sorted(contents.values()))}
        return {key: content[:_CHARACTERS] or _NO_ROWS for key, content in contents.items()}

    def _find_pointers(self, asset: dg.AssetKey) -> Mapping[str, int]:
        """Find the latest event of each partition of an input, by which Dagster notices that one has changed since."""
        if name_of(asset) not in PARTITIONED:
            return {}
        return self.instance.event_log_storage.get_latest_storage_id_by_partition(
            asset, dg.DagsterEventType.ASSET_MATERIALIZATION
        )


def _hash_versions(its_tags: Tags) -> str:
    """Hash the tags without the pointers: another event of the same version makes nothing out of date."""
    return digest_json(
        {name: value for name, value in its_tags.items() if not name.startswith(tags.INPUT_POINTER_PREFIX)}
    )
