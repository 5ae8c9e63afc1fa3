"""Alerts of a workspace: the problems that a run found, and the hooks to which it sends them."""

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
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr

from backstory.base import VERSION
from backstory.base.environment import WEBHOOK_VARIABLE, find_key, hook_environment
from backstory.base.errors import BackstoryError, InputError, StateError, TransientError, retry
from backstory.base.ids import digest
from backstory.base.telemetry import PRINTED, describe_range, log_event
from backstory.ingest.chats.export_files import list_exports
from backstory.models.failures import hide_quotes, redact
from backstory.pipeline.run.plan import ALL_TABLES
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import Workspace
from backstory.settings.models import require_address
from backstory.storage.schema import ALERTS

logger = logging.getLogger(__name__)

Kind: TypeAlias = Literal["failure", "warning", "set_aside"]
"""A failed run or blocking check, cases of any other check, or a file that is not read; ``alerts.on`` chooses."""
Event: TypeAlias = Literal["problems", "reminder", "resolved", "test"]
Payload: TypeAlias = dict[str, Any]
Send: TypeAlias = Callable[[Payload], None]
"""Delivers an alert, or raises :class:`BackstoryError`."""

ATTEMPTS: Final = 3
_TRANSIENT: Final = (408, 425, 429)
_COST: Final = (
    *("embedding_computed", "embedding_tokens"),
    *("embedding_api_calls", "rerank_api_calls", "writing_api_calls"),
)
"""Counts of stages that an alert reports as the cost of a run."""
_MOST: Final = 50
_SHORTEST: Final = 3
"""Length of the shortest name that is redacted; a shorter one would hide parts of other words."""
_WHAT_TO_DO: Final = "Run `backstory doctor`; docs/reference/maintenance.md explains each alert."
_SHOWN: Final = {
    "failures": {"sentence", "since"},
    "findings": {"sentence", "since", "table", "check", "blocking", "count"},
    "files": {"sentence", "since", "file"},
}
"""The lists of a payload, and what each says of a problem."""


class Problem(BaseModel, frozen=True):
    """A failed run over days and tables, a check with cases, or a file. The sentence quotes no chat and no document."""

    kind: Kind
    sentence: str
    since: str
    table: str | None = None
    check: str | None = None
    blocking: bool = False
    count: int = 1
    file: str | None = None
    first: str = ""
    last: str = ""
    tables: tuple[str, ...] = ()


class SentAlerts(BaseModel):
    """What a hook was told: the problems that are open in its last alert, by identity, and the time of it."""

    problems: dict[str, Problem] = Field(default_factory=dict)
    time: datetime | None = None


def find_problems(
    run: Run, kinds: Collection[Kind], now: str, hide: Callable[[str], str] = str
) -> dict[str, Problem]:
    """List the problems of some kinds that a run found, by identity; ``hide`` leaves out of failures what is private.

    The identity of a check has no count, and that of a failure no digits.
    """
    found: dict[str, Problem] = {}
    cases = {check: len(result.cases) for check, result in run.found.items() if len(result.cases)}
    # The sentence of a check quotes examples of its cases, so the check stands for it.
    told_by_check = tuple(f"{check.table}, check {check.name}:" for check in cases if check.blocking)
    about = {**describe_range(run.partitions), "tables": sorted(run.tables & ALL_TABLES)}
    for sentence in map(hide, (one for one in run.troubles if not one.startswith(told_by_check))):
        identity = f"failure {digest([re.sub(r'[0-9]+', '', sentence)])}"
        found[identity] = Problem(kind="failure", sentence=sentence, since=now, **about)
    for check, number in cases.items():
        remedy = "" if "{" in check.remedy else f". {check.remedy}"
        found[f"check {check.table} {check.name}"] = Problem(
            kind="failure" if check.blocking else "warning",
            sentence=f"{check.table}: {number} {check.name} ({check.what}){remedy}",
            since=now,
            table=check.table,
            check=check.name,
            blocking=check.blocking,
            count=number,
        )
    found.pop("check sources unread_files", None)  # each of these files is a problem of its own
    unread = run.unfinished.sort("source") if _looks_at_files(run) else run.unfinished.clear()
    for file, status, reason in unread.select("source", "status", "reason").iter_rows():
        sentence = f"{file}: {reason or ''}"
        found[f"file {file} {status}"] = Problem(kind="set_aside", sentence=sentence, since=now, file=file)
    return {identity: problem for identity, problem in found.items() if problem.kind in kinds}


def update_open(before: Mapping[str, Problem], found: Mapping[str, Problem], run: Run) -> dict[str, Problem]:
    """Return the problems that are open after a run, the oldest first, from those before it and those that it found.

    A problem stays open until a run looks at it again: a check until it passes, a file until the files are read, a
    failed run until a run over the same partitions and tables ends well.
    """
    still = {
        identity: found.get(identity, problem).model_copy(update={"since": problem.since})
        for identity, problem in before.items()
        if identity in found or not _is_settled(problem, run)
    }
    return still | {identity: problem for identity, problem in found.items() if identity not in still}


def _is_settled(problem: Problem, run: Run) -> bool:
    if problem.file is not None:
        return _looks_at_files(run)
    if problem.check is not None:
        return any((check.table, check.name) == (problem.table, problem.check) for check in run.found)
    days = run.partitions
    is_covered = not problem.first or (bool(days) and days[0] <= problem.first <= problem.last <= days[-1])
    return run.finished and run.tables.issuperset(problem.tables) and is_covered


def _looks_at_files(run: Run) -> bool:
    """Return whether a run has read the inputs, and its table ``sources``; one that crashed has not."""
    return not run.errors and not run.tables.isdisjoint(("messages", "documents"))


def send_alerts(workspace: Workspace, run: Run, error: Exception | None = None) -> list[str]:
    """Alert every hook of what a run changed, or of its error; return a sentence per alert, sent or failed.

    A hook gets an alert when a problem appears that it was not sent yet, when the last problem is gone, and again
    after ``alerts.repeat_hours`` while problems are open. The next run retries a hook that failed.
    """
    hooks = list_hooks(workspace)
    if not hooks:
        return []
    if error is not None:  # one of others may quote an input
        is_own = isinstance(error, BackstoryError)
        run = replace(
            run, errors=[str(error) if is_own else f"{type(error).__name__}, see the log of the run"]
        )
    settings, state, told = workspace.settings.alerts, workspace.state, []
    now, repeat = datetime.now(UTC).replace(microsecond=0), timedelta(hours=settings.repeat_hours)
    found = find_problems(run, settings.on, now.isoformat(), partial(hide_chats, workspace))
    try:
        with state.lock("alerts"):
            for name, before in read_sent(workspace).items():
                sent = SentAlerts(problems=update_open(before.problems, found, run), time=before.time)
                if event := choose_event(before, sent.problems, now, repeat):
                    sent.time = now
                    payload = _write_payload(event, workspace.root.name, before, sent, run)
                    sentence, was_sent = _try(name, hooks[name], payload)
                    told.append(sentence)
                    if not was_sent:
                        continue
                with state.begin() as session:
                    row = (name, sent.model_dump_json(exclude_defaults=True))
                    state.upsert(session, ALERTS, [row])
    except StateError as away:
        log_event(logger, "alerts not sent", level=logging.WARNING, cause=away, extra=PRINTED)
        told.append(f"Alerts not sent: {away}")
    return told


def choose_event(
    sent: SentAlerts, problems: Collection[str], now: datetime, repeat: timedelta
) -> Event | None:
    """Choose the event to send to a hook; None if no alert is due. Without ``repeat``, nothing is sent again."""
    if not sent.problems.keys() >= set(problems):
        return "problems"
    if not problems:
        return "resolved" if sent.problems else None
    return "reminder" if repeat and sent.time and now - sent.time >= repeat else None


def send_test(workspace: Workspace) -> list[str]:
    """Send a test alert to every hook, and return a sentence for each; the error of failed hooks names each."""
    sent = SentAlerts(time=datetime.now(UTC).replace(microsecond=0))
    payload = _write_payload("test", workspace.root.name, sent, sent, Run((), frozenset()))
    tried = [_try(name, send, payload) for name, send in list_hooks(workspace).items()]
    if not tried:
        raise InputError(
            f"no alert is set up; set alerts.command or alerts.webhook in the settings, or {WEBHOOK_VARIABLE}"
        )
    if failed := [sentence for sentence, was_sent in tried if not was_sent]:
        raise BackstoryError("\n".join(failed), code="alert")
    return [sentence for sentence, _ in tried]


def read_sent(workspace: Workspace) -> dict[str, SentAlerts]:
    """Read what each hook of the workspace was sent last; nothing if it never was."""
    with workspace.state.reading() as session:
        sent = dict(session.execute("SELECT hook, sent FROM alerts").fetchall())
    return {name: SentAlerts.model_validate_json(sent.get(name, "{}")) for name in list_hooks(workspace)}


def list_hooks(workspace: Workspace) -> dict[str, Send]:
    """Return the function that sends to each hook of the workspace, by its name."""
    settings, seconds = workspace.settings.alerts, workspace.settings.alerts.timeout_seconds
    hooks: dict[str, Send] = {}
    if settings.command:
        hooks["command"] = partial(run_command, settings.command, folder=workspace.root, timeout=seconds)
    if address := find_key(WEBHOOK_VARIABLE, workspace.keys) or settings.webhook:
        hooks["webhook"] = partial(post, address, timeout=seconds)
    return hooks


def _try(name: str, send: Send, payload: Payload) -> tuple[str, bool]:
    try:
        send(payload)
    except BackstoryError as error:
        log_event(logger, "alert not sent", level=logging.WARNING, hook=name, cause=error, extra=PRINTED)
        return f"Alert not sent by {name}: {error}", False
    return f"Alert sent by {name}: {payload['event']}", True


def hide_chats(workspace: Workspace, sentence: str) -> str:
    """Leave out quotes and keys; unless names may be seen, replace those of exports and their folders by ``[chat]``."""
    sentence = hide_quotes(redact(sentence, None))
    if not workspace.settings.privacy.pseudonyms:
        return sentence
    with suppress(BackstoryError):  # no folder, no names
        listing = list_exports(workspace.chats_dir)
        uris = [*(file.uri for file in listing.files), *(entry.uri for entry in listing.skipped)]
        paths = [PurePosixPath(uri) for uri in uris]
        names = {name for path in paths for name in (str(path), *path.parts, path.stem)}
        for name in sorted(names, key=len, reverse=True):
            if len(name) >= _SHORTEST:
                sentence = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "[chat]", sentence)
    return sentence


def _write_payload(event: Event, workspace: str, before: SentAlerts, sent: SentAlerts, run: Run) -> Payload:
    """Build the object that ``docs/reference/alerts.md`` describes; lists are cut after 50 entries."""
    lists: dict[str, list[Problem]] = {name: [] for name in _SHOWN}
    for problem in sent.problems.values():
        lists["files" if problem.file else "findings" if problem.check else "failures"].append(problem)
    resolved = [problem.sentence for key, problem in before.problems.items() if key not in sent.problems]
    text = f"Backstory, {workspace}: {event}"
    if sent.problems:
        counted = ", ".join(f"{name}: {len(part)}" for name, part in lists.items() if part)
        text += f" ({counted}). {next(one for part in lists.values() for one in part).sentence}"
    is_warned = len(run.unfinished) > 0 or any(len(result.cases) for result in run.found.values())
    return {
        "format": 1,
        "event": event,
        "text": text,
        "workspace": workspace,
        "time": sent.time and sent.time.isoformat(),
        "run_id": run.id or None,
        "status": "failed" if run.troubles else "warned" if is_warned else "ended_well",
        "partitions": {**describe_range(run.partitions), "count": len(run.partitions)},
        "seconds": round(run.seconds, 1) or None,
        "cost": {name: run.total(name) for name in _COST},
        **{name: [one.model_dump(include=_SHOWN[name]) for one in lists[name][:_MOST]] for name in _SHOWN},
        "left_out": sum(max(0, len(part) - _MOST) for part in lists.values()),
        "resolved": resolved[:_MOST],
        "what_to_do": _WHAT_TO_DO if sent.problems else "Nothing.",
    }


def run_command(command: Sequence[str], payload: Payload, folder: Path, timeout: float) -> None:
    """Run a command with the alert on standard input, and kill all that it started after ``timeout`` seconds."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=hook_environment(),
            start_new_session=True,
        )
    except OSError as error:
        what = f"{command[0]} cannot be started ({error.strerror}); correct alerts.command"
        raise BackstoryError(what, code="unstartable_command") from error
    with process:
        try:
            process.communicate(json.dumps(payload).encode(), timeout=timeout)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            what = f"{command[0]} took over {timeout:g} s and was killed; raise alerts.timeout_seconds"
            raise BackstoryError(what, code="too_slow") from error
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
    headers = {"Content-Type": "application/json", "User-Agent": f"backstory/{VERSION}"}
    # The setting admits http and https only.
    request = urllib.request.Request(secret, json.dumps(payload).encode(), headers)  # noqa: S310

    def send() -> None:
        # Nothing that urllib raises is chained: it may hold the address.
        try:
            _opener.open(request, timeout=timeout).close()
        except urllib.error.HTTPError as error:
            error.close()
            is_transient = error.code in _TRANSIENT or error.code >= 500
            what = f"{host} refused the alert (HTTP {error.code}); correct alerts.webhook if that stays so"
            raise (TransientError if is_transient else BackstoryError)(what, code="refused") from None
        except (OSError, http.client.HTTPException) as error:
            cause = type(getattr(error, "reason", error)).__name__
            raise TransientError(f"{host} cannot be reached ({cause})", code="unreachable") from None

    retry(send, ATTEMPTS, wait=wait)
