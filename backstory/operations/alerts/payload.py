"""The JSON object that commands and webhooks receive. Its shape is documented in ``docs/reference/alerts.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from backstory.base.telemetry import describe_range
from backstory.base.wording import count
from backstory.operations.alerts.ended_run import EndedRun
from backstory.operations.alerts.problems import Problem, Problems

Event: TypeAlias = Literal["problems", "reminder", "resolved", "test"]
Payload: TypeAlias = Mapping[str, Any]

FORMAT: Final = 1
"""Version of the shape. It rises when a field changes its meaning or goes; a further field leaves it as it is."""

_MOST: Final = 50
_WHAT_TO_DO: Final = {
    "problems": "Run `backstory doctor` in the workspace; docs/reference/maintenance.md explains each alert.",
    "reminder": "These problems were already reported and are still open. Run `backstory doctor` in the workspace.",
    "resolved": "Nothing.",
    "test": "Nothing: this is a test.",
}


def write_payload(
    event: Event, workspace: str, time: str, problems: Problems, gone: Sequence[str], run: EndedRun | None
) -> Payload:
    """Build the object.

    Args:
        event: Why it is sent.
        workspace: Name of the workspace's folder.
        time: When it is sent, ISO 8601.
        problems: All open problems.
        gone: Sentences of the problems that are gone since the last alert.
        run: The run that caused it; None for a test.

    Returns:
        An object that JSON can hold. Lists are cut after 50 entries, and ``left_out`` counts the rest.
    """
    listed = sorted(problems.values(), key=lambda one: one.since)
    failures = [one for one in listed if one.kind == "failure" and one.check is None]
    findings = [one for one in listed if one.check is not None]
    files = [one for one in listed if one.file is not None]
    return {
        "format": FORMAT,
        "event": event,
        "text": _write_line(event, workspace, failures, findings, files),
        "workspace": workspace,
        "time": time,
        "run_id": run.run_id if run else None,
        "status": run.status if run else "ended_well",
        "partitions": {**describe_range(run.partitions), "count": len(run.partitions)} if run else None,
        "seconds": round(run.seconds, 1) if run and run.seconds is not None else None,
        "cost": run.cost if run else None,
        "failures": [{"sentence": one.sentence, "since": one.since} for one in failures[:_MOST]],
        "findings": [
            {
                "table": one.table,
                "check": one.check,
                "blocking": one.kind == "failure",
                "count": one.count,
                "sentence": one.sentence,
                "since": one.since,
            }
            for one in findings[:_MOST]
        ],
        "files": [{"file": one.file, "sentence": one.sentence, "since": one.since} for one in files[:_MOST]],
        "left_out": sum(max(0, len(part) - _MOST) for part in (failures, findings, files)),
        "resolved": list(gone)[:_MOST],
        "what_to_do": _WHAT_TO_DO[event],
    }


def _write_line(
    event: Event,
    workspace: str,
    failures: Sequence[Problem],
    findings: Sequence[Problem],
    files: Sequence[Problem],
) -> str:
    """Write one line for people; services such as Slack and Mattermost show the field ``text``."""
    if event in ("test", "resolved"):
        return f"Backstory, {workspace}: " + (
            "this is a test" if event == "test" else "all problems are resolved"
        )
    words = (
        (failures, "failure", "failures"),
        (findings, "check with cases", "checks with cases"),
        (files, "file not read", "files not read"),
    )
    counted = [count(len(part), one, many) for part, one, many in words if part]
    first = next(iter([*failures, *findings, *files]))
    again = "still " if event == "reminder" else ""
    return f"Backstory, {workspace}: {again}{', '.join(counted)}. {first.sentence}"
