"""The cases that the checks of a run find, by partition, and the catalog's memory of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
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

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckResult:
    """Result of a check.

    Attributes:
        check: The check that ran.
        cases: One row per case; no rows if the check passed.
        rows: Number of checked rows of the table.
        by_partition: Number of cases per partition, where they were counted; partitions without cases are absent.
        failures: The partitions on which the check raised an error, and the error.
    """

    check: Check
    cases: pl.DataFrame
    rows: int = 0
    by_partition: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether there are no cases."""
        return self.cases.is_empty()

    @property
    def message(self) -> str:
        """Number of cases, the first of them, and the remedy."""
        if self.passed:
            return "none found"
        examples = [
            cut_line(self.check.example.format_map(row), _EXAMPLE_CHARACTERS)
            for row in self.cases.head(_EXAMPLES).to_dicts()
        ]
        named = "; ".join(filter(None, [*examples, count_rest(len(self.cases), _EXAMPLES)]))
        end = "" if named.endswith("…") else "."
        found = f"{len(self.cases)} found among {self.rows} ({self.check.what})"
        return f"{found}: {named}{end} {self.check.remedy}"


def make_check(workspace: Workspace, check: Check, partitions: Sequence[str] | None) -> CheckResult:
    """Run a check for some partitions, or None for all, and log its finding; a table without any is checked whole."""
    wanted = partitions if check.table in PARTITIONED else None
    entries = workspace.catalog.read(check.table)
    rows = sum(entry.rows for key, entry in entries.items() if wanted is None or key in wanted)
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
    """Run a check, and tell which partitions have cases, or cannot be checked."""
    try:
        finding = make_check(workspace, check, None if WHOLE in partitions else partitions)
    except BackstoryError as error:
        if len(partitions) == 1:
            return CheckResult(check, pl.DataFrame(), failures={partitions[0]: str(error)})
    else:
        if finding.passed:
            return finding
        if len(partitions) == 1:
            return replace(finding, by_partition={partitions[0]: len(finding.cases)})
        if "window_id" in finding.cases.columns:
            of_windows = workspace.tables.read("windows", partitions).select("window_id", "partition")
            named = finding.cases.join(of_windows, on="window_id")
            if len(named) == len(finding.cases):
                counts = named["partition"].value_counts()
                return replace(finding, by_partition=dict(counts.iter_rows()))
    parts = {key: find_cases(workspace, check, [key]) for key in partitions}
    return CheckResult(
        check,
        # A case of no partition is found in each.
        pl.concat([part.cases for part in parts.values()], how="diagonal").unique(maintain_order=True),
        sum(part.rows for part in parts.values()),
        {key: len(part.cases) for key, part in parts.items() if not part.passed},
        {key: reason for part in parts.values() for key, reason in part.failures.items()},
    )


def remember(workspace: Workspace, check: Check, looked_at: Sequence[str], cases: Mapping[str, int]) -> None:
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
