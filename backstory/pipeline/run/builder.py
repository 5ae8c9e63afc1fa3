"""Builds one table after another; broken partitions are left out and told, the rest is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from backstory.base.errors import (
    BackstoryError,
    MissingExtraError,
    ModelError,
    RemovalError,
    SettingsError,
    StoppedError,
    naming_faults_of_system,
)
from backstory.base.telemetry import describe_range, observe
from backstory.index.milvus import require_milvus
from backstory.ingest.sources.listing import require_packages
from backstory.pipeline.checks.cases import find_cases, remember, remembered_cases
from backstory.pipeline.checks.checks import Check, checks_after
from backstory.pipeline.incremental.fingerprints import depends_on_model
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.incremental.visible_documents import name_kept_snapshots
from backstory.pipeline.run.plan import ANSWERS, PARTITIONED, STAGES
from backstory.pipeline.run.run import Reasons, Run, RunEvent, RunPosition
from backstory.pipeline.stages.posts import POSTS
from backstory.pipeline.stages.retrieval import RetrievalStage
from backstory.pipeline.stages.stage import RunResources, Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.partitions import previous_partition
from backstory.storage.tables.tables import WHOLE

OnProgress: TypeAlias = Callable[[RunEvent], None]
"""Callback for the events of a run, called as soon as there is one."""


def ignore_progress(event: RunEvent) -> None:
    """Do nothing with an event."""


def find_broken(workspace: Workspace, partitions: Sequence[str]) -> Run:
    """Find the partitions in which a blocking check has found cases, and those that read them; nothing is built."""
    run = Run(partitions)
    for stage in STAGES:
        places = partitions if stage.partitioned else [WHOLE]
        run.leave(stage.table, _find_inherited(workspace, stage, places, run))
        for check in checks_after(stage.table):
            if check.blocking:
                reason = f"{check.table}, check {check.name}"
                run.leave(check.table, dict.fromkeys(remembered_cases(workspace, check), reason))
    return run


class Builder:
    """Builds one stage of a run after another, each for all partitions."""

    def __init__(
        self, workspace: Workspace, run: Run, stages: Sequence[type[Stage]], on_progress: OnProgress
    ) -> None:
        self._workspace = workspace
        self._run = run
        self._stages = stages
        self._on_progress = on_progress
        self.resources = RunResources(workspace, isolates_failures=run.isolates_failures)

    def open_models(self) -> bool:
        """Open what the stages call, before any work is done; without the embedder, no table is built."""
        workspace, tables = self._workspace, {stage.table for stage in self._stages}
        if "documents" in tables:
            require_packages(workspace)
        if "search_index" in tables and workspace.settings.index.engine == "milvus":
            require_milvus()
        needing = next((stage for stage in self._stages if depends_on_model(stage.table)), None)
        if needing is not None:
            try:
                workspace.embedder  # noqa: B018 - opening compares the weights with their checksum
            except MissingExtraError:
                raise
            except BackstoryError as error:
                if not self._run.isolates_failures:
                    raise
                reason = {WHOLE: str(error)}
                self._run.fail(needing.table, reason)
                self.leave(self._stages, reason)
                return False
        # What else is wrong with these fails the stage that calls them; all other tables are built.
        with suppress(ModelError, SettingsError):
            if "decisions" in tables:
                workspace.reranker  # noqa: B018
        with suppress(ModelError, SettingsError):
            if POSTS in tables:
                workspace.writer  # noqa: B018
        return True

    def leave(self, stages: Sequence[type[Stage]], reason: Reasons) -> None:
        """Record tables that are not built."""
        for stage in stages:
            for table in (stage.table, *stage.side_outputs):
                self._run.leave(table, reason)

    def build_each(self, stages: Sequence[type[Stage]]) -> None:
        """Build one stage after another for all partitions, as far as they are wanted, and check each table."""
        for stage in filter(self._stages.__contains__, stages):
            if self._run.refused_at:
                return
            made = self.build(stage, self.leave_kept(stage, self._run.partitions))
            if made is not None:
                self._report(stage, made, self.leave_kept(stage, self._run.partitions))

    def leave_kept(self, stage: type[Stage], partitions: Sequence[str]) -> Sequence[str]:
        """Leave out the partitions that keep contexts of an earlier snapshot, if the run asks for it.

        These are the partitions that ``partitions.after_posts`` does not search again, and of which nothing but the
        snapshot has changed.
        """
        if not self._run.keeps_contexts or not issubclass(stage, RetrievalStage):
            return partitions
        if partitions and stage is ANSWERS[0]:
            kept = name_kept_snapshots(self._workspace, self.resources.visible, partitions)
            for searching in ANSWERS:
                if issubclass(searching, RetrievalStage):
                    for key in searching(RunResources(self._workspace), list(kept), kept).stale_partitions():
                        del kept[key]
            self._run.kept = self._run.kept.difference(partitions) | set(kept)
        return [key for key in partitions if key not in self._run.kept]

    def _report(self, stage: type[Stage], made: StageResult, keys: Sequence[str]) -> None:
        """Tell what was made of a table, and check it."""
        self._run.made[stage.table] = made
        self._on_progress(made)
        for check in checks_after(stage.table):
            self._check(stage, check, keys, self._on_progress)

    def _locate(self, stage: type[Stage]) -> RunPosition:
        """Return where the run stands when it begins to make a table."""
        return RunPosition(stage.table, self._stages.index(stage), len(self._stages))

    def build(self, stage: type[Stage], keys: Sequence[str]) -> StageResult | None:
        """Build those of the partitions that are not broken, and do not read a broken one; None if none can be."""
        run, workspace = self._run, self._workspace
        partitions = keys if stage.partitioned else [WHOLE]
        run.leave(stage.table, _find_inherited(workspace, stage, partitions, run))
        wanted = run.good(stage.table, partitions)
        if not wanted:
            return None
        workspace.runs.enter(stage.table)
        self._on_progress(self._locate(stage))
        try:
            with observe("stage", stage=stage.table, **describe_range(wanted)) as add:
                with naming_faults_of_system(workspace.root):
                    made = stage(self.resources, wanted).build()
                # Counts may be texts that name files; those stay out of traces.
                add({name: value for name, value in made.figures.items() if not isinstance(value, str)})
        except BackstoryError as error:
            if not run.isolates_failures:
                raise
            if isinstance(error, RemovalError):
                run.fail(stage.table, {WHOLE: str(error)})
                run.refused_at = stage.table
            elif isinstance(error, StoppedError):
                self._stop(stage, wanted, wanted, str(error))
            else:
                run.fail(stage.table, dict.fromkeys(wanted, str(error)))
            return None
        run.partitions = self.resources.widened_to or run.partitions
        run.fail(stage.table, made.failures)
        if made.stopped is not None:
            self._stop(stage, wanted, made.left, made.stopped)
        return made if made.partitions else None

    def _stop(self, stage: type[Stage], wanted: Sequence[str], left: Sequence[str], reason: str) -> None:
        """Record partitions that a budget or a limit left. They are not built and have not failed."""
        of = f"{len(left)} of {len(wanted)} partitions of {stage.table}" if stage.partitioned else stage.table
        tables = [one.table for one in self._stages]
        later = tables[tables.index(stage.table) + 1 :]
        told = f"{reason}. Left: {of}{', then ' if later else ''}{', '.join(later)}"
        self._run.leave(stage.table, dict.fromkeys(left, told))
        self._run.stopped = self._run.stopped or told

    def _check(self, stage: type[Stage], check: Check, keys: Sequence[str], on_progress: OnProgress) -> None:
        """Look for the cases of a check in those of the partitions that the stage has made."""
        run, workspace = self._run, self._workspace
        partitions = run.good(stage.table, keys if stage.partitioned else [WHOLE])
        if not partitions or not run.checks:
            return
        places = [WHOLE] if WHOLE in partitions or check.table not in PARTITIONED else partitions
        finding = find_cases(workspace, check, places)
        looked_at = [key for key in places if key not in finding.failures]
        remember(workspace, check, looked_at, finding.by_partition)
        if not finding.failures:
            run.found[check] = finding
            on_progress(finding)
        told = f"{check.table}, check {check.name}: "
        if check.blocking:
            run.fail(check.table, dict.fromkeys(finding.by_partition, f"{told}{finding.message}"))
        run.fail(check.table, {key: f"{told}{reason}" for key, reason in finding.failures.items()})


def _find_inherited(
    workspace: Workspace, stage: type[Stage], partitions: Sequence[str], run: Run
) -> dict[str, str]:
    """Find the partitions that cannot be built because a table that they read is broken."""
    inherited: dict[str, str] = {}
    also_read = stage.list_also_read(workspace, partitions) if any(map(run.broken.get, stage.reads)) else {}
    for table in stage.reads:
        reason = f"{table} is broken"
        broken = set(run.broken.get(table, {}))
        if WHOLE in broken:
            return dict.fromkeys(partitions, reason)
        if table in stage.reads_previous and workspace.settings.windows.overlap:
            grain = workspace.settings.partitions.grain
            broken |= {key for key in partitions if previous_partition(key, grain) in broken}
        broken |= {key for key, others in also_read.items() if not broken.isdisjoint(others)}
        inherited |= {key: reason for key in partitions if key in broken}
    return inherited
