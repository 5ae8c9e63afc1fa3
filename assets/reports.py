"""Report tables to Dagster: an event for each changed partition, with its own figures, stored in batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import dagster as dg
import polars as pl

from assets import tags
from backstory.base.ids import digest, digest_json
from backstory.base.wording import name_some, shorten
from backstory.interfaces.dagster_specs.asset_specs import SOURCES, asset_key, name_of
from backstory.pipeline.chats.stored_messages import PARTITIONED
from backstory.pipeline.checks.checks import Check, CheckResult, remembered_cases
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.run.run import find_broken
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.text.prompts.entries import cut_snippet
from backstory.text.prompts.escaping import escape_line
from backstory.writing.posts import PUBLISHED

PREVIEWED: Final = 31
"""Most partitions for which a run stores a preview, which is ten times as large as the rest of the event."""

BY_NAME: Final = (tags.BACKFILL, tags.PARTITION)
"""Tags of runs whose partitions were selected by name; each gets an event, changed or not."""

_EXAMPLE_CHARACTERS = 160
_NAMED_PARTITIONS = 5
_LINKED_POSTS = 10
_POST_CHARACTERS = 4000
_NO_ROWS = "no rows"
_DERIVED = {stage.table: stage for stage in STAGES if stage.partitioned and stage.table != "messages"}

Metadata: TypeAlias = dict[str, dg.MetadataValue | int | float | str]


class Failed(NamedTuple):
    """A partition that a run could not build, which Dagster shows as failed until it is materialized."""

    asset_key: dg.AssetKey
    partition: str


Event: TypeAlias = dg.AssetMaterialization | dg.AssetCheckEvaluation | Failed

Store: TypeAlias = Callable[[Sequence[Event]], None]
"""Stores events in one batch, as those of the step of a run or of no run."""


@dataclass(frozen=True)
class Reporter:
    """Reports the tables of a workspace, which no other run changes meanwhile, as events of a run's step or of none."""

    workspace: Workspace
    instance: dg.DagsterInstance
    store: Store
    run: dg.DagsterRun | None = None

    def report(
        self, spec: dg.AssetSpec, partitions: Sequence[str], figures: Metadata, *, has_failed: bool = False
    ) -> int:
        """Report the partitions of an asset that are other than Dagster shows them, and return their number.

        A partition without rows that Dagster has no record of is not reported, unless it was selected by name.
        """
        table, memory, is_whole = name_of(spec.key), self.workspace.catalog, spec.partitions_def is None
        versions = self._tag(spec, partitions)
        hashes = {key: Entry(digest_json(its), "", 0) for key, its in versions.items()}
        told, known = memory.read(f"told {table}"), self._read_versions(spec)
        failed = self._find_failed(spec, has_failed=has_failed)
        is_chosen = self.run is not None and any(name in self.run.tags for name in BY_NAME)
        news = []
        for key, its in versions.items():
            version = its[tags.DATA_VERSION]
            is_other = known.get(key) != version or told.get(key) != hashes[key]
            if is_chosen or key in failed or (is_other and (key in known or version != _NO_ROWS)):
                news.append(key)
        rows = {key: entry.rows for key, entry in memory.read(table).items()}
        if is_whole:
            rows = {WHOLE: sum(rows.values())}
        last = str(self.instance.event_log_storage.get_maximum_record_id() or 0)
        pointers = {f"{tags.INPUT_POINTER}{dep.asset_key.to_user_string()}": last for dep in spec.deps}
        tables = self.workspace.tables.pin()  # else each preview would ask the database for its partition
        events = []
        for key in news:
            metadata: Metadata = {"dagster/row_count": rows.get(key, 0)}
            if is_whole or len(news) <= PREVIEWED:
                metadata |= figures
                if not is_whole:
                    metadata |= describe_rows(self.workspace, table, tables.read(table, [key]))
            marks = versions[key] | (pointers if spec.code_version else {})
            partition = None if is_whole else key
            events.append(
                dg.AssetMaterialization(spec.key, partition=partition, metadata=metadata, tags=marks)
            )
        self.store(events)
        memory.record(f"told {table}", hashes)
        return len(news)

    def report_check(self, check: Check, finding: CheckResult | None) -> None:
        """Report what a check found in the whole table; None if it could not run, which counts as a failure.

        The catalog keeps the cases of a partition until it is checked again, so that a pass tomorrow does not hide a
        failure today. The result is not yielded: Dagster would fail the run for cases in other partitions.
        """
        key = key_of(self.workspace, check)
        passed, metadata = False, Metadata()
        description = f"not run, because the run could not build {check.table}; see the run's failure"
        if finding is not None:
            remembered = remembered_cases(self.workspace, check)
            passed = finding.passed and not remembered
            examples = _format_preview(finding.cases, cell_characters=_EXAMPLE_CHARACTERS)
            metadata = {
                "failing_rows": sum(remembered.values()),
                "failing_share": round(len(finding.cases) / max(finding.rows, 1), 4),
                "examples": dg.MetadataValue.md("*none in this run*" if finding.passed else examples),
            }
            elsewhere = name_some([name for name in sorted(remembered) if name != WHOLE], _NAMED_PARTITIONS)
            description = finding.message + (f" Partitions with cases: {elsewhere}." if elsewhere else "")
        evaluation = dg.AssetCheckEvaluation(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=passed,
            metadata=metadata,
            severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
            description=description,
            blocking=check.blocking,
        )
        self.store([evaluation])

    def report_built(self, specs: Iterable[dg.AssetSpec]) -> int:
        """Report what was built without Dagster, but not what a run would make again or a check has blocked."""
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

    def _find_failed(self, spec: dg.AssetSpec, *, has_failed: bool) -> set[str]:
        """Find the partitions that Dagster shows as failed, or would after this run, if they have no event."""
        if spec.partitions_def is None:
            return {WHOLE} if has_failed else set()
        storage, own = self.instance.event_log_storage, self.run.run_id if self.run else ""
        find = storage.get_latest_asset_partition_materialization_attempts_without_materializations
        attempts = find(spec.key)
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

    def _tag(self, spec: dg.AssetSpec, partitions: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the tags that Dagster compares: the data version of each partition and of its inputs."""
        own = self._name_versions(name_of(spec.key))
        tagged = {key: {tags.DATA_VERSION: own.get(key, _NO_ROWS)} for key in partitions}
        if spec.code_version is None:
            return tagged
        code = {tags.CODE_VERSION: spec.code_version, tags.DATA_VERSION_IS_USER_PROVIDED: "true"}
        inputs = [(dep.asset_key, self._name_versions(name_of(dep.asset_key))) for dep in spec.deps]
        for key, its in tagged.items():
            its |= code
            for asset, versions in inputs:
                version = versions.get(key if name_of(asset) in PARTITIONED else WHOLE, _NO_ROWS)
                its[f"{tags.INPUT_VERSION}{asset.to_user_string()}"] = version
        return tagged

    def _name_versions(self, table: str) -> dict[str, str]:
        """Return a data version per partition: the beginning of the hash of its rows."""
        if table in SOURCES:
            return {WHOLE: tags.UNKNOWN_VERSION}
        contents = {key: entry.content for key, entry in self.workspace.catalog.read(table).items()}
        if table not in PARTITIONED and WHOLE not in contents:
            contents = {WHOLE: digest(sorted(contents.values()))}
        return {key: content[:16] or _NO_ROWS for key, content in contents.items()}


def key_of(workspace: Workspace, check: Check) -> dg.AssetCheckKey:
    """Return the key of a check among the assets of a workspace."""
    return dg.AssetCheckKey(asset_key(workspace, check.table), check.name)


def describe_report(report: StageResult) -> Metadata:
    """Return the figures of a stage over all partitions of the run: counts, seconds, and what its calls cost."""
    return {
        # Significant digits, since the cost of a stage may be a hundredth of a cent.
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in {"seconds": report.seconds, **report.counts}.items()
    }


def describe_rows(workspace: Workspace, table: str, rows: pl.DataFrame) -> Metadata:
    """Return a preview of the rows of one partition, their number per status, verdict and cause, and the posts."""
    counts = {
        f"{column}_{value}": count
        for column in rows.columns
        if column in ("status", "verdict", "cause")
        for value, count in rows[column].value_counts().sort(column).iter_rows()
    }
    posts = _describe_posts(workspace, rows) if table == "posts" else {}
    return {**counts, "preview": dg.MetadataValue.md(_format_preview(rows)), **posts}


def _describe_posts(workspace: Workspace, rows: pl.DataFrame) -> Metadata:
    """Return the cost of the posts of one partition, the first post as text, and links to their files."""
    if workspace.settings.writers.provider == "none":
        return {"writer": "none is set; `writers.provider` names one (docs/configuration.md)"}
    posts = rows.filter(pl.col("status").is_in(PUBLISHED)).sort("published_at", "slug")
    shown: Metadata = {
        "writer": ", ".join(rows["writer"].unique().sort()) or "not called, since there are no windows",
        "posts": posts.height,
        **{name: int(rows[name].sum()) for name in ("tokens_in", "tokens_out", "removed_citations")},
    }
    if rows["cost"].count():
        shown["cost"] = float(f"{rows['cost'].sum():.6g}")
    for place, post in enumerate(posts.head(_LINKED_POSTS).to_dicts(), 1):
        shown[f"file_{place}"] = dg.MetadataValue.url((workspace.root / post["path"]).as_uri())
        if place == 1:
            text = cut_snippet(post["text"], _POST_CHARACTERS)
            shown["post"] = dg.MetadataValue.md(f"# {escape_line(post['title'])}\n\n{text}")
    return shown


def _format_preview(frame: pl.DataFrame, *, cell_characters: int = 60) -> str:
    """Write the first five rows of a frame as a Markdown table, long cells shortened."""
    if frame.is_empty():
        return "*this run made no rows*"
    rows = [
        [shorten(escape_line(str(value)).replace("|", "\\|"), cell_characters) for value in row]
        for row in frame.head(5).iter_rows()
    ]
    lines = [frame.columns, ["---"] * frame.width, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
