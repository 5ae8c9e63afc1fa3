"""Dispatch alerts to the hooks of a workspace. A failing hook is reported; it never fails the run."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeAlias

from backstory.base.environment import WEBHOOK_VARIABLE, find_key
from backstory.base.errors import AlertError, InputError, WorkspaceError
from backstory.base.telemetry import PRINTED, log_event
from backstory.ingest.chats.export_files import list_files
from backstory.models.failures import hide_quotes, redact
from backstory.operations.alerts.ended_run import EndedRun
from backstory.operations.alerts.hooks import post, run_command
from backstory.operations.alerts.last_sent import Memory, SentAlerts, exclusive_memory, read_memory
from backstory.operations.alerts.payload import Event, Payload, write_payload
from backstory.operations.alerts.problems import Problem, Problems, find_problems, update_open
from backstory.pipeline.workspace import Workspace

logger = logging.getLogger(__name__)

_MEMORY_FILE = "alerts.json"

Send: TypeAlias = Callable[[Payload], None]
"""Delivers an alert, or raises :class:`AlertError`."""

_SHORTEST = 3
"""Length of the shortest name that is redacted; a shorter one would hide parts of other words."""


def send_alerts_of_run(workspace: Workspace, run: EndedRun) -> list[str]:
    """Alert every hook of what a run changed.

    A hook gets an alert when a problem appears that it was not sent yet, when the last problem is gone, and again
    after ``alerts.repeat_hours`` while problems are open. The next run retries a hook that failed.

    Args:
        workspace: An open workspace.
        run: The run.

    Returns:
        One sentence per alert, sent or failed; none without hooks, or if nothing changed.
    """
    hooks = list_hooks(workspace)
    if not hooks:
        return []
    now = datetime.now(UTC)
    run = replace(run, failures=[hide_chats(workspace, sentence) for sentence in run.failures])
    path = _memory_path(workspace)
    try:
        with exclusive_memory(path) as memory:
            return [
                sentence
                for name, send in hooks.items()
                for sentence in _alert_hook(workspace, memory, name, send, run, now)
            ]
    except OSError as error:
        log_event(logger, "alerts not sent", level=logging.WARNING, cause=error.strerror, extra=PRINTED)
        return [
            f"Alerts not sent: {path} cannot be written ({error.strerror}); make room, or correct its owner"
        ]


def _alert_hook(
    workspace: Workspace, memory: Memory, name: str, send: Send, run: EndedRun, now: datetime
) -> list[str]:
    """Send one hook the alert that is due, and record it."""
    settings = workspace.settings.alerts
    time = now.isoformat(timespec="seconds")
    sent = memory.hooks.get(name, SentAlerts())
    problems = update_open(sent.problems, find_problems(run, settings.on, time), run)
    event = choose_event(sent, problems, now, timedelta(hours=settings.repeat_hours))
    if event is None:
        memory.hooks[name] = SentAlerts(problems=problems, time=sent.time)
        return []
    gone = [one.sentence for identity, one in sent.problems.items() if identity not in problems]
    payload = write_payload(event, workspace.root.name, time, problems, gone, run)
    sentence, was_sent = _try(name, send, payload)
    if was_sent:
        memory.hooks[name] = SentAlerts(problems=problems, time=time)
    return [sentence]


def choose_event(sent: SentAlerts, problems: Problems, now: datetime, repeat: timedelta) -> Event | None:
    """Choose the event to send to a hook.

    Args:
        sent: The alerts already sent to it.
        problems: The open problems.
        now: The time.
        repeat: Time after which open problems are sent again; zero for never.

    Returns:
        The event, or None if no alert is due.
    """
    if problems.keys() - sent.problems.keys():
        return "problems"
    if not problems:
        return "resolved" if sent.problems else None
    is_due = sent.time is not None and now - datetime.fromisoformat(sent.time) >= repeat
    return "reminder" if repeat and is_due else None


def send_test(workspace: Workspace) -> list[str]:
    """Send a test alert to every hook.

    Returns:
        A sentence for each hook that received it.

    Raises:
        InputError: The settings name no hook.
        AlertError: A hook failed; the message names each that did.
    """
    hooks = list_hooks(workspace)
    if not hooks:
        raise InputError(
            f"no alert is set up; set alerts.command or alerts.webhook in the settings, or {WEBHOOK_VARIABLE}"
        )
    time = datetime.now(UTC).isoformat(timespec="seconds")
    payload = write_payload("test", workspace.root.name, time, {}, (), None)
    tried = [_try(name, send, payload) for name, send in hooks.items()]
    if failed := [sentence for sentence, was_sent in tried if not was_sent]:
        raise AlertError("\n".join(failed))
    return [sentence for sentence, _ in tried]


def read_open(workspace: Workspace) -> Mapping[str, list[Problem]]:
    """Return the open problems already sent to each hook, the oldest first."""
    memory = read_memory(_memory_path(workspace))
    sent = {name: memory.hooks.get(name, SentAlerts()) for name in list_hooks(workspace)}
    return {name: sorted(one.problems.values(), key=lambda found: found.since) for name, one in sent.items()}


def list_hooks(workspace: Workspace) -> dict[str, Send]:
    """Return the function that sends to each hook of the workspace, by its name."""
    settings = workspace.settings.alerts
    hooks: dict[str, Send] = {}
    if settings.command:
        hooks["command"] = partial(
            run_command, settings.command, folder=workspace.root, timeout=settings.timeout_seconds
        )
    address = find_key(WEBHOOK_VARIABLE, workspace.keys) or settings.webhook
    if address is not None:
        hooks["webhook"] = partial(post, address, timeout=settings.timeout_seconds)
    return hooks


def _memory_path(workspace: Workspace) -> Path:
    return workspace.secret.with_name(_MEMORY_FILE)


def _try(name: str, send: Send, payload: Payload) -> tuple[str, bool]:
    try:
        send(payload)
    except AlertError as error:
        log_event(logger, "alert not sent", level=logging.WARNING, hook=name, cause=error, extra=PRINTED)
        return f"Alert not sent by {name}: {error}", False
    log_event(logger, "alert sent", hook=name, kind=payload["event"])
    return f"Alert sent by {name}: {payload['event']}", True


def hide_chats(workspace: Workspace, sentence: str) -> str:
    """Leave out quotes, and replace names of exports and their folders by ``[chat]``: they may be names of people.

    Names in the table ``sources`` need none of this: they are pseudonyms already.

    Args:
        workspace: An open workspace; without pseudonyms its file names stay.
        sentence: A sentence that is about to leave the machine.

    Returns:
        The sentence, also without anything that looks like a key.
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
