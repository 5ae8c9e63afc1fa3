"""Builds the tables of a run; broken partitions are left out and told, the rest is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

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
from backstory.pipeline.chats.named_documents import record_named_documents
from backstory.pipeline.checks.cases import find_cases, remember, remembered_cases
from backstory.pipeline.checks.checks import Check, checks_after
from backstory.pipeline.incremental.fingerprints import depends_on_model
from backstory.pipeline.incremental.report import StageResult, join_rounds, log_report
from backstory.pipeline.incremental.visible_documents import name_kept_snapshots
from backstory.pipeline.run.plan import ANSWERS, CHATS, CORPUS, PARTITIONED, STAGES
from backstory.pipeline.run.run import Reasons, Run, RunEvent, RunPosition
from backstory.pipeline.stages.posts import POSTS, WAITING
from backstory.pipeline.stages.retrieval import RetrievalStage
from backstory.pipeline.stages.search_index import AddedPostsStage, find_added_posts
from backstory.pipeline.stages.stage import RunResources, Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.partitions import previous_partition
from backstory.storage.tables.tables import WHOLE

_GROWTH: Final = 4

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
    """Builds one stage of a run after another, each for all partitions, or partition by partition.

    Where written posts are documents for later windows, a partition is searched and written when the posts of all
    earlier windows are in the index. Partitions without changes are passed over together, so a run that changes one day
    costs as much as without feedback, unless its post changes what later windows are given.

    The tables of the documents and the snapshot are then made before the first partition and after the last; in
    between, the posts lie over the snapshot in memory. After each partition only blocking checks run that need not wait
    for the end, on its rows. All checks run at the end, and what was built of a stage is reported as one.
    """

    def __init__(
        self, workspace: Workspace, run: Run, stages: Sequence[type[Stage]], on_progress: OnProgress
    ) -> None:
        self._workspace = workspace
        self._run = run
        self._stages = stages
        self._tables = [stage.table for stage in stages]
        self._on_progress = on_progress
        self._resources = RunResources(workspace, isolates_failures=run.isolates_failures)
        self._rounds: dict[str, list[StageResult]] = {}
        self._takes_turns = False
        self._left: list[str] = []

    def open_models(self) -> bool:
        """Open what the stages call, before any work is done; without the embedder, no table is built."""
        workspace, tables = self._workspace, self._tables
        if "documents" in tables:
            require_packages(workspace)
        if "search_index" in tables and workspace.settings.index.engine == "milvus":
            require_milvus()
        needing = next((stage for stage in self._stages if depends_on_model(stage.table)), None)
        if needing is not None:
            try:
                workspace.embedder  # noqa: B018 - opening compares the weights with their checksum
            except BackstoryError as error:
                if isinstance(error, MissingExtraError) or not self._run.isolates_failures:
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

    def build_tables(self) -> None:
        """Build one table after another, each for all partitions."""
        # What the partitions of all runs share, one run at a time makes; those that wait find it up to date.
        locked = self._workspace.catalog.state.lock
        with locked("making of messages"):
            self._build_and_report(CHATS[:1])
        self._build_and_report(CHATS[1:])
        with locked("making of documents"):
            self._build_and_report(CORPUS)
        with self._resources.sharing_index():
            self._build_and_report(ANSWERS)

    def build_in_turn(self) -> None:
        """Build the tables of the chats and documents, the others in turn, and the index of all posts at last."""
        run, self._takes_turns = self._run, True
        self._build_and_report(CHATS)
        self._left = list(run.partitions)
        self._build_round(CORPUS, [])
        if self._may_go_on() and self._add_posts():
            for stage in CORPUS:
                self._build(stage, [])
            record_named_documents(self._workspace)
        reason = run.stopped or f"{CORPUS[-1].table} is broken"
        if run.stopped and self._left:
            run.stopped = f"{run.stopped}; and {len(self._left)} later partitions"
        for stage in ANSWERS:
            run.leave(stage.table, dict.fromkeys(self._left, reason))
        for stage in self._stages:
            self._report(stage)

    def _build_and_report(self, stages: Sequence[type[Stage]]) -> None:
        """Build stages for all partitions, as far as they are wanted, and check each table."""
        for stage in filter(self._stages.__contains__, stages):
            self._build(stage, self._run.partitions)
            self._report(stage)

    def _build_round(self, stages: Sequence[type[Stage]], partitions: Sequence[str]) -> StageResult | None:
        """Build and check stages for some partitions, and return the result of the last one."""
        made = None
        for stage in stages:
            made = self._build(stage, partitions)
            for check in checks_after(stage.table):
                if made and made.computed and check.blocking and not check.waits:
                    self._check(made, check, ignore_progress)
        return made

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

    def _add_posts(self) -> bool:
        """Search and write one stale partition after another; return whether posts were added that are not published.

        After a stop or a failure, too, those that were written are in the index for everybody.
        """
        resources = self._resources
        # A name that is found in a document changes contexts of earlier days, which must be made in their turn.
        record_named_documents(self._workspace)
        published = resources.posts = find_added_posts(resources)
        with resources.sharing_index():
            while self._left and self._may_go_on():
                place = self._find_first_stale()
                # The partitions before it have nothing to search, or nothing that has changed.
                self._build_with_posts(self._left[: place + 1])
                self._left = self._left[place + 1 :]
        added, resources.posts = resources.posts, None
        return added.documents is not published.documents

    def _leave_kept(self, stage: type[Stage], partitions: Sequence[str]) -> Sequence[str]:
        """Leave out the partitions that keep contexts of an earlier snapshot, if the run asks for it.

        These are the partitions that ``partitions.after_posts`` does not search again, and of which nothing but the
        snapshot has changed.
        """
        if not self._run.keeps_contexts or not issubclass(stage, RetrievalStage):
            return partitions
        if partitions and stage is ANSWERS[0]:
            kept = name_kept_snapshots(self._workspace, self._resources.visible, partitions)
            for searching in ANSWERS:
                if issubclass(searching, RetrievalStage):
                    for key in searching(RunResources(self._workspace), list(kept), kept).stale_partitions():
                        del kept[key]
            self._run.kept = self._run.kept.difference(partitions) | set(kept)
        return [key for key in partitions if key not in self._run.kept]

    def _may_go_on(self) -> bool:
        run = self._run
        return not (run.stopped or run.refused_at) and WHOLE not in run.broken.get(CORPUS[-1].table, {})

    def _build_with_posts(self, partitions: Sequence[str]) -> None:
        """Search and write partitions of which the last is stale, until no window waits for the post of another.

        Within a partition, a window that begins after another has ended waits for the post of that other window. The
        stages are then repeated, once for each window in such a chain at most.
        """
        waiting = None
        while True:
            posts = self._build_round(ANSWERS, partitions)
            self._build_round([AddedPostsStage], [])
            partitions = partitions[-1:]
            still = posts.counts.get(WAITING, 0) if posts else 0
            if not still or still == waiting or not self._may_go_on():
                return
            waiting = still

    def _find_first_stale(self) -> int:
        """Find the first partition with windows that must be searched or written again.

        The files of a partition are hashed to know, so that only a few partitions are looked at if the first is
        pending.
        """
        windows = self._workspace.catalog.read("windows")
        first, many = 0, 1
        while first < len(self._left):
            group = self._left[first : first + many]
            wanted = [key for key in group if key in windows and windows[key].rows]
            found: str | None = None
            for stage in ANSWERS:
                # Only what comes before the first one that is known to be stale can change the answer.
                earlier = wanted if found is None else wanted[: wanted.index(found)]
                earlier = list(self._leave_kept(stage, earlier))
                stale = stage(self._resources, earlier).stale_partitions() if earlier else []
                found = next(iter(stale), found)
            if found is not None:
                return self._left.index(found)
            first, many = first + many, many * _GROWTH
        return len(self._left)

    def _locate(self, stage: type[Stage]) -> RunPosition:
        """Return where the run stands when it begins to make a table."""
        place = self._tables.index(stage.table)
        if not self._takes_turns:
            return RunPosition(stage.table, place, len(self._stages))
        chats = len([one for one in self._stages if one in CHATS])
        total = chats + len(self._run.partitions) + 1
        if place < chats:
            return RunPosition(stage.table, place, total)
        return RunPosition(stage.table, total - 1 - len(self._left), total, has_turns=True)

    def _build(self, stage: type[Stage], partitions: Sequence[str]) -> StageResult | None:
        """Build those of the partitions that are not broken, and do not read a broken one; None if none can be."""
        run, workspace = self._run, self._workspace
        if run.refused_at:
            return None
        partitions = self._leave_kept(stage, partitions) if stage.partitioned else [WHOLE]
        run.leave(stage.table, _find_inherited(workspace, stage, partitions, run))
        wanted = run.good(stage.table, partitions)
        if not wanted:
            return None
        workspace.runs.enter(stage.table)
        self._on_progress(self._locate(stage))
        try:
            with observe("stage", stage=stage.table, **describe_range(wanted)) as add:
                with naming_faults_of_system(workspace.root):
                    made = stage(self._resources, wanted).build()
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
        run.partitions = self._resources.widened_to or run.partitions
        run.fail(stage.table, made.failures)
        if made.stopped is not None:
            self._stop(stage, wanted, made.left, made.stopped)
        if not made.keys:
            return None
        self._rounds.setdefault(stage.table, []).append(made)
        return made

    def _stop(self, stage: type[Stage], wanted: Sequence[str], left: Sequence[str], reason: str) -> None:
        """Record partitions that a budget or a limit left. They are not built and have not failed."""
        of = f"{len(left)} of {len(wanted)} partitions of {stage.table}" if stage.partitioned else stage.table
        later = self._tables[self._tables.index(stage.table) + 1 :]
        told = f"{reason}. Left: {of}{', then ' if later else ''}{', '.join(later)}"
        self._run.leave(stage.table, dict.fromkeys(left, told))
        self._run.stopped = self._run.stopped or told

    def _check(self, made: StageResult, check: Check, on_progress: OnProgress) -> None:
        """Look for the cases of a check in what was made of a table."""
        run, workspace = self._run, self._workspace
        partitions = run.good(made.table, made.keys)
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
