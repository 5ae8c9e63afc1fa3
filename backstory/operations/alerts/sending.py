"""Sends alerts to the hooks of a workspace: a command or a webhook. A failing hook never fails the run."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr

from backstory.base import VERSION
from backstory.base.environment import WEBHOOK_VARIABLE, find_key, hook_environment
from backstory.base.errors import (
    BackstoryError,
    InputError,
    StateError,
    TransientError,
    WorkspaceError,
    retry,
)
from backstory.base.telemetry import PRINTED, describe_range, log_event
from backstory.base.wording import count
from backstory.ingest.chats.export_files import list_files
from backstory.models.failures import hide_quotes, redact
from backstory.operations.alerts.problems import Problem, Problems, find_problems, update_open
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import Workspace
from backstory.settings.models import require_address
from backstory.storage.schema import ALERTS
from backstory.storage.state import State

logger = logging.getLogger(__name__)

Event: TypeAlias = Literal["problems", "reminder", "resolved", "test"]
Payload: TypeAlias = Mapping[str, Any]
Send: TypeAlias = Callable[[Payload], None]
"""Delivers an alert, or raises :class:`BackstoryError`."""

ATTEMPTS: Final = 3
_TRANSIENT: Final = (408, 425, 429)
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
_LISTS: Final = {
    "failures": ("failure", "failures", ()),
    "findings": ("check with cases", "checks with cases", ("table", "check", "blocking", "count")),
    "files": ("file not read", "files not read", ("file",)),
}
"""The lists of a payload: what one and several entries are called, and what each entry says beside its sentence."""


class SentAlerts(BaseModel):
    """What a hook was told: the problems that are open in its last alert, by identity, and the time of it."""

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


def send_alerts(workspace: Workspace, run: Run, error: Exception | None = None) -> list[str]:
    """Alert every hook of what a run changed, or of its error; return a sentence per alert, sent or failed.

    A hook gets an alert when a problem appears that it was not sent yet, when the last problem is gone, and again
    after ``alerts.repeat_hours`` while problems are open. The next run retries a hook that failed.
    """
    hooks = list_hooks(workspace)
    if not hooks:
        return []
    if (
        error is not None
    ):  # one that the library did not raise on purpose may quote an input, so its class is told
        is_ours = isinstance(error, BackstoryError)
        run = replace(
            run, errors=[str(error) if is_ours else f"{type(error).__name__}, see the log of the run"]
        )
    settings, now = workspace.settings.alerts, datetime.now(UTC)
    moment, state, told = now.isoformat(timespec="seconds"), workspace.state, []
    found = find_problems(run, settings.on, moment, partial(hide_chats, workspace))
    try:
        with state.lock("alerts"):
            for name, send in hooks.items():
                sent = read_sent(state, name)
                problems = update_open(sent.problems, found, run)
                event = choose_event(sent, problems, now, timedelta(hours=settings.repeat_hours))
                if event is not None:
                    gone = [each.sentence for key, each in sent.problems.items() if key not in problems]
                    payload = _write_payload(event, workspace.root.name, moment, problems, gone, run)
                    sentence, was_sent = _try(name, send, payload)
                    told.append(sentence)
                    if not was_sent:
                        continue
                last = moment if event else sent.time
                record_sent(state, name, SentAlerts(problems=problems, time=last))
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
    """Send a test alert to every hook, and return a sentence for each; the error of failed hooks names each."""
    hooks = list_hooks(workspace)
    if not hooks:
        raise InputError(
            f"no alert is set up; set alerts.command or alerts.webhook in the settings, or {WEBHOOK_VARIABLE}"
        )
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    payload = _write_payload("test", workspace.root.name, moment, {}, (), Run((), frozenset()))
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
    event: Event, workspace: str, moment: str, problems: Problems, gone: Sequence[str], run: Run
) -> Payload:
    """Build the object that ``docs/reference/alerts.md`` describes; lists are cut after 50 entries."""
    lists: dict[str, list[Problem]] = {name: [] for name in _LISTS}
    for problem in sorted(problems.values(), key=lambda one: one.since):
        lists["files" if problem.file else "findings" if problem.check else "failures"].append(problem)
    told = {"test": "this is a test", "resolved": "all problems are resolved"}.get(event)
    if told is None:
        again = "still " if event == "reminder" else ""
        counted = ", ".join(count(len(part), *_LISTS[name][:2]) for name, part in lists.items() if part)
        told = f"{again}{counted}. {next(one for part in lists.values() for one in part).sentence}"
    shown = {
        name: [
            {field: getattr(one, field) for field in (*_LISTS[name][2], "sentence", "since")}
            for one in part[:_MOST]
        ]
        for name, part in lists.items()
    }
    is_warned = len(run.unfinished) > 0 or any(len(result.cases) for result in run.found.values())
    return {
        "format": _FORMAT,
        "event": event,
        "text": f"Backstory, {workspace}: {told}",
        "workspace": workspace,
        "time": moment,
        "run_id": run.id or None,
        "status": "failed" if run.troubles else "warned" if is_warned else "ended_well",
        "partitions": {**describe_range(run.partitions), "count": len(run.partitions)},
        "seconds": round(run.seconds, 1) or None,
        "cost": {name: run.total(name) for name in _COST},
        **shown,
        "left_out": sum(max(0, len(part) - _MOST) for part in lists.values()),
        "resolved": list(gone)[:_MOST],
        "what_to_do": _WHAT_TO_DO[event],
    }


def run_command(command: Sequence[str], payload: Payload, folder: Path, timeout: float) -> None:
    """Run a command in the folder, without a shell, with the alert as JSON on standard input.

    After the timeout, in seconds, it is killed with all processes that it started.
    """
    program = command[0] if "/" not in command[0] else str(folder / command[0])
    none = subprocess.DEVNULL
    try:
        with (
            subprocess.Popen(  # noqa: S603 - the operator's own command
                [program, *command[1:]],
                stdin=subprocess.PIPE,
                stdout=none,
                stderr=none,
                cwd=folder,
                env=hook_environment(),
                start_new_session=True,
            ) as process
        ):
            try:
                process.communicate(json.dumps(payload).encode(), timeout=timeout)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                what = f"{command[0]} took over {timeout:g} s and was killed; raise alerts.timeout_seconds"
                raise BackstoryError(what, code="too_slow") from error
    except OSError as error:
        what = f"{command[0]} cannot be started ({error.strerror}); correct alerts.command"
        raise BackstoryError(what, code="unstartable_command") from error
    if process.returncode:
        what = f"{command[0]} ended with exit code {process.returncode}; run it by hand to see why"
        raise BackstoryError(what, code="failed_command")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the address may be a secret, and urllib would send a GET to any host."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow none."""


_opener = urllib.request.build_opener(_NoRedirects)


def post(
    address: SecretStr, payload: Payload, timeout: float, wait: Callable[[float], None] = time.sleep
) -> None:
    """Send the alert as JSON by POST, and retry after a transient failure. Errors name the host alone."""
    try:
        secret = require_address(address).get_secret_value()
    except ValueError as error:
        raise BackstoryError(f"alerts.webhook cannot be used: {error}", code="invalid_address") from None
    host = urlsplit(secret).hostname
    request = urllib.request.Request(  # noqa: S310 - the setting admits http and https only
        secret,
        data=json.dumps(payload).encode(),
        headers={"Content-Type": "application/json", "User-Agent": f"backstory/{VERSION}"},
    )

    def send() -> None:
        # Nothing that urllib raises is chained: it may hold the address.
        try:
            with _opener.open(request, timeout=timeout):
                return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _TRANSIENT or error.code >= 500:
                raise TransientError(f"{host} answers HTTP {error.code}", code="refused") from None
            raise BackstoryError(
                f"{host} refused the alert (HTTP {error.code}); correct alerts.webhook", code="refused"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            cause = type(getattr(error, "reason", error)).__name__
            raise TransientError(f"{host} cannot be reached ({cause})", code="unreachable") from None

    retry(send, ATTEMPTS, wait=wait)
