"""What a run has built so far: the state that its result describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from backstory.base.wording import name_some
from backstory.pipeline.checks.checks import Check, CheckResult
from backstory.pipeline.history.ends import RunEnd
from backstory.pipeline.incremental.report import (
    StageResult,
)
from backstory.pipeline.run.bisect import Reasons
from backstory.pipeline.run.differences import Differences
from backstory.storage.tables.tables import WHOLE

_SHOWN_PARTITIONS: Final = 3


@dataclass
class RunState:
    """What a run has built of each table, what is broken, and what the checks found.

    Attributes:
        reports: Stage reports by table; more than one report if some partitions failed and the range was bisected.
        broken: By table and partition, why the partition could not be built or is damaged. The key is :data:`WHOLE`
            for a table without partitions.
        findings: The finding of each check that ran.
        stopped: Which budget or limit stopped the run, and what is left; None if none did.
        stopped_at: The table at which the run stopped, since it would have removed messages or documents.
        errors: Failures outside of the stages, a sentence each.
        differences: What is different for a reader; None if the run made nothing.
    """

    reports: dict[str, list[StageResult]] = field(default_factory=dict)
    broken: dict[str, Reasons] = field(default_factory=dict)
    findings: dict[Check, CheckResult] = field(default_factory=dict)
    stopped: str | None = None
    stopped_at: str = ""
    errors: list[str] = field(default_factory=list)
    differences: Differences | None = None
    _causes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether everything was built: nothing failed or was left by a stop."""
        return not (self._causes or self.errors or self.stopped)

    def good(self, table: str, partitions: Sequence[str]) -> list[str]:
        """Return those of the partitions that are not broken."""
        broken = self.broken.get(table, {})
        return [] if WHOLE in broken else [key for key in partitions if key not in broken]

    def describe_failures(self) -> list[str]:
        """Describe each cause of failure in a sentence that names the table and its broken partitions."""
        sentences = list(self.errors)
        for reason, places in self._causes.items():
            tables = list(dict.fromkeys(table for table, _ in places))
            keys = [key for table, key in places if table == tables[0] and key != WHOLE]
            where = f" ({name_some(keys, _SHOWN_PARTITIONS)})" if keys else ""
            sentences.append(
                f"{tables[0]}{where}: {reason}" if not reason.startswith(tables[0]) else reason + where
            )
        return sentences

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
            failure=why or self.stopped,
            stopped=self.stopped is not None,
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
