"""Builds the tables of a run; broken partitions are left out and told, the rest is built."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Final

from backstory.base.errors import (
    BackstoryError,
    ModelError,
    RemovalError,
    SettingsError,
    StoppedError,
    naming_faults_of_system,
)
from backstory.base.telemetry import describe_range, observe
from backstory.index.milvus import require_milvus
from backstory.ingest.sources.listing import require_packages
from backstory.pipeline.chats.copies import drop_unused_answers
from backstory.pipeline.chats.named_documents import record_named_documents
from backstory.pipeline.chats.stored_messages import PARTITIONED
from backstory.pipeline.checks.checks import Check, checks_after, find_cases, remembered_cases
from backstory.pipeline.incremental.inputs import depends_on_model
from backstory.pipeline.incremental.report import StageResult, join_rounds, log_report
from backstory.pipeline.incremental.visible_documents import name_kept_snapshots
from backstory.pipeline.run.plan import ANSWERS, CHATS, CORPUS, SEARCHING, STAGES
from backstory.pipeline.run.run import OnProgress, Run, RunPosition, ignore_progress
from backstory.pipeline.stages.corpus import AddedPostsStage, find_added_posts
from backstory.pipeline.stages.posts import POSTS, WAITING, is_made_in_turn
from backstory.pipeline.stages.stage import RunResources, Stage
from backstory.pipeline.stages.writer_material import find_neighbours
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.partitions import previous_partition
from backstory.storage.tables.tables import WHOLE

_GROWTH: Final = 4


class Builder:
    """Builds one stage of a run after another, each for all partitions, and runs the checks of each table after it.

    A partition is broken if it cannot be built, if a blocking check finds cases in it, or if it reads a broken one. It
    keeps the rows of earlier runs, and all others are built. A run that would remove messages or documents stops there.

    Where written posts are documents for later windows, the answers are built for one partition after another, with the
    posts over the snapshot in memory, and the tables of the documents again at the end. Partitions without changes are
    passed over together. In between, only blocking checks run that need not wait, and each stage is reported once.
    """

    def __init__(self, workspace: Workspace, run: Run, on_progress: OnProgress) -> None:
        self._workspace = workspace
        self._run = run
        self._on_progress = on_progress
        self._resources = RunResources(workspace, isolates_failures=run.isolates_failures)
        self._takes_turns = POSTS in run.tables and is_made_in_turn(workspace)
        self._stages = [
            stage
            for stage in STAGES
            if not {stage.table, *stage.side_outputs}.isdisjoint(run.tables)
            or (self._takes_turns and stage not in CHATS)
        ]
        self._tables = [stage.table for stage in self._stages]
        self._rounds: dict[str, list[StageResult]] = {}
        self._left: list[str] = []
        chats = [stage for stage in self._stages if stage in CHATS]
        self._total = len(chats) + len(run.partitions) + 1 if self._takes_turns else len(self._stages)
        self._done = 0

    def build(self) -> None:
        """Build all wanted tables. Nothing is built if a package or the model of the embedder cannot be used."""
        self._open_models()
        run, workspace = self._run, self._workspace
        # What the partitions of all runs share, one run at a time makes; those that wait find it up to date.
        with workspace.catalog.state.lock("making of messages"):
            self._make(CHATS[:1], run.partitions)
        self._make(CHATS[1:], run.partitions)
        with workspace.catalog.state.lock("making of documents"):
            self._make(CORPUS, run.partitions, is_last=not self._takes_turns)
        if self._takes_turns:
            self._make_in_turn()
        else:
            with closing(self._resources):
                self._make(ANSWERS, run.partitions)
        if run.refused_at:
            for stage in (stage for stage in self._stages if stage.table not in run.made):
                for table in (stage.table, *stage.side_outputs):
                    run.leave(table, {WHOLE: f"the run stopped at {run.refused_at}"})
        is_whole = POSTS in run.made or not workspace.has_chats
        if is_whole and not (run.broken or run.stopped):
            drop_unused_answers(workspace)

    def _open_models(self) -> None:
        """Open what the stages call, before any work is done."""
        workspace, tables = self._workspace, self._tables
        if "documents" in tables:
            require_packages(workspace)
        if "search_index" in tables and workspace.settings.index.engine == "milvus":
            require_milvus()
        if any(map(depends_on_model, tables)):
            workspace.embedder  # noqa: B018 - opening compares the weights with their checksum
        # Unless a package is absent, what is wrong with these fails only the stage that calls them.
        for table, model in (("decisions", "reranker"), (POSTS, "writer")):
            with suppress(ModelError, SettingsError):
                if table in tables:
                    getattr(workspace, model)

    def _make(
        self, stages: Sequence[type[Stage]], partitions: Sequence[str], *, is_last: bool = True
    ) -> StageResult | None:
        """Build the wanted ones of some stages, check each after it, and return the result of the last one."""
        made = None
        for stage in stages:
            if stage.table not in self._tables:
                continue
            wanted, made = self._choose(stage, partitions), None
            if wanted:
                try:
                    with (
                        observe("stage", stage=stage.table, **describe_range(wanted)) as add,
                        naming_faults_of_system(self._workspace.root),
                    ):
                        made = stage(self._resources, wanted).build()
                        # Counts may be texts that name files; those stay out of traces.
                        figures = made.figures.items()
                        add({name: value for name, value in figures if not isinstance(value, str)})
                except BackstoryError as error:
                    if not self._run.isolates_failures:
                        raise
                    made = self._describe(stage, wanted, error)
                self._take(stage, wanted, made)
            if is_last:
                self._report(stage)
                self._done += 1
            elif made and made.computed:
                for check in checks_after(stage.table):
                    if check.blocking and not check.waits:
                        self._check(made, check, ignore_progress)
        return made

    def _choose(self, stage: type[Stage], partitions: Sequence[str]) -> list[str]:
        """Choose the partitions that neither are broken nor read a broken one, and tell where the run stands."""
        run, workspace = self._run, self._workspace
        if run.refused_at:
            return []
        partitions = self._leave_kept(stage, partitions) if stage.partitioned else [WHOLE]
        run.leave(stage.table, _find_inherited(workspace, stage, partitions, run))
        wanted = run.good(stage.table, partitions)
        if wanted:
            workspace.runs.enter(stage.table)
            self._on_progress(RunPosition(stage.table, min(self._done, self._total - 1), self._total))
        return wanted

    def _describe(self, stage: type[Stage], wanted: Sequence[str], error: BackstoryError) -> StageResult:
        """Describe a stage that made nothing, since it raised an error."""
        stopped = str(error) if isinstance(error, StoppedError) else None
        self._run.refused_at = stage.table if isinstance(error, RemovalError) else ""
        failures = dict.fromkeys([WHOLE] if self._run.refused_at else wanted, str(error))
        return StageResult(stage.table, 0, [], 0, 0.0, {}, {} if stopped else failures, stopped, wanted)

    def _take(self, stage: type[Stage], wanted: Sequence[str], made: StageResult) -> None:
        """Record what a stage made, what it could not make, and what it left."""
        run = self._run
        run.partitions = self._resources.widened_to or run.partitions
        run.fail(stage.table, made.failures)
        if made.stopped is not None:  # what is left is not built, and has not failed
            of = f"{len(made.left)} of {len(wanted)} partitions of " if stage.partitioned else ""
            left = [f"{of}{stage.table}", *self._tables[self._tables.index(stage.table) + 1 :]]
            told = f"{made.stopped}. Left: {', '.join(left)}"
            run.leave(stage.table, dict.fromkeys(made.left, told))
            run.stopped = run.stopped or told
        if made.keys:
            self._rounds.setdefault(stage.table, []).append(made)

    def _report(self, stage: type[Stage]) -> None:
        """Tell what was made of a table, if anything was, and run all its checks."""
        rounds = self._rounds.pop(stage.table, [])
        if not rounds:
            return
        made = rounds[0]
        if len(rounds) > 1:
            made = join_rounds(rounds, self._workspace.catalog.read(stage.table))
            log_report(made)
        self._run.made[stage.table] = made
        self._on_progress(made)
        for check in checks_after(stage.table):
            self._check(made, check, self._on_progress)

    def _make_in_turn(self) -> None:
        """Search and write one stale partition after another, and publish the posts, also those before a stop."""
        run, workspace, resources = self._run, self._workspace, self._resources
        self._left = list(run.partitions)
        if self._may_go_on():
            # A name that is found in a document changes contexts of earlier days, which must be made in their turn.
            record_named_documents(workspace)
            published = resources.posts = find_added_posts(resources)
            with closing(resources):
                while self._left and self._may_go_on():
                    place = self._find_first_stale()
                    # The partitions before it have nothing to search, or nothing that has changed.
                    self._make_with_posts(self._left[: place + 1])
                    self._left = self._left[place + 1 :]
                    self._done += place + 1
            added, resources.posts = resources.posts, None
            if added.documents is not published.documents:
                self._make(CORPUS, [])
                record_named_documents(workspace)
        reason = run.stopped or f"{CORPUS[-1].table} is broken"
        if run.stopped and self._left:
            run.stopped = f"{run.stopped}; and {len(self._left)} later partitions"
        for stage in ANSWERS:
            run.leave(stage.table, dict.fromkeys(self._left, reason))
        for stage in self._stages:
            self._report(stage)

    def _may_go_on(self) -> bool:
        run = self._run
        return not (run.stopped or run.refused_at) and WHOLE not in run.broken.get(CORPUS[-1].table, {})

    def _make_with_posts(self, partitions: Sequence[str]) -> None:
        """Search and write partitions of which the last is stale, until no window in it waits for another's post."""
        waiting = None
        while True:
            posts = self._make(ANSWERS, partitions, is_last=False)
            self._make([AddedPostsStage], [], is_last=False)
            partitions = partitions[-1:]
            still = posts.counts.get(WAITING, 0) if posts else 0
            if not still or still == waiting or not self._may_go_on():
                return
            waiting = still

    def _find_first_stale(self) -> int:
        """Find the first partition with windows to search or write again, looking at ever more of them at once."""
        windows = self._workspace.catalog.read("windows")
        first, many = 0, 1
        while first < len(self._left):
            group = [key for key in self._left[first : first + many] if key in windows and windows[key].rows]
            stale = {
                key
                for stage in ANSWERS
                for key in stage(self._resources, self._leave_kept(stage, group)).stale_partitions()
            }
            if stale:
                return self._left.index(min(stale))
            first, many = first + many, many * _GROWTH
        return len(self._left)

    def _leave_kept(self, stage: type[Stage], partitions: Sequence[str]) -> Sequence[str]:
        """Leave out what ``partitions.after_posts`` keeps, of which nothing but the snapshot has changed."""
        run = self._run
        if not run.keeps_contexts or stage not in SEARCHING:
            return partitions
        if partitions and stage is SEARCHING[0]:
            kept = name_kept_snapshots(self._workspace, self._resources.visible, partitions)
            for searching in SEARCHING:
                stage_of_kept = searching(RunResources(self._workspace), list(kept))
                stage_of_kept.searched = kept
                for key in stage_of_kept.stale_partitions():
                    del kept[key]
            run.kept = run.kept.difference(partitions) | set(kept)
        return [key for key in partitions if key not in run.kept]

    def _check(self, made: StageResult, check: Check, on_progress: OnProgress) -> None:
        """Look for the cases of a check in what was made of a table."""
        run, workspace = self._run, self._workspace
        partitions = run.good(made.table, made.keys)
        if not partitions or not run.checks:
            return
        places = [WHOLE] if WHOLE in partitions or check.table not in PARTITIONED else partitions
        told = f"{check.table}, check {check.name}: "
        try:
            finding = find_cases(workspace, check, places)
        except BackstoryError as error:
            run.fail(check.table, dict.fromkeys(places, f"{told}{error}"))
            return
        run.found[check] = finding
        on_progress(finding)
        if check.blocking:
            run.fail(check.table, dict.fromkeys(finding.by_partition, f"{told}{finding.message}"))


def find_broken(workspace: Workspace, partitions: Sequence[str]) -> Run:
    """Find the partitions in which a blocking check has found cases, and those that read them; nothing is built."""
    run = Run(partitions)
    for stage in STAGES:
        places = partitions if stage.partitioned else [WHOLE]
        run.leave(stage.table, _find_inherited(workspace, stage, places, run))
        for check in filter(lambda check: check.blocking, checks_after(stage.table)):
            reason = f"{check.table}, check {check.name}"
            run.leave(check.table, dict.fromkeys(remembered_cases(workspace, check), reason))
    return run


def _find_inherited(
    workspace: Workspace, stage: type[Stage], partitions: Sequence[str], run: Run
) -> dict[str, str]:
    """Find the partitions that cannot be built because a table that they read is broken."""
    inherited: dict[str, str] = {}
    for table in filter(run.broken.get, stage.reads):
        broken = set(run.broken[table])
        if WHOLE in broken:
            return dict.fromkeys(partitions, f"{table} is broken")
        if table == "messages" and stage.overlaps and workspace.settings.windows.overlap:
            grain = workspace.settings.partitions.grain
            broken |= {key for key in partitions if previous_partition(key, grain) in broken}
        if stage.table == POSTS:  # a letter tells of several partitions
            told = {key: find_neighbours(workspace, key).told for key in partitions}
            broken |= {key for key, others in told.items() if not broken.isdisjoint(others)}
        inherited |= dict.fromkeys(broken.intersection(partitions), f"{table} is broken")
    return inherited
