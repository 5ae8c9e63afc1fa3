"""The problems of a workspace: which a run found, which are still open, and which are gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias

import polars as pl
from pydantic import BaseModel, ConfigDict

from backstory.base.errors import BackstoryError
from backstory.base.ids import digest
from backstory.pipeline.checks.checks import Check
from backstory.pipeline.run.plan import ALL_TABLES
from backstory.pipeline.run.run import Run

Kind: TypeAlias = Literal["failure", "warning", "set_aside"]
"""Kind of a problem; the setting ``alerts.on`` chooses among them."""

_CHECK_OF_FILES: Final = ("sources", "unread_files")
"""The check that counts the files that are not read; each of them is a problem of its own."""
_OF_INPUTS: Final = frozenset({"messages", "documents"})


def describe_crash(error: Exception, run: Run | None = None) -> Run:
    """Return a run that an exception ended before it had a result, or none of which began.

    An exception that the library did not raise on purpose may quote an input, so only its class is told.
    """
    is_ours = isinstance(error, BackstoryError)
    told = str(error) if is_ours else f"{type(error).__name__}, see the log of the run"
    return replace(run or Run((), frozenset()), errors=[told])


class Problem(BaseModel):
    """Something that a person should look at.

    Attributes:
        kind: A failure of a run (cases of a blocking check, too), cases of any other check, or a file not read.
        sentence: What it is, without texts of chats and documents.
        since: When it was found first, ISO 8601.
        table: The table that was checked, or None.
        check: The check that found cases, or None.
        count: Number of cases; 1 for anything but a check.
        file: The file that was not read, or None.
        first: First partition of a failed run, or None.
        last: Last partition of a failed run, or None.
        tables: Tables of a failed run.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    sentence: str
    since: str
    table: str | None = None
    check: str | None = None
    count: int = 1
    file: str | None = None
    first: str | None = None
    last: str | None = None
    tables: tuple[str, ...] = ()


Problems: TypeAlias = Mapping[str, Problem]
"""Problems by identity. The identity of a check has no count, and that of a failure no digits."""


def find_problems(
    run: Run, kinds: Collection[Kind], now: str, hide: Callable[[str], str] = str
) -> dict[str, Problem]:
    """List the problems of some kinds that a run found at a time; ``hide`` leaves out of failures what is private."""
    found = {}
    cases = {check: len(result.cases) for check, result in run.found.items()}
    # The sentence of a check quotes examples of its cases, so the check stands for it.
    told_by_check = tuple(
        f"{check.table}, check {check.name}:" for check, count in cases.items() if check.blocking and count
    )
    for sentence in run.troubles:
        if not sentence.startswith(told_by_check):
            hidden = hide(sentence)
            found[f"failure {digest([re.sub(r'[0-9]+', '', hidden)])}"] = Problem(
                kind="failure",
                sentence=hidden,
                since=now,
                first=run.partitions[0] if run.partitions else None,
                last=run.partitions[-1] if run.partitions else None,
                tables=tuple(sorted(run.tables & ALL_TABLES)),
            )
    for check, count in cases.items():
        if count and (check.table, check.name) != _CHECK_OF_FILES:
            remedy = "" if "{" in check.remedy else f". {check.remedy}"
            found[_identify(check)] = Problem(
                kind="failure" if check.blocking else "warning",
                sentence=f"{check.table}: {count} {check.name} ({check.what}){remedy}",
                since=now,
                table=check.table,
                check=check.name,
                count=count,
            )
    if _looks_at_files(run):
        unread = run.unfinished.select("source", "status", pl.col("reason").fill_null("")).sort("source")
        for source, status, reason in unread.iter_rows():
            found[f"file {source} {status}"] = Problem(
                kind="set_aside", sentence=f"{source}: {reason}", since=now, file=source
            )
    return {identity: problem for identity, problem in found.items() if problem.kind in kinds}


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
    if problem.check is not None or run.troubles:
        return False
    covers_days = problem.first is None or (
        bool(run.partitions)
        and run.partitions[0] <= problem.first
        and (problem.last or problem.first) <= run.partitions[-1]
    )
    return covers_days and run.tables.issuperset(problem.tables)


def _looks_at_files(run: Run) -> bool:
    """Return whether a run has read the inputs, and its table ``sources``; one that crashed has not."""
    return not run.errors and bool(_OF_INPUTS & run.tables)


def _identify(check: Check) -> str:
    return f"check {check.table} {check.name}"
