"""The problems of a workspace: which a run found, which are still open, and which are gone."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from backstory.base.ids import digest
from backstory.operations.alerts.ended_run import EndedRun
from backstory.pipeline.checks.checks import Check

Kind: TypeAlias = Literal["failure", "warning", "set_aside"]
"""Kind of a problem; the setting ``alerts.on`` chooses among them."""

_CHECK_OF_FILES = ("sources", "unread_files")
"""The check that counts the files that are not read; each of them is a problem of its own."""
_CAUSE_OF_FAILURE_CHECK = "{table}, check {name}:"


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


def find_problems(run: EndedRun, kinds: Collection[Kind], now: str) -> dict[str, Problem]:
    """List the problems that a run found.

    Args:
        run: The run.
        kinds: Kinds of problems to list.
        now: The time, ISO 8601.
    """
    found = {}
    for sentence in list_failures(run):
        found[_identify_failure(sentence)] = Problem(
            kind="failure",
            sentence=sentence,
            since=now,
            first=run.partitions[0] if run.partitions else None,
            last=run.partitions[-1] if run.partitions else None,
            tables=tuple(run.tables),
        )
    for check, cases in run.checks.items():
        if not cases or (check.table, check.name) == _CHECK_OF_FILES:
            continue
        found[_identify_check(check)] = Problem(
            kind="failure" if check.blocking else "warning",
            sentence=_describe_check(check, cases),
            since=now,
            table=check.table,
            check=check.name,
            count=cases,
        )
    for file in run.files or ():
        found[f"file {file.source} {file.status}"] = Problem(
            kind="set_aside", sentence=f"{file.source}: {file.reason}", since=now, file=file.source
        )
    return {identity: problem for identity, problem in found.items() if problem.kind in kinds}


def update_open(before: Problems, found: Problems, run: EndedRun) -> dict[str, Problem]:
    """Return the problems that are open after a run.

    A problem stays open until a run looks at it again: a check until it passes, a file until the files are read, a
    failed run until a run over the same partitions and tables ends well.

    Args:
        before: The problems that were open before it.
        found: The problems that it found.
        run: The run.
    """
    passed = {_identify_check(check) for check in run.checks}
    still = {
        identity: problem
        for identity, problem in before.items()
        if identity not in passed and not _is_settled(problem, run)
    }
    return still | {
        identity: problem.model_copy(update={"since": before.get(identity, problem).since})
        for identity, problem in found.items()
    }


def _is_settled(problem: Problem, run: EndedRun) -> bool:
    if problem.file is not None:
        return run.files is not None
    if problem.check is not None or run.failures:
        return False
    covers_days = problem.first is None or (
        bool(run.partitions)
        and run.partitions[0] <= problem.first
        and (problem.last or problem.first) <= run.partitions[-1]
    )
    return covers_days and set(problem.tables) <= set(run.tables)


def list_failures(run: EndedRun) -> list[str]:
    """Return the failures that no check stands for; the sentence of a check quotes examples of its cases."""
    told_by_check = tuple(
        _CAUSE_OF_FAILURE_CHECK.format(table=check.table, name=check.name)
        for check, cases in run.checks.items()
        if check.blocking and cases
    )
    return [
        sentence for sentence in run.failures if not (told_by_check and sentence.startswith(told_by_check))
    ]


def _identify_check(check: Check) -> str:
    return f"check {check.table} {check.name}"


def _identify_failure(sentence: str) -> str:
    return f"failure {digest([re.sub(r'[0-9]+', '', sentence)])}"


def _describe_check(check: Check, cases: int) -> str:
    remedy = "" if "{" in check.remedy else f". {check.remedy}"
    return f"{check.table}: {cases} {check.name} ({check.what}){remedy}"
