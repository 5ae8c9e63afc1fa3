"""The problems of a workspace: which a run found, which are still open, and which are gone."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from backstory.base.ids import digest
from backstory.operations.alerts.run_end import CheckSummary, RunEnd
from backstory.pipeline.checks.checks import CHECKS

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


def find_problems(end: RunEnd, kinds: Collection[Kind], now: str) -> dict[str, Problem]:
    """List the problems that a run found.

    Args:
        end: The end of the run.
        kinds: Kinds of problems to list.
        now: The time, ISO 8601.
    """
    found = {}
    for sentence in list_failures(end):
        found[_identify_failure(sentence)] = Problem(
            kind="failure",
            sentence=sentence,
            since=now,
            first=end.partitions[0] if end.partitions else None,
            last=end.partitions[-1] if end.partitions else None,
            tables=tuple(end.tables),
        )
    for check in end.checks:
        if not check.count or (check.table, check.name) == _CHECK_OF_FILES:
            continue
        found[_identify_check(check)] = Problem(
            kind="failure" if check.blocking else "warning",
            sentence=_describe_check(check),
            since=now,
            table=check.table,
            check=check.name,
            count=check.count,
        )
    for file in end.files or ():
        found[f"file {file.source} {file.status}"] = Problem(
            kind="set_aside", sentence=f"{file.source}: {file.reason}", since=now, file=file.source
        )
    return {identity: problem for identity, problem in found.items() if problem.kind in kinds}


def update_open(before: Problems, found: Problems, end: RunEnd) -> dict[str, Problem]:
    """Return the problems that are open after a run.

    A problem stays open until a run looks at it again: a check until it passes, a file until the files are read, a
    failed run until a run over the same partitions and tables ends well.

    Args:
        before: The problems that were open before it.
        found: The problems that it found.
        end: The end of the run.
    """
    passed = {_identify_check(check) for check in end.checks}
    still = {
        identity: problem
        for identity, problem in before.items()
        if identity not in passed and not _is_settled(problem, end)
    }
    return still | {
        identity: problem.model_copy(update={"since": before.get(identity, problem).since})
        for identity, problem in found.items()
    }


def _is_settled(problem: Problem, end: RunEnd) -> bool:
    if problem.file is not None:
        return end.files is not None
    if problem.check is not None or end.failures:
        return False
    covers_days = problem.first is None or (
        bool(end.partitions)
        and end.partitions[0] <= problem.first
        and (problem.last or problem.first) <= end.partitions[-1]
    )
    return covers_days and set(problem.tables) <= set(end.tables)


def list_failures(end: RunEnd) -> list[str]:
    """Return the failures that no check stands for; the sentence of a check quotes examples of its cases."""
    told_by_check = tuple(
        _CAUSE_OF_FAILURE_CHECK.format(table=check.table, name=check.name)
        for check in end.checks
        if check.blocking and check.count
    )
    return [
        sentence for sentence in end.failures if not (told_by_check and sentence.startswith(told_by_check))
    ]


def _identify_check(check: CheckSummary) -> str:
    return f"check {check.table} {check.name}"


def _identify_failure(sentence: str) -> str:
    return f"failure {digest([re.sub(r'[0-9]+', '', sentence)])}"


def _describe_check(check: CheckSummary) -> str:
    known = next((one for one in CHECKS if (one.table, one.name) == (check.table, check.name)), None)
    what = "" if known is None else f" ({known.what})"
    remedy = "" if known is None or "{" in known.remedy else f". {known.remedy}"
    return f"{check.table}: {check.count} {check.name}{what}{remedy}"
