"""When a problem is new, still open, or gone; and when a hook is told."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from backstory.operations.alerts import Kind, Problem, SentAlerts, choose_event, find_problems, update_open
from backstory.pipeline.checks.checks import CHECKS, Check, CheckResult
from backstory.pipeline.run.run import Run

DAYS = [f"2025-03-{day}" for day in range(13, 17)]
EVERY_KIND: tuple[Kind, ...] = ("failure", "warning", "set_aside")
CHECK = {(check.table, check.name): check for check in CHECKS}


def find(table: str, name: str, cases: int) -> dict[Check, CheckResult]:
    check = CHECK[table, name]
    return {check: CheckResult(check, pl.DataFrame({"case": ["a text of a chat"] * cases}))}


END = Run(DAYS, frozenset({"messages", "windows", "documents"}), id="1")
WARNED = replace(END, found=find("quarantine", "unread_lines", 2))
BLOCKED = replace(
    END,
    errors=["windows, check unknown_messages: 1 found: a text of a chat"],
    found=find("windows", "unknown_messages", 1),
)
FAILED = replace(END, errors=["messages: HTTP 503 after 6 attempts"])
UNREAD = replace(
    END,
    sources=pl.DataFrame({"source": ["posts/a.md"], "status": ["failed"], "reason": ["not valid YAML"]}),
)


def follow(*ends: Run) -> list[dict[str, Problem]]:
    """Give what is open after each run."""
    opened: list[dict[str, Problem]] = []
    for time, end in enumerate(ends):
        before = opened[-1] if opened else {}
        opened.append(update_open(before, find_problems(end, EVERY_KIND, f"t{time}"), end))
    return opened


@pytest.mark.parametrize(
    ("end", "kind"),
    [(WARNED, "warning"), (BLOCKED, "failure"), (FAILED, "failure"), (UNREAD, "set_aside")],
)
def test_each_problem_has_a_kind_and_quotes_no_case(end: Run, kind: str) -> None:
    (problem,) = find_problems(end, EVERY_KIND, "t").values()
    assert problem.kind == kind
    assert "a text of a chat" not in problem.sentence
    assert find_problems(end, (), "t") == {}


@pytest.mark.parametrize("end", [WARNED, BLOCKED, FAILED, UNREAD])
def test_a_problem_stays_one_problem_until_a_run_finds_it_gone(end: Run) -> None:
    passed = replace(END, found={check: CheckResult(check, pl.DataFrame()) for check in end.found})
    first, second, third = follow(end, replace(end, id="2"), passed)
    assert first.keys() == second.keys()
    assert [problem.since for problem in second.values()] == ["t0"]
    assert third == {}


def test_another_number_is_the_same_problem() -> None:
    failed_later = replace(FAILED, errors=["messages: HTTP 504 after 7 attempts"])
    first, second = follow(FAILED, failed_later)
    assert first.keys() == second.keys()
    more = replace(WARNED, found=find("quarantine", "unread_lines", 9))
    first, second = follow(WARNED, more)
    assert first.keys() == second.keys()
    assert [problem.count for problem in second.values()] == [9]


@pytest.mark.parametrize(
    "other",
    [
        replace(END, partitions=DAYS[1:]),
        replace(END, tables=frozenset({"documents"})),
        replace(END, partitions=(), tables=frozenset({"documents"})),
        replace(END, errors=["windows: something else"]),
    ],
)
def test_a_failure_stays_open_until_a_run_over_its_days_and_tables_ends_well(other: Run) -> None:
    first, second, third = follow(FAILED, other, END)
    assert first.keys() <= second.keys()
    assert not first.keys() & third.keys()


def test_a_check_or_file_at_which_a_run_does_not_look_stays_open() -> None:
    _, opened, still = follow(WARNED, UNREAD, replace(END, tables=frozenset({"windows"})))
    assert len(opened) == 2
    assert still == opened


NOON = datetime(2025, 3, 14, 12, tzinfo=UTC)
DAY = timedelta(hours=24)


def make_problems(*names: str) -> dict[str, Problem]:
    return {name: Problem(kind="warning", sentence=name, since="t") for name in names}


@pytest.mark.parametrize(
    ("known", "found", "hours", "repeat", "event"),
    [
        ("", "", 1, DAY, None),
        ("", "a", 0, DAY, "problems"),
        ("a", "a", 1, DAY, None),
        ("a", "ab", 1, DAY, "problems"),
        ("ab", "a", 1, DAY, None),
        ("ab", "a", 24, DAY, "reminder"),
        ("ab", "a", 999, timedelta(0), None),
        ("a", "b", 1, DAY, "problems"),
        ("ab", "", 1, DAY, "resolved"),
        ("", "", 999, DAY, None),
    ],
)
def test_a_hook_gets_changes_and_a_reminder_once_a_day(
    known: Sequence[str], found: Sequence[str], hours: int, repeat: timedelta, event: str | None
) -> None:
    sent = SentAlerts(problems=make_problems(*known), time=NOON.isoformat())
    assert choose_event(sent, make_problems(*found), NOON + timedelta(hours=hours), repeat) == event
