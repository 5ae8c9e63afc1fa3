"""Sends alerts to the hooks of a workspace. A failing hook is reported; it never fails the run."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, Field

from backstory.base.environment import WEBHOOK_VARIABLE, find_key
from backstory.base.errors import BackstoryError, InputError, StateError, WorkspaceError
from backstory.base.telemetry import PRINTED, describe_range, log_event
from backstory.base.wording import count
from backstory.ingest.chats.export_files import list_files
from backstory.models.failures import hide_quotes, redact
from backstory.operations.alerts.hooks import Payload, post, run_command
from backstory.operations.alerts.problems import Problem, Problems, find_problems, update_open
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import Workspace
from backstory.storage.schema import ALERTS
from backstory.storage.state import State

logger = logging.getLogger(__name__)

Event: TypeAlias = Literal["problems", "reminder", "resolved", "test"]
Send: TypeAlias = Callable[[Payload], None]
"""Delivers an alert, or raises :class:`BackstoryError`."""

_FORMAT: Final = 1
"""Version of the shape of the payload. It rises when a field changes its meaning or goes."""
_COST: Final = (
    *("embedding_computed", "embedding_tokens"),
    *("embedding_api_calls", "rerank_api_calls", "writing_api_calls"),
)
"""Counts of stages that an alert reports as the cost of a run."""
_MOST: Final = 50
_SHORTEST: Final = 3
"""Length of the shortest name that is redacted; a shorter one would hide parts of other words."""
_WHAT_TO_DO: Final[Mapping[Event, str]] = {
    "problems": "Run `backstory doctor` in the workspace; docs/reference/maintenance.md explains each alert.",
    "reminder": "These problems were already reported and are still open. Run `backstory doctor` in the workspace.",
    "resolved": "Nothing.",
    "test": "Nothing: this is a test.",
}


class SentAlerts(BaseModel):
    """The alerts already sent to one hook.

    Attributes:
        problems: The open problems in the last alert, by identity.
        time: Time of the last alert, ISO 8601; None before the first.
    """

    problems: dict[str, Problem] = Field(default_factory=dict)
    time: str | None = None


def read_sent(state: State, hook: str) -> SentAlerts:
    """Read what a hook was sent last; nothing if it never was."""
    with state.reading() as session:
        row = session.execute("SELECT sent FROM alerts WHERE hook = ?", (hook,)).fetchone()
    return SentAlerts() if row is None else SentAlerts.model_validate_json(row[0])


def record_sent(state: State, hook: str, sent: SentAlerts) -> None:
    """Record what a hook was sent."""
    with state.begin() as session:
        state.upsert(session, ALERTS, [(hook, sent.model_dump_json(exclude_defaults=True))])


def send_alerts(workspace: Workspace, run: Run) -> list[str]:
    """Alert every hook of what a run changed.

    A hook gets an alert when a problem appears that it was not sent yet, when the last problem is gone, and again
    after ``alerts.repeat_hours`` while problems are open. The next run retries a hook that failed.

    Returns:
        One sentence per alert, sent or failed; none without hooks, or if nothing changed.
    """
    hooks = list_hooks(workspace)
    if not hooks:
        return []
    settings, now = workspace.settings.alerts, datetime.now(UTC)
    time = now.isoformat(timespec="seconds")
    state, told = workspace.state, []
    found = find_problems(run, settings.on, time, partial(hide_chats, workspace))
    try:
        with state.lock("alerts"):
            for name, send in hooks.items():
                sent = read_sent(state, name)
                problems = update_open(sent.problems, found, run)
                event = choose_event(sent, problems, now, timedelta(hours=settings.repeat_hours))
                if event is None:
                    record_sent(state, name, SentAlerts(problems=problems, time=sent.time))
                    continue
                gone = [one.sentence for identity, one in sent.problems.items() if identity not in problems]
                payload = _write_payload(event, workspace.root.name, time, problems, gone, run)
                sentence, was_sent = _try(name, send, payload)
                told.append(sentence)
                if was_sent:
                    record_sent(state, name, SentAlerts(problems=problems, time=time))
    except StateError as error:
        log_event(logger, "alerts not sent", level=logging.WARNING, cause=error, extra=PRINTED)
        told.append(f"Alerts not sent: {error}")
    return told


def choose_event(sent: SentAlerts, problems: Problems, now: datetime, repeat: timedelta) -> Event | None:
    """Choose the event to send to a hook; None if no alert is due. Without ``repeat``, nothing is sent again."""
    if problems.keys() - sent.problems.keys():
        return "problems"
    if not problems:
        return "resolved" if sent.problems else None
    is_due = sent.time is not None and now - datetime.fromisoformat(sent.time) >= repeat
    return "reminder" if repeat and is_due else None


def send_test(workspace: Workspace) -> list[str]:
    """Send a test alert to every hook; return a sentence for each.

    Raises:
        InputError: The settings name no hook.
        BackstoryError: A hook failed; the message names each that did.
    """
    hooks = list_hooks(workspace)
    if not hooks:
        raise InputError(
            f"no alert is set up; set alerts.command or alerts.webhook in the settings, or {WEBHOOK_VARIABLE}"
        )
    time = datetime.now(UTC).isoformat(timespec="seconds")
    payload = _write_payload("test", workspace.root.name, time, {}, (), Run((), frozenset()))
    tried = [_try(name, send, payload) for name, send in hooks.items()]
    if failed := [sentence for sentence, was_sent in tried if not was_sent]:
        raise BackstoryError("\n".join(failed), code="alert")
    return [sentence for sentence, _ in tried]


def read_open(workspace: Workspace) -> Mapping[str, list[Problem]]:
    """Return the open problems already sent to each hook, the oldest first."""
    sent = {name: read_sent(workspace.state, name) for name in list_hooks(workspace)}
    return {name: sorted(one.problems.values(), key=lambda found: found.since) for name, one in sent.items()}


def list_hooks(workspace: Workspace) -> dict[str, Send]:
    """Return the function that sends to each hook of the workspace, by its name."""
    settings, seconds = workspace.settings.alerts, workspace.settings.alerts.timeout_seconds
    hooks: dict[str, Send] = {}
    if settings.command:
        hooks["command"] = partial(run_command, settings.command, folder=workspace.root, timeout=seconds)
    address = find_key(WEBHOOK_VARIABLE, workspace.keys) or settings.webhook
    if address is not None:
        hooks["webhook"] = partial(post, address, timeout=seconds)
    return hooks


def _try(name: str, send: Send, payload: Payload) -> tuple[str, bool]:
    try:
        send(payload)
    except BackstoryError as error:
        log_event(logger, "alert not sent", level=logging.WARNING, hook=name, cause=error, extra=PRINTED)
        return f"Alert not sent by {name}: {error}", False
    log_event(logger, "alert sent", hook=name, kind=payload["event"])
    return f"Alert sent by {name}: {payload['event']}", True


def hide_chats(workspace: Workspace, sentence: str) -> str:
    """Leave quotes and keys out of a sentence, and replace names of exports and their folders by ``[chat]``.

    They may be names of people. Names in the table ``sources`` need none of this: they are pseudonyms already. Without
    pseudonyms, file names stay.
    """
    sentence = hide_quotes(redact(sentence, None))
    if not workspace.settings.privacy.pseudonyms or not workspace.chats_dir.is_dir():
        return sentence
    try:
        paths = [listed.path.relative_to(workspace.chats_dir) for listed in list_files(workspace.chats_dir)]
    except WorkspaceError:
        return "the run failed, and the folder of chats cannot be listed; see the output of the run"
    names = {name for path in paths for name in (str(path), *path.parts, path.stem)}
    for name in sorted(names, key=len, reverse=True):
        if len(name) >= _SHORTEST:
            sentence = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "[chat]", sentence)
    return sentence


def _write_payload(
    event: Event, workspace: str, time: str, problems: Problems, gone: Sequence[str], run: Run
) -> Payload:
    """Build the object that ``docs/reference/alerts.md`` describes; lists are cut after 50 entries."""
    listed = sorted(problems.values(), key=lambda one: one.since)
    failures = [one for one in listed if one.kind == "failure" and one.check is None]
    findings = [one for one in listed if one.check is not None]
    files = [one for one in listed if one.file is not None]
    is_warned = len(run.unfinished) > 0 or any(len(result.cases) for result in run.found.values())
    counted = ", ".join(
        count(len(part), one, many)
        for part, one, many in (
            (failures, "failure", "failures"),
            (findings, "check with cases", "checks with cases"),
            (files, "file not read", "files not read"),
        )
        if part
    )
    told = {"test": "this is a test", "resolved": "all problems are resolved"}.get(event)
    if told is None:
        again = "still " if event == "reminder" else ""
        told = f"{again}{counted}. {next(iter([*failures, *findings, *files])).sentence}"

    def shorten(part: Sequence[Problem], *names: str) -> list[dict[str, Any]]:
        return [{name: getattr(one, name) for name in (*names, "sentence", "since")} for one in part[:_MOST]]

    return {
        "format": _FORMAT,
        "event": event,
        "text": f"Backstory, {workspace}: {told}",
        "workspace": workspace,
        "time": time,
        "run_id": run.id or None,
        "status": "failed" if run.troubles else "warned" if is_warned else "ended_well",
        "partitions": {**describe_range(run.partitions), "count": len(run.partitions)},
        "seconds": round(run.seconds, 1) or None,
        "cost": {name: run.total(name) for name in _COST},
        "failures": shorten(failures),
        "findings": [
            {**found, "blocking": one.kind == "failure"}
            for one, found in zip(findings, shorten(findings, "table", "check", "count"), strict=False)
        ],
        "files": shorten(files, "file"),
        "left_out": sum(max(0, len(part) - _MOST) for part in (failures, findings, files)),
        "resolved": list(gone)[:_MOST],
        "what_to_do": _WHAT_TO_DO[event],
    }
