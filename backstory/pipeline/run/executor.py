"""Builds the selected tables stage by stage; broken partitions are skipped and reported, the rest is built."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TypeAlias

from backstory.base.errors import (
    BackstoryError,
    MissingExtraError,
    ModelError,
    RemovalError,
    SettingsError,
)
from backstory.index.engines.milvus import require_milvus
from backstory.ingest.sources.fetching import require_packages
from backstory.pipeline.chats.copies import drop_unused_answers
from backstory.pipeline.checks.checks import Check, CheckResult, checks_after, make_check
from backstory.pipeline.incremental.fingerprints import depends_on_model
from backstory.pipeline.incremental.report import (
    StageResult,
    join_reports,
    join_rounds,
    log_report,
    reporting_parts,
)
from backstory.pipeline.run.bisect import BisectResult, Reasons, check_per_partition, isolate_failures
from backstory.pipeline.run.order import execute_in_turn
from backstory.pipeline.run.plan import ANSWERS, CHATS, CORPUS, STAGES
from backstory.pipeline.run.position import RunCourse, RunPosition
from backstory.pipeline.run.state import RunState
from backstory.pipeline.stages.posts import POSTS, is_made_in_turn
from backstory.pipeline.stages.stage import RunResources, Stage
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.partitions import previous_partition
from backstory.storage.tables.tables import WHOLE

RunEvent: TypeAlias = StageResult | CheckResult | RunPosition
"""The report of a stage, the finding of a check, or where the run stands when it begins to make a table."""

OnProgress: TypeAlias = Callable[[RunEvent], None]
"""Callback for the events of a run, called as soon as there is one."""


def ignore_progress(event: RunEvent) -> None:
    """Do nothing with an event."""


def execute_tables(
    workspace: Workspace,
    tables: Collection[str],
    partitions: Sequence[str],
    on_progress: OnProgress = ignore_progress,
    *,
    isolates_failures: bool = True,
    checks: bool = True,
) -> RunState:
    """Build tables in the order in which data flows, and run the checks of each table after it.

    Nothing is built if a table needs the embedder and its model cannot be used. A partition is broken if it cannot be
    built, if a blocking check finds cases in it, or if it reads a broken partition. All other partitions are built. A
    broken partition keeps the rows of earlier runs, and the next run tries it again. A run that would remove messages
    or documents stops there: it builds none of the later tables.

    If posts are built that are documents for later windows, all stages from the documents on are built for one
    partition after another, also those that are not among ``tables``, since a post is made from the posts before it.

    Args:
        workspace: An open workspace.
        tables: Names of the tables to build.
        partitions: Keys of the partitions to build; ignored for tables without partitions.
        on_progress: Called with each event as soon as there is one.
        isolates_failures: Whether to bisect failing partitions and go on without them; otherwise the first failure is
            raised.
        checks: Whether to run the checks.

    Returns:
        Reports, failures and findings of all tables.

    Raises:
        MissingExtraError: A setting needs packages that are not installed. Nothing is built.
        BackstoryError: A stage failed, and failures are not isolated.
    """
    stages = [stage for stage in STAGES if not {stage.table, *stage.side_outputs}.isdisjoint(tables)]
    takes_turns = is_made_in_turn(workspace) and any(stage.table == POSTS for stage in stages)
    if takes_turns:
        stages = [stage for stage in STAGES if stage in stages or stage in (*CORPUS, *ANSWERS)]
    course = RunCourse(stages, len(partitions) if takes_turns else None)
    executor = _Executor(
        workspace, stages, course, on_progress, isolates_failures=isolates_failures, checks=checks
    )
    if not executor.open_models():
        return executor.state
    if takes_turns:
        executor.execute_in_turn(partitions)
    else:
        executor.execute_all(partitions)
    executor.skip_after_stop()
    executor.drop_unused_answers()
    return executor.state


def find_broken(workspace: Workspace, partitions: Sequence[str]) -> RunState:
    """Find the partitions in which a blocking check has found cases, and those that read them.

    Args:
        workspace: An open workspace.
        partitions: Keys of all partitions.

    Returns:
        What is broken; nothing is built.
    """
    state = RunState()
    for stage in STAGES:
        places = partitions if stage.partitioned else [WHOLE]
        state.inherit(stage.table, _find_inherited(workspace, stage, places, state))
        for check in checks_after(stage.table):
            if check.blocking:
                reason = f"{check.table}, check {check.name}"
                state.inherit(check.table, dict.fromkeys(remembered_cases(workspace, check), reason))
    return state


class _Executor:
    """Executes stages of one run, and gathers what became of them in :attr:`state`."""

    def __init__(
        self,
        workspace: Workspace,
        stages: Sequence[type[Stage]],
        course: RunCourse,
        on_progress: OnProgress,
        *,
        isolates_failures: bool,
        checks: bool,
    ) -> None:
        self.state = RunState()
        self._workspace = workspace
        self._stages = stages
        self._course = course
        self._on_progress = on_progress
        self._isolates_failures = isolates_failures
        self._checks = checks
        self._resources = RunResources(workspace)

    def open_models(self) -> bool:
        """Open what the stages call, before any work is done; without the embedder, no table is built.

        Raises:
            MissingExtraError: A setting needs packages that are not installed.
        """
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
                if not self._isolates_failures:
                    raise
                reason = {WHOLE: str(error)}
                self.state.fail(needing.table, reason)
                self._inherit_all(self._stages, reason)
                return False
        # What else is wrong with these fails the stage that calls them; all other tables are built.
        with suppress(ModelError, SettingsError):
            if "decisions" in tables:
                workspace.reranker  # noqa: B018
        with suppress(ModelError, SettingsError):
            if POSTS in tables:
                workspace.writer  # noqa: B018
        return True

    def execute(self, stage: type[Stage], partitions: Sequence[str]) -> None:
        """Build a stage, report it, and run its checks."""
        if self.state.stopped_at:
            return
        reports = self._build(stage, partitions)
        if reports:
            self.state.reports[stage.table] = reports
            self._on_progress(join_reports(reports))
            for check in checks_after(stage.table):
                self._check(check, self.state.good(stage.table, partitions), self._on_progress)

    def execute_all(self, partitions: Sequence[str]) -> None:
        """Build one stage after another; those that search the index share it.

        What the partitions of all runs share, one run at a time makes; those that wait find it up to date.
        """
        locked = self._workspace.catalog.state.lock
        with locked("making of messages"):
            self._execute_each(CHATS[:1], partitions)
        self._execute_each(CHATS[1:], partitions)
        with locked("making of documents"):
            self._execute_each(CORPUS, partitions)
        with self._resources.sharing_index():
            self._execute_each(ANSWERS, partitions)

    def _execute_each(self, stages: Sequence[type[Stage]], partitions: Sequence[str]) -> None:
        for stage in filter(self._stages.__contains__, stages):
            self.execute(stage, partitions if stage.partitioned else [WHOLE])

    def execute_in_turn(self, partitions: Sequence[str]) -> None:
        """Build one partition after another, so that each is given the posts of those before it.

        After each partition only blocking checks run, on its rows, and none that the rows have passed before they were
        written. All checks run at the end, and the reports of a stage are joined to one, as if it had been executed
        once.
        """
        state = self.state
        tables = {stage.table for stage in self._stages}
        rounds: dict[str, list[tuple[Sequence[str], StageResult]]] = {}

        def build(stage: type[Stage], keys: Sequence[str]) -> StageResult | None:
            if stage.table not in tables or state.stopped_at:
                return None
            if stage in CHATS:
                self.execute(stage, keys)
                return None
            places = keys if stage.partitioned else [WHOLE]
            with reporting_parts():
                reports = self._build(stage, places)
                if not reports:
                    return None
                report = join_reports(reports)
                is_first = stage.table not in rounds
                rounds.setdefault(stage.table, []).append((places, report))
                if report.computed and (stage.partitioned or is_first):
                    for check in checks_after(stage.table):
                        if check.blocking and not check.precedes_writing:
                            self._check(check, state.good(stage.table, places), ignore_progress)
            return report

        def should_continue() -> bool:
            return not (state.stopped or state.stopped_at) and WHOLE not in state.broken.get(
                CORPUS[-1].table, {}
            )

        left = execute_in_turn(
            self._resources, partitions, build, should_continue, self._course.pass_partitions
        )
        reason = state.stopped or f"{CORPUS[-1].table} is broken"
        if state.stopped and left:
            state.stopped = f"{state.stopped}; and {len(left)} later partitions"
        for stage in ANSWERS:
            state.inherit(stage.table, dict.fromkeys(left, reason))
        for stage in self._stages:
            if stage.table in rounds:
                self._report_rounds(stage, rounds[stage.table])

    def skip_after_stop(self) -> None:
        """Record the tables that a run left which stopped before it would have removed something."""
        if self.state.stopped_at:
            left = [stage for stage in self._stages if stage.table not in self.state.reports]
            self._inherit_all(left, {WHOLE: f"the run stopped at {self.state.stopped_at}"})

    def drop_unused_answers(self) -> None:
        """Delete stored answers of models that no window uses, if the run built all that would use them."""
        state = self.state
        is_whole = bool(state.reports.get(POSTS)) or not self._workspace.has_chats
        if is_whole and not (state.broken or state.stopped):
            drop_unused_answers(self._workspace)

    def _inherit_all(self, stages: Sequence[type[Stage]], reason: Reasons) -> None:
        for stage in stages:
            for table in (stage.table, *stage.side_outputs):
                self.state.inherit(table, reason)

    def _build(self, stage: type[Stage], partitions: Sequence[str]) -> list[StageResult]:
        """Build those of the partitions that are not broken, and do not read a broken one."""
        state = self.state
        state.inherit(stage.table, _find_inherited(self._workspace, stage, partitions, state))
        wanted = state.good(stage.table, partitions)
        position = self._course.reach(stage.table)
        if not wanted:
            return []
        self._workspace.runs.enter(stage.table)
        self._on_progress(position)
        try:
            built = self._build_or_raise(stage, wanted)
        except RemovalError as error:
            if not self._isolates_failures:
                raise
            state.fail(stage.table, {WHOLE: str(error)})
            state.stopped_at = stage.table
            return []
        state.fail(stage.table, built.failures)
        if built.stopped is not None:
            state.stop(stage.table, built.left, _describe_stop(stage, wanted, built.left, built.stopped))
        return built.reports

    def _build_or_raise(self, stage: type[Stage], partitions: Sequence[str]) -> BisectResult:
        if self._isolates_failures:
            return isolate_failures(self._resources, stage, partitions)
        report = stage.make(self._resources, partitions)
        left = stage.find_stale(self._workspace, partitions) if report.stopped else []
        return BisectResult([report], {}, left, report.stopped)

    def _report_rounds(self, stage: type[Stage], rounds: Sequence[tuple[Sequence[str], StageResult]]) -> None:
        """Report the rounds of a stage as one, and run all its checks."""
        keys = sorted({key for places, _ in rounds for key in places})
        entries = self._workspace.catalog.read(stage.table)
        report = join_rounds(rounds, rows=sum(entries[key].rows for key in keys if key in entries))
        self.state.reports[stage.table] = [report]
        log_report(report)
        self._on_progress(report)
        for check in checks_after(stage.table):
            self._check(check, self.state.good(stage.table, keys), self._on_progress)

    def _check(self, check: Check, partitions: Sequence[str], on_progress: OnProgress) -> None:
        if not partitions or not self._checks:
            return
        workspace, state = self._workspace, self.state
        is_whole = WHOLE in partitions or not _is_partitioned(check)
        try:
            finding = (
                make_check(workspace, check, None)
                if is_whole
                else check_per_partition(workspace, check, partitions)
            )
        except BackstoryError as error:
            state.fail(check.table, {WHOLE: f"{check.table}, check {check.name}: {error}"})
            return
        state.findings[check] = finding
        cases = finding.by_partition
        if is_whole and not finding.passed:
            cases = {WHOLE: len(finding.cases)}
        _remember(workspace, check, [WHOLE] if is_whole else partitions, cases)
        on_progress(finding)
        if check.blocking:
            reason = f"{check.table}, check {check.name}: {finding.message}"
            state.fail(check.table, dict.fromkeys(cases, reason))
        state.fail(check.table, finding.failures)


def _describe_stop(stage: type[Stage], partitions: Sequence[str], left: Sequence[str], reason: str) -> str:
    """Describe why a run was stopped, and what is left to build."""
    of = f"{len(left)} of {len(partitions)} partitions of {stage.table}" if stage.partitioned else stage.table
    later = [one.table for one in STAGES[STAGES.index(stage) + 1 :]]
    return f"{reason}. Left: {of}{', then ' if later else ''}{', '.join(later)}"


def _find_inherited(
    workspace: Workspace, stage: type[Stage], partitions: Sequence[str], state: RunState
) -> Reasons:
    """Find the partitions that cannot be built because a table that they read is broken."""
    inherited: Reasons = {}
    also_read = stage.list_also_read(workspace, partitions) if any(map(state.broken.get, stage.reads)) else {}
    for table in stage.reads:
        reason = f"{table} is broken"
        broken = set(state.broken.get(table, {}))
        if WHOLE in broken:
            return dict.fromkeys(partitions, reason)
        if table in stage.reads_previous and workspace.settings.windows.overlap:
            grain = workspace.settings.partitions.grain
            broken |= {key for key in partitions if previous_partition(key, grain) in broken}
        broken |= {key for key, others in also_read.items() if not broken.isdisjoint(others)}
        inherited |= {key: reason for key in partitions if key in broken}
    return inherited


def _is_partitioned(check: Check) -> bool:
    return any(stage.table == check.table and stage.partitioned for stage in STAGES)


def _remember(workspace: Workspace, check: Check, looked_at: Sequence[str], cases: dict[str, int]) -> None:
    """Store the number of cases per partition in the catalog until the check runs there again."""
    name = _name_in_catalog(check)
    known = workspace.catalog.read(name)
    if right := [key for key in looked_at if key in known and key not in cases]:
        workspace.catalog.forget(name, right)
    if cases:
        workspace.catalog.record(name, {key: Entry("", "", count) for key, count in cases.items()})


def remembered_cases(workspace: Workspace, check: Check) -> dict[str, int]:
    """Return the number of cases from the latest check of each partition; partitions without cases are absent."""
    return {key: entry.rows for key, entry in workspace.catalog.read(_name_in_catalog(check)).items()}


def _name_in_catalog(check: Check) -> str:
    return f"check {check.table} {check.name}"
