"""One run over a workspace, for every caller: a command, a script, the library, forgetting, or a step of Dagster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext, suppress
from datetime import timedelta
from time import perf_counter
from typing import Final, TypeAlias

from backstory.base.errors import (
    BackstoryError,
    ContractError,
    ModelError,
    RemovalError,
    SettingsError,
    naming_faults_of_system,
)
from backstory.base.telemetry import PRINTED, describe_range, log_event, observe, observe_run
from backstory.base.wording import count
from backstory.index.milvus import require_milvus
from backstory.ingest.sources.listing import require_packages
from backstory.pipeline.chats.copies import drop_unused_answers
from backstory.pipeline.chats.named_documents import record_named_documents
from backstory.pipeline.chats.stored_messages import PARTITIONED
from backstory.pipeline.checks.checks import Check, checks_after, find_cases
from backstory.pipeline.history.history import BY_LIBRARY
from backstory.pipeline.incremental.inputs import depends_on_model
from backstory.pipeline.incremental.report import CLEARED, StageResult, join_rounds
from backstory.pipeline.incremental.visible_documents import name_kept_versions
from backstory.pipeline.run.differences import compare
from backstory.pipeline.run.plan import (
    ALL_TABLES,
    ANSWERS,
    CHATS,
    CORPUS,
    SEARCHING,
    STAGES,
    TABLES_OF_DOCUMENTS,
    is_fresh,
    record_run,
)
from backstory.pipeline.run.run import OnProgress, Run, RunPosition, find_inherited, ignore_progress
from backstory.pipeline.sharing import require_keys
from backstory.pipeline.stages.corpus import AddedPostsStage, find_added_posts
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.stages.posts import POSTS, WAITING, is_made_in_turn
from backstory.pipeline.stages.stage import RunResources, Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.tables import WHOLE
from backstory.storage.turns import running

_GROWTH: Final = 4

Report: TypeAlias = Callable[[Run], None]
"""Reports a run whose tables are built."""

logger = logging.getLogger(__name__)


def run_pipeline(workspace: Workspace, partitions: Sequence[str] | None = None) -> list[StageResult]:
    """Build every table of a workspace, without the checks; raise at the first failure.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions, or None for all that the chat exports span. A workspace without
            chats gets the tables of its documents.

    Returns:
        The result of each stage, in the order in which data flows. One that has ``stopped`` set says which budget of
        the writer is used up; with feedback, later partitions are left then.

    Raises:
        BackstoryError: A stage failed. The tables that earlier stages wrote stay.
    """
    require_keys(workspace, workspace.tables)
    keys = list(partitions) if partitions is not None else find_partitions(workspace)
    run = Run(keys, list_tables(workspace), BY_LIBRARY, isolates_failures=False, checks=False)
    return list(execute_run(workspace, run).made.values())


def list_tables(workspace: Workspace) -> frozenset[str]:
    """Return the tables of all stages that have something to read: without chats, those of the documents."""
    return ALL_TABLES if workspace.has_chats else TABLES_OF_DOCUMENTS


def execute_run(
    workspace: Workspace,
    run: Run,
    on_progress: OnProgress = ignore_progress,
    report: Report | None = None,
    *,
    skips_unchanged: bool = False,
    holds_lock: bool = False,
) -> Run:
    """Build tables of a workspace; every run is this function.

    A second run of the same workspace, in this process or another, waits until the first has ended. ``report`` is
    called with the run when its tables are built, while no other run may change them. With ``skips_unchanged``, nothing
    is built if nothing has changed since the last run of these partitions. Errors of the workspace, its settings or its
    catalog are raised; those of a stage only if the run does not isolate failures.
    """
    started, divides_days = perf_counter(), may_divide_days(workspace)
    days = run.partitions if divides_days else ()
    turn = nullcontext() if holds_lock else running(workspace.catalog.state, run.by, days=days)
    with observe_run(run.partitions, run.dagster_run_id) as run.id:
        with naming_faults_of_system(workspace.root), turn:
            require_keys(workspace, workspace.tables)
            before = workspace.tables.pin()
            run.fresh = skips_unchanged and is_fresh(workspace, run.partitions)
            try:
                with workspace.runs.record(
                    run.by, run.partitions, dagster_run_id=run.dagster_run_id
                ) as finish:
                    if not run.fresh:
                        Builder(workspace, run, on_progress).build()
                        run.differences = compare(workspace, before, run.tables)
                    finish(run.end)
            except BackstoryError:
                workspace.publish_tables()  # the end of the run is in the table of runs
                raise
            if report is not None:
                report(run)
            # Also if nothing has changed: the folder may have moved, or the file of the views may be lost or damaged.
            # Of what holds rows that the run has removed, only what another run has begun with stays for a while.
            if not any(CLEARED in made.counts for made in run.made.values()):
                workspace.publish_tables()
            elif divides_days:
                files = [name for names in before.list_files().values() for name in names.values()]
                workspace.publish_tables(discarded=files)
            else:
                workspace.publish_tables(timedelta(0))
            is_whole = run.checks and run.partitions and run.tables >= ALL_TABLES
            if is_whole and run.finished and not run.fresh:
                record_run(workspace, run.partitions)
            try:
                run.sources = workspace.tables.read("sources")
            except ContractError:  # a failed stage may leave it damaged
                if run.finished:
                    raise
        run.seconds = perf_counter() - started
        for failure in run.failures:
            log_event(logger, "run failed", level=logging.ERROR, reason=failure, extra=PRINTED)
        figures = {"success": run.success, "fresh": run.fresh, "computed": run.computed}
        log_event(logger, "run ended", figures, files_not_read=len(run.unfinished), seconds=run.seconds)
    return run


def may_divide_days(workspace: Workspace) -> bool:
    """Return whether several machines may make different partitions at the same time.

    They must share both a database and a store of files, and every partition must follow from exports and documents
    alone: written posts that are documents, and letters over several days, make a chain.
    """
    storage, writers = workspace.settings.storage, workspace.settings.writers
    is_shared = storage.database is not None and storage.files is not None
    return is_shared and not workspace.feeds_back and not writers.letter_grains


class Builder:
    """Builds one stage of a run after another, each for all partitions, and runs the checks of each table after it.

    A partition is broken if it cannot be built, if a blocking check finds cases in it, or if it reads a broken one. It
    keeps the rows of earlier runs, and all others are built. A run that would remove messages or documents stops there.

    Where written posts are documents for later windows, the answers are built for one partition after another, with the
    posts over the snapshot in memory, and the tables of the documents again at the end, when each stage is reported.
    """

    def __init__(self, workspace: Workspace, run: Run, on_progress: OnProgress) -> None:
        self._workspace, self._run, self._on_progress = workspace, run, on_progress
        self._resources = RunResources(workspace, isolates_failures=run.isolates_failures)
        takes_turns = POSTS in run.tables and is_made_in_turn(workspace)
        self._in_turn = {stage.table for stage in CORPUS + ANSWERS if takes_turns}
        wanted = self._in_turn | run.tables
        self._stages = [
            stage for stage in STAGES if not wanted.isdisjoint((stage.table, *stage.side_outputs))
        ]
        self._tables = [stage.table for stage in self._stages]
        self._rounds: dict[str, list[StageResult]] = {}
        self._done, self._total = 0, len(self._stages)
        if takes_turns:
            self._total += len(run.partitions) + 1 - len(self._in_turn)

    def build(self) -> None:
        """Build all wanted tables; none if a package or the model of the embedder cannot be used."""
        self._open_models()
        run, workspace = self._run, self._workspace
        # What the partitions of all runs share, one run at a time makes; those that wait find it up to date.
        with workspace.catalog.state.lock("making of messages"):
            self._make(CHATS[:1], run.partitions)
        self._make(CHATS[1:], run.partitions)
        with workspace.catalog.state.lock("making of documents"):
            self._make(CORPUS)
        if self._in_turn:
            self._make_in_turn()
        else:
            self._keep_contexts(run.partitions)
            with closing(self._resources):
                self._make(ANSWERS, run.partitions)
        run.kept = frozenset(self._resources.kept)
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

    def _make(self, stages: Sequence[type[Stage]], partitions: Sequence[str] = ()) -> StageResult | None:
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
                self._take(stage, made)
            if stage.table not in self._in_turn:
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
        if WHOLE in run.broken.get(stage.table, {}):
            return []
        partitions = partitions if stage.partitioned else [WHOLE]
        if stage in SEARCHING:
            partitions = [key for key in partitions if key not in self._resources.kept]
        run.leave(stage.table, find_inherited(workspace, stage, partitions, run))
        wanted = run.good(stage.table, partitions)
        if wanted:
            workspace.runs.enter(stage.table)
            self._on_progress(RunPosition(stage.table, min(self._done, self._total - 1), self._total))
        return wanted

    def _describe(self, stage: type[Stage], wanted: Sequence[str], error: BackstoryError) -> StageResult:
        """Describe a stage that made nothing, since it raised an error; after a refused removal, no other is made."""
        failures = dict.fromkeys(wanted, str(error))
        if isinstance(error, RemovalError):
            failures = {WHOLE: str(error)}
            for later in self._stages[self._tables.index(stage.table) + 1 :]:
                for table in (later.table, *later.side_outputs):
                    self._run.leave(table, {WHOLE: f"the run stopped at {stage.table}"})
        return StageResult(stage.table, failures=failures)

    def _take(self, stage: type[Stage], made: StageResult) -> None:
        """Record what a stage made, what it could not make, and what it left."""
        run = self._run
        run.partitions = self._resources.widened_to or run.partitions
        run.fail(stage.table, made.failures)
        if made.stopped is not None:  # what is left is not built, and has not failed
            left = self._tables[self._tables.index(stage.table) :]
            told = f"{made.stopped}. Left: {count(len(made.left), 'partition')} of {', '.join(left)}"
            run.leave(stage.table, dict.fromkeys(made.left, told))
            run.stopped = run.stopped or told
        if made.keys:
            self._rounds.setdefault(stage.table, []).append(made)

    def _report(self, stage: type[Stage]) -> None:
        """Tell what was made of a table, if anything was, and run all its checks."""
        if rounds := self._rounds.pop(stage.table, None):
            made = join_rounds(rounds, self._workspace.catalog.read(stage.table))
            self._run.made[stage.table] = made
            self._on_progress(made)
            for check in checks_after(stage.table):
                self._check(made, check, self._on_progress)

    def _make_in_turn(self) -> None:
        """Search and write one stale partition after another, and publish the posts, also those before a stop."""
        run, workspace, resources, left = self._run, self._workspace, self._resources, [*self._run.partitions]
        if self._may_go_on():
            # A name that is found in a document changes contexts of earlier days, which must be made in their turn.
            record_named_documents(workspace)
            resources.posts = find_added_posts(resources)
            with closing(resources):
                while left and self._may_go_on():
                    # The partitions before a stale one have nothing to search, or nothing that has changed.
                    many = self._find_first_stale(left) + 1
                    self._make_with_posts(left[:many])
                    left = left[many:]
            resources.posts = None
            self._make(CORPUS)
            record_named_documents(workspace)
        if run.stopped and left:
            run.stopped = f"{run.stopped}; and {count(len(left), 'later partition')}"
        for stage in self._stages:
            if stage in ANSWERS:
                run.leave(stage.table, dict.fromkeys(left, run.stopped or f"{CORPUS[-1].table} is broken"))
            self._report(stage)

    def _may_go_on(self) -> bool:
        return not self._run.stopped and WHOLE not in self._run.broken.get(CORPUS[-1].table, {})

    def _make_with_posts(self, partitions: Sequence[str]) -> None:
        """Search and write partitions of which the last is stale, until no window in it waits for another's post."""
        waiting: int | float | str = 0
        posts = self._make(ANSWERS, partitions)
        self._make([AddedPostsStage])
        while posts and posts.counts.get(WAITING, 0) not in (0, waiting) and self._may_go_on():
            waiting = posts.counts[WAITING]
            self._keep_contexts(partitions[-1:])
            posts = self._make(ANSWERS, partitions[-1:])
            self._make([AddedPostsStage])
        self._done += len(partitions)

    def _find_first_stale(self, partitions: Sequence[str]) -> int:
        """Find the first partition with windows to search or write again, looking at ever more of them at once."""
        windows = self._workspace.catalog.read("windows")
        first, many = 0, 1
        while first < len(partitions):
            group = partitions[first : first + many]
            self._keep_contexts(group)
            group = [key for key in group if key in windows and windows[key].rows]
            stale = {key for stage in ANSWERS for key in stage(self._resources, group).stale_partitions()}
            if stale:
                return partitions.index(min(stale))
            first, many = first + many, many * _GROWTH
        return len(partitions)

    def _keep_contexts(self, partitions: Sequence[str]) -> None:
        """Note which partitions ``partitions.after_posts`` keeps, of which nothing but the snapshot has changed."""
        kept = self._resources.kept
        if self._run.keeps_contexts:
            for key in partitions:
                kept.pop(key, None)
            kept |= name_kept_versions(self._workspace, self._resources.visible, partitions)
            for stage in SEARCHING:
                wanted = [key for key in partitions if key in kept]
                for key in stage(self._resources, wanted).stale_partitions():
                    del kept[key]

    def _check(self, made: StageResult, check: Check, on_progress: OnProgress) -> None:
        """Look for the cases of a check in what was made of a table."""
        run, workspace = self._run, self._workspace
        partitions = run.good(made.table, made.keys)
        if not partitions or not run.checks:
            return
        places = partitions if check.table in PARTITIONED else [WHOLE]
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
