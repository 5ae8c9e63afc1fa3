"""The problems of a workspace: which a run found, which are still open, and which are gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, TypeAlias

import polars as pl
from pydantic import BaseModel, ConfigDict

from backstory.base.ids import digest
from backstory.base.telemetry import describe_range
from backstory.pipeline.checks.checks import Check
from backstory.pipeline.run.plan import ALL_TABLES
from backstory.pipeline.run.run import Run

Kind: TypeAlias = Literal["failure", "warning", "set_aside"]
"""A failed run or blocking check, cases of any other check, or a file that is not read; ``alerts.on`` chooses."""

_CHECK_OF_FILES: Final = ("sources", "unread_files")
"""The check that counts the files that are not read; each of them is a problem of its own."""
_OF_INPUTS: Final = frozenset({"messages", "documents"})


class Problem(BaseModel):
    """Something that a person should look at. The sentence quotes no chat and no document."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    sentence: str
    since: str
    """When it was found first, ISO 8601."""
    table: str | None = None
    check: str | None = None
    count: int = 1
    """Cases of the check; 1 for anything else."""
    file: str | None = None
    first: str | None = None
    last: str | None = None
    tables: tuple[str, ...] = ()
    """Tables of a failed run, whose partitions are ``first`` to ``last``."""

    @property
    def blocking(self) -> bool:
        """Whether it is a failure."""
        return self.kind == "failure"


Problems: TypeAlias = Mapping[str, Problem]
"""Problems by identity. The identity of a check has no count, and that of a failure no digits."""


def find_problems(
    run: Run, kinds: Collection[Kind], now: str, hide: Callable[[str], str] = str
) -> dict[str, Problem]:
    """List the problems of some kinds that a run found at a time; ``hide`` leaves out of failures what is private."""
    found = {}

    def add(identity: str, kind: Kind, sentence: str, **fields: Any) -> None:
        if kind in kinds:
            found[identity] = Problem(kind=kind, sentence=sentence, since=now, **fields)

    about = describe_range(run.partitions) | {"tables": tuple(sorted(run.tables & ALL_TABLES))}
    cases = {check: len(result.cases) for check, result in run.found.items() if len(result.cases)}
    # The sentence of a check quotes examples of its cases, so the check stands for it.
    told_by_check = tuple(f"{check.table}, check {check.name}:" for check in cases if check.blocking)
    for sentence in map(hide, (one for one in run.troubles if not one.startswith(told_by_check))):
        add(f"failure {digest([re.sub(r'[0-9]+', '', sentence)])}", "failure", sentence, **about)
    for check, number in cases.items():
        if (check.table, check.name) != _CHECK_OF_FILES:
            remedy = "" if "{" in check.remedy else f". {check.remedy}"
            sentence = f"{check.table}: {number} {check.name} ({check.what}){remedy}"
            kind: Kind = "failure" if check.blocking else "warning"
            add(_identify(check), kind, sentence, table=check.table, check=check.name, count=number)
    if _looks_at_files(run):
        unread = run.unfinished.select("source", "status", pl.col("reason").fill_null("")).sort("source")
        for source, status, reason in unread.iter_rows():
            add(f"file {source} {status}", "set_aside", f"{source}: {reason}", file=source)
    return found


def update_open(before: Problems, found: Problems, run: Run) -> dict[str, Problem]:
    """Return the problems that are open after a run, from those that were open before it and those that it found.

    A problem stays open until a run looks at it again: a check until it passes, a file until the files are read, a
    failed run until a run over the same partitions and tables ends well.
    """
    passed = {_identify(check) for check in run.found}
    still = {
        identity: problem
        for identity, problem in before.items()
        if identity not in passed and not _is_settled(problem, run)
    }
    return still | {
        identity: problem.model_copy(update={"since": before.get(identity, problem).since})
        for identity, problem in found.items()
    }


def _is_settled(problem: Problem, run: Run) -> bool:
    if problem.file is not None:
        return _looks_at_files(run)
    if problem.check is not None or run.troubles or not run.tables.issuperset(problem.tables):
        return False
    if problem.first is None or problem.last is None:
        return True
    return bool(run.partitions) and run.partitions[0] <= problem.first <= problem.last <= run.partitions[-1]


def _looks_at_files(run: Run) -> bool:
    """Return whether a run has read the inputs, and its table ``sources``; one that crashed has not."""
    return not run.errors and bool(_OF_INPUTS & run.tables)


def _identify(check: Check) -> str:
    return f"check {check.table} {check.name}"
