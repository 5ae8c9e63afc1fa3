"""The cases that the checks of a run find, by partition, and the catalog's memory of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from backstory.base.errors import BackstoryError
from backstory.base.telemetry import log_event
from backstory.base.wording import count_rest
from backstory.pipeline.checks.checks import Check
from backstory.pipeline.run.plan import PARTITIONED
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.text.prompts.entries import cut_line

_EXAMPLES: Final = 2
_EXAMPLE_CHARACTERS: Final = 160
_WINDOW: Final = "window_id"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckResult:
    """Result of a check.

    Attributes:
        check: The check that ran.
        cases: One row per case; no rows if the check passed.
        rows: Number of checked rows of the table; None unless the check has ``share_of_rows``.
        by_partition: Number of cases per partition, where they were counted; partitions without cases are absent.
        failures: The partitions on which the check raised an error, and the error.
    """

    check: Check
    cases: pl.DataFrame
    rows: int | None = None
    by_partition: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether there are no cases."""
        return self.cases.is_empty()

    @property
    def message(self) -> str:
        """Number of cases, the first of them, and the remedy."""
        if self.passed:
            return "none found"
        share = "" if self.rows is None else f" among {self.rows}"
        examples = [
            cut_line(self.check.example.format_map(row), _EXAMPLE_CHARACTERS)
            for row in self.cases.head(_EXAMPLES).to_dicts()
        ]
        named = "; ".join(filter(None, [*examples, count_rest(len(self.cases), _EXAMPLES)]))
        end = "" if named.endswith("…") else "."
        return f"{len(self.cases)} found{share} ({self.check.what}): {named}{end} {self.check.remedy}"


def make_check(workspace: Workspace, check: Check, partitions: Sequence[str] | None) -> CheckResult:
    """Run a check for some partitions, or None for all, and log its finding.

    A table without partitions is always checked as a whole.
    """
    wanted = partitions if check.table in PARTITIONED else None
    rows = len(workspace.tables.read(check.table, wanted)) if check.share_of_rows else None
    finding = CheckResult(check, check.find(workspace, wanted), rows)
    log_event(
        logger,
        "checked",
        table=check.table,
        check=check.name,
        found=len(finding.cases),
        blocking=check.blocking,
    )
    return finding


def find_cases(workspace: Workspace, check: Check, partitions: Sequence[str]) -> CheckResult:
    """Run a check; where it finds cases or raises, run it for each partition alone to tell which ones are concerned."""
    try:
        finding = make_check(workspace, check, None if WHOLE in partitions else partitions)
    except BackstoryError as error:
        if len(partitions) == 1:
            return CheckResult(check, pl.DataFrame(), failures=dict.fromkeys(partitions, str(error)))
        finding = None
    if finding is not None and (finding.passed or len(partitions) == 1):
        return replace(finding, by_partition={} if finding.passed else {partitions[0]: len(finding.cases)})
    if (
        finding is not None
        and _WINDOW in finding.cases.columns
        and finding.cases.schema[_WINDOW] == pl.String
    ):
        of_windows = workspace.tables.read("windows", partitions).select(_WINDOW, "partition")
        named = finding.cases.select(_WINDOW).join(of_windows, on=_WINDOW)
        if len(named) == len(finding.cases):
            return replace(finding, by_partition=dict(named["partition"].value_counts().iter_rows()))
    parts = {key: find_cases(workspace, check, [key]) for key in partitions}
    finding = finding or CheckResult(
        check, pl.concat([part.cases for part in parts.values()], how="diagonal")
    )
    return replace(
        finding,
        by_partition={key: len(part.cases) for key, part in parts.items() if not part.passed},
        failures={key: reason for part in parts.values() for key, reason in part.failures.items()},
    )


def remember(workspace: Workspace, check: Check, looked_at: Sequence[str], cases: dict[str, int]) -> None:
    """Store the number of cases per partition in the catalog until the check runs there again."""
    name = _name_in_catalog(check)
    known = workspace.catalog.read(name)
    gone = dict.fromkeys(key for key in looked_at if key in known)
    workspace.catalog.record(name, gone | {key: Entry("", "", count) for key, count in cases.items()})


def remembered_cases(workspace: Workspace, check: Check) -> dict[str, int]:
    """Return the number of cases from the latest check of each partition; partitions without cases are absent."""
    return {key: entry.rows for key, entry in workspace.catalog.read(_name_in_catalog(check)).items()}


def _name_in_catalog(check: Check) -> str:
    return f"check {check.table} {check.name}"
