"""Builds the selected tables stage by stage; broken partitions are skipped and reported, the rest is built."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from backstory.errors import (
    BackstoryError,
    BatchesPendingError,
    MissingExtraError,
    ModelError,
    RemovalError,
    SettingsError,
)
from backstory.inspection.checks import Check, Finding, checks_after, make_check
from backstory.making.apart import Reasons, look_apart, make_apart
from backstory.making.stops import describe_stop
from backstory.pipeline import STAGES, Stage
from backstory.pipeline.copies import drop_unused_answers
from backstory.pipeline.inputs import depends_on_model
from backstory.pipeline.order import ANSWERS, CHATS, CORPUS, make_in_order
from backstory.pipeline.posts import POSTS, is_made_in_turn
from backstory.pipeline.stage_report import (
    StageReport,
    join_reports,
    join_rounds,
    log_report,
    reporting_parts,
)
from backstory.runs import RunEnd
from backstory.sources.fetching import require_packages
from backstory.tables.ledger import Entry
from backstory.tables.parquet import WHOLE
from backstory.tables.partitions import previous_partition
from backstory.workspace import Workspace

_SHOWN_PARTITIONS: Final = 3

Tell: TypeAlias = Callable[[StageReport | Finding], None]
"""Callback for each stage's report and each check's finding, called as soon as there is one."""


@dataclass
class Making:
    """What was built of each table, what is broken, and what the checks found.

    Attributes:
        reports: Stage reports by table; more than one report if some partitions failed and the range was bisected.
        broken: By table and partition, why the partition could not be built or is damaged. The key is :data:`WHOLE`
            for a table without partitions.
        findings: The finding of each check that ran.
        waiting: Which batch jobs tables wait for; empty if they wait for none.
        stopped: Which budget or limit stopped the run, and what is left; None if none did.
        stopped_at: The table at which the run stopped, since it would have removed messages or documents.
    """

    reports: dict[str, list[StageReport]] = field(default_factory=dict)
    broken: dict[str, Reasons] = field(default_factory=dict)
    findings: dict[Check, Finding] = field(default_factory=dict)
    waiting: str = ""
    stopped: str | None = None
    stopped_at: str = ""
    _causes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def good(self, table: str, partitions: Sequence[str]) -> list[str]:
        """Return those of the partitions that are not broken."""
        broken = self.broken.get(table, {})
        return [] if WHOLE in broken else [key for key in partitions if key not in broken]

    def describe_failures(self) -> list[str]:
        """Describe each cause of failure in a sentence that names the table and its broken partitions."""
        sentences = []
        for reason, places in self._causes.items():
            tables = list(dict.fromkeys(table for table, _ in places))
            keys = [key for table, key in places if table == tables[0] and key != WHOLE]
            more = f" and {len(keys) - _SHOWN_PARTITIONS} more" if len(keys) > _SHOWN_PARTITIONS else ""
            where = f" ({', '.join(keys[:_SHOWN_PARTITIONS])}{more})" if keys else ""
            sentences.append(
                f"{tables[0]}{where}: {reason}" if not reason.startswith(tables[0]) else reason + where
            )
        return sentences

    def wait(self, table: str, partitions: Sequence[str], reason: str) -> None:
        """Record partitions that wait for batch jobs. They are not built and have not failed."""
        self.broken.setdefault(table, {}).update(dict.fromkeys(partitions, reason))
        self.waiting = reason

    def stop(self, table: str, partitions: Sequence[str], reason: str) -> None:
        """Record partitions that a budget or a limit left. They are not built and have not failed."""
        self.inherit(table, dict.fromkeys(partitions, reason))
        self.stopped = self.stopped or reason

    def describe_end(self) -> RunEnd:
        """Describe how the run ended, without the reasons of failures, which may name people and files."""
        failed = next((places[0][0] for places in self._causes.values()), None)
        why = (
            None
            if failed is None
            else f"{failed}: partitions failed; the output of the run says which and why"
        )
        return RunEnd(
            changed=any(report.computed for reports in self.reports.values() for report in reports),
            failures=len(self._causes),
            failure=why or self.stopped or self.waiting or None,
            stopped=self.stopped is not None,
            waiting=bool(self.waiting),
        )

    def fail(self, table: str, reasons: Reasons) -> None:
        """Record partitions that are broken by themselves, not because a table that they read is broken."""
        self.inherit(table, reasons)
        for key, reason in reasons.items():
            self._causes.setdefault(reason, []).append((table, key))

    def inherit(self, table: str, reasons: Reasons) -> None:
        """Record partitions that are broken because of another table."""
        if reasons:
            self.broken.setdefault(table, {}).update(reasons)


def make_tables(
    workspace: Workspace, tables: Collection[str], partitions: Sequence[str], tell: Tell = lambda _: None
) -> Making:
    """Build tables in the order in which data flows, and run the checks of each table after it.

    Nothing is made if a table needs the embedder and its model cannot be used. A partition is broken if it cannot be
    built, if a blocking check finds cases in it, or if it reads a broken partition. All other partitions are built. A
    broken partition keeps the rows of earlier runs, and the next run tries it again. A run that would remove messages
    or documents stops there: it builds none of the later tables.

    If posts are built that are documents for later windows, all stages from the documents on are built for one
    partition after another, also those that are not among ``tables``, since a post is made from the posts before it.

    Args:
        workspace: An open workspace.
        tables: Names of the tables to build.
        partitions: Keys of the partitions to build; ignored for tables without partitions.
        tell: Called with the report of each stage, and with the finding of each check.

    Returns:
        Reports, failures and findings of all tables.

    Raises:
        MissingExtraError: A setting needs packages that are not installed. Nothing is built.
    """
    wanted = [stage for stage in STAGES if not {stage.table, *stage.writes_beside}.isdisjoint(tables)]
    if is_made_in_turn(workspace) and any(stage.table == POSTS for stage in wanted):
        wanted = [stage for stage in STAGES if stage in wanted or stage in (*CORPUS, *ANSWERS)]
    making = Making()
    if not _open_models(workspace, wanted, making):
        return making
    if is_made_in_turn(workspace) and any(stage.table == POSTS for stage in wanted):
        _make_in_turn(workspace, wanted, partitions, making, tell)
    else:
        for stage in wanted:
            if not making.stopped_at:
                _make_stage(workspace, stage, partitions if stage.partitioned else [WHOLE], making, tell)
    if making.stopped_at:
        place = next(place for place, stage in enumerate(wanted) if stage.table == making.stopped_at)
        stopped = {WHOLE: f"the run stopped at {making.stopped_at}"}
        for later in wanted[place:]:
            for table in (later.table, *later.writes_beside):
                making.inherit(table, stopped)
    is_whole = bool(making.reports.get(POSTS)) or not workspace.has_chats
    if is_whole and not (making.broken or making.waiting or making.stopped):
        drop_unused_answers(workspace)
    return making


def find_broken(workspace: Workspace, partitions: Sequence[str]) -> Making:
    """Find the partitions in which a blocking check has found cases, and those that read them.

    Args:
        workspace: An open workspace.
        partitions: Keys of all partitions.

    Returns:
        What is broken; nothing is made.
    """
    making = Making()
    for stage in STAGES:
        places = partitions if stage.partitioned else [WHOLE]
        making.inherit(stage.table, _find_inherited(workspace, stage, places, making))
        for check in checks_after(stage.table):
            if check.blocking:
                reason = f"{check.table}, check {check.name}"
                making.inherit(check.table, dict.fromkeys(remembered_cases(workspace, check), reason))
    return making


def _open_models(workspace: Workspace, wanted: Sequence[Stage], making: Making) -> bool:
    """Open what the stages call, before any work is done; if the embedder cannot be used, no table is made.

    Raises:
        MissingExtraError: A setting needs packages that are not installed.
    """
    tables = {stage.table for stage in wanted}
    if "documents" in tables:
        require_packages(workspace)
    needing = next((stage for stage in wanted if depends_on_model(stage.table)), None)
    if needing is not None:
        try:
            workspace.embedder  # noqa: B018 - opening compares the weights with their checksum
        except MissingExtraError:
            raise
        except BackstoryError as error:
            reason = {WHOLE: str(error)}
            making.fail(needing.table, reason)
            for stage in wanted:
                for table in (stage.table, *stage.writes_beside):
                    making.inherit(table, reason)
            return False
    # What else is wrong with these fails the stage that calls them; all other tables are made.
    with suppress(ModelError, SettingsError):
        if "decisions" in tables:
            workspace.reranker  # noqa: B018
    with suppress(ModelError, SettingsError):
        if POSTS in tables:
            workspace.writer  # noqa: B018
    return True


def _make_stage(
    workspace: Workspace, stage: Stage, partitions: Sequence[str], making: Making, tell: Tell
) -> None:
    reports = _build(workspace, stage, partitions, making)
    if reports:
        making.reports[stage.table] = reports
        tell(join_reports(reports))
        for check in checks_after(stage.table):
            _check(workspace, check, making.good(stage.table, partitions), making, tell)


def _build(
    workspace: Workspace, stage: Stage, partitions: Sequence[str], making: Making
) -> list[StageReport]:
    """Build those of the partitions that are not broken, and do not read a broken one."""
    making.inherit(stage.table, _find_inherited(workspace, stage, partitions, making))
    wanted = making.good(stage.table, partitions)
    if not wanted:
        return []
    workspace.runs.enter(stage.table)
    try:
        apart = make_apart(workspace, stage, wanted)
    except BatchesPendingError as error:
        making.wait(stage.table, wanted, str(error))
        return []
    except RemovalError as error:
        making.fail(stage.table, {WHOLE: str(error)})
        making.stopped_at = stage.table
        return []
    making.fail(stage.table, apart.failures)
    if apart.stopped is not None:
        making.stop(stage.table, apart.left, describe_stop(stage, wanted, apart.left, apart.stopped))
    return apart.reports


def _make_in_turn(
    workspace: Workspace, wanted: Sequence[Stage], partitions: Sequence[str], making: Making, tell: Tell
) -> None:
    """Build one partition after another, so that each is given the posts of those before it.

    After each partition only blocking checks run, on its rows. All checks run at the end, and the reports of a stage
    are told as one, as if it had been made once.
    """
    rounds: dict[str, list[tuple[Sequence[str], StageReport]]] = {}

    def make(stage: Stage, keys: Sequence[str]) -> StageReport | None:
        if stage not in wanted or making.stopped_at:
            return None
        if stage in CHATS:
            _make_stage(workspace, stage, keys, making, tell)
            return None
        places = keys if stage.partitioned else [WHOLE]
        with reporting_parts():
            reports = _build(workspace, stage, places, making)
            if not reports:
                return None
            report = join_reports(reports)
            is_first = stage.table not in rounds
            rounds.setdefault(stage.table, []).append((places, report))
            if report.computed and (stage.partitioned or is_first):
                for check in checks_after(stage.table):
                    if check.blocking:
                        _check(workspace, check, making.good(stage.table, places), making, lambda _: None)
        return report

    def goes_on() -> bool:
        is_ended = making.waiting or making.stopped or making.stopped_at
        return not is_ended and WHOLE not in making.broken.get(CORPUS[-1].table, {})

    left = make_in_order(workspace, partitions, make, goes_on)
    reason = making.waiting or making.stopped or f"{CORPUS[-1].table} is broken"
    if making.stopped and left:
        making.stopped = f"{making.stopped}; and {len(left)} later partitions"
    for stage in ANSWERS:
        making.inherit(stage.table, dict.fromkeys(left, reason))
    for stage in wanted:
        if stage.table in rounds:
            _tell_rounds(workspace, stage, rounds[stage.table], making, tell)


def _tell_rounds(
    workspace: Workspace,
    stage: Stage,
    rounds: Sequence[tuple[Sequence[str], StageReport]],
    making: Making,
    tell: Tell,
) -> None:
    """Tell the reports of a stage as one, and run all its checks."""
    keys = sorted({key for places, _ in rounds for key in places})
    entries = workspace.ledger.read(stage.table)
    report = join_rounds(rounds, rows=sum(entries[key].rows for key in keys if key in entries))
    making.reports[stage.table] = [report]
    log_report(report)
    tell(report)
    for check in checks_after(stage.table):
        _check(workspace, check, making.good(stage.table, keys), making, tell)


def _find_inherited(workspace: Workspace, stage: Stage, partitions: Sequence[str], making: Making) -> Reasons:
    """Find the partitions that cannot be built because a table that they read is broken."""
    inherited: Reasons = {}
    for table in stage.reads:
        reason = f"{table} is broken"
        broken = set(making.broken.get(table, {}))
        if WHOLE in broken:
            return dict.fromkeys(partitions, reason)
        if table in stage.reads_previous and workspace.settings.windows.overlap:
            grain = workspace.settings.partitions.grain
            broken |= {key for key in partitions if previous_partition(key, grain) in broken}
        inherited |= {key: reason for key in partitions if key in broken}
    return inherited


def _check(workspace: Workspace, check: Check, partitions: Sequence[str], making: Making, tell: Tell) -> None:
    if not partitions:
        return
    is_whole = WHOLE in partitions or not _is_partitioned(check)
    try:
        looked = None if is_whole else look_apart(workspace, check, partitions)
        finding = make_check(workspace, check, None) if looked is None else looked.finding
    except BackstoryError as error:
        making.fail(check.table, {WHOLE: f"{check.table}, check {check.name}: {error}"})
        return
    making.findings[check] = finding
    cases = looked.cases if looked else ({} if finding.passed else {WHOLE: len(finding.cases)})
    _remember(workspace, check, [WHOLE] if looked is None else partitions, cases)
    tell(finding)
    if check.blocking:
        making.fail(
            check.table, dict.fromkeys(cases, f"{check.table}, check {check.name}: {finding.message}")
        )
    if looked:
        making.fail(check.table, looked.failures)


def _is_partitioned(check: Check) -> bool:
    return any(stage.table == check.table and stage.partitioned for stage in STAGES)


def _remember(workspace: Workspace, check: Check, looked_at: Sequence[str], cases: dict[str, int]) -> None:
    """Store the number of cases per partition in the ledger until the check runs there again."""
    name = _name_in_ledger(check)
    known = workspace.ledger.read(name)
    if right := [key for key in looked_at if key in known and key not in cases]:
        workspace.ledger.forget(name, right)
    if cases:
        workspace.ledger.record(name, {key: Entry("", "", count) for key, count in cases.items()})


def remembered_cases(workspace: Workspace, check: Check) -> dict[str, int]:
    """Return the number of cases from the latest check of each partition; partitions without cases are absent."""
    return {key: entry.rows for key, entry in workspace.ledger.read(_name_in_ledger(check)).items()}


def _name_in_ledger(check: Check) -> str:
    return f"check {check.table} {check.name}"
