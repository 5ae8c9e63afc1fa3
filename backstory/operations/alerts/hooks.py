"""Send an alert: to a command on its standard input, or to a webhook by POST."""

from __future__ import annotations

import http.client
import json
import logging
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urljoin, urlsplit

from pydantic import SecretStr

from backstory.base import VERSION
from backstory.base.environment import hook_environment
from backstory.base.errors import AlertError
from backstory.base.telemetry import log_event
from backstory.operations.alerts.payload import Payload
from backstory.settings.models import require_address

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 3
_FIRST_WAIT_SECONDS: Final = 1.0
_TRANSIENT: Final = (408, 425, 429)
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_MOST_REDIRECTS: Final = 3


def run_command(command: Sequence[str], payload: Payload, folder: Path, timeout: float) -> None:
    """Run a command with the alert as JSON on standard input. No shell is involved, and its output is discarded.

    Args:
        command: The program and its arguments.
        payload: The alert.
        folder: Folder in which it runs; a program with a relative path is found from there.
        timeout: Seconds until it is killed with all processes that it started.

    Raises:
        AlertError: It cannot be started, exits with a code other than 0, or takes too long.
    """
    program = command[0] if "/" not in command[0] else str(folder / command[0])
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command
            [program, *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=hook_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise AlertError(
            f"{command[0]} cannot be started ({error.strerror}); correct alerts.command",
            code="unstartable_command",
        ) from error
    with process:
        try:
            process.communicate(json.dumps(payload).encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AlertError(
                f"{command[0]} took over {timeout:g} s and was killed; make it faster, or raise alerts.timeout_seconds",
                code="too_slow",
            ) from None
    if process.returncode:
        raise AlertError(
            f"{command[0]} ended with exit code {process.returncode}; run it by hand to see why",
            code="failed_command",
        )


def post(
    address: SecretStr, payload: Payload, timeout: float, wait: Callable[[float], None] = time.sleep
) -> None:
    """Send the alert as JSON by POST, and retry after a transient failure.

    Only redirects to the same host are followed, since the address may be a secret. Errors name the host alone.

    Args:
        address: The URL, http or https.
        payload: The alert.
        timeout: Seconds until an attempt fails.
        wait: Blocks for a number of seconds between attempts.

    Raises:
        AlertError: Every attempt failed, or the service refused the alert.
    """
    try:
        require_address(address)
    except ValueError as error:
        raise AlertError(f"alerts.webhook cannot be used: {error}", code="invalid_address") from None
    body = json.dumps(payload).encode()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _post_once(address.get_secret_value(), body, timeout)
        except _TransientError as error:
            if attempt == ATTEMPTS:
                raise AlertError(
                    f"{error}, after {ATTEMPTS} attempts; the next run tries again", code=error.code
                ) from None
            pause = _FIRST_WAIT_SECONDS * 2 ** (attempt - 1)
            log_event(logger, "webhook failed", attempt=attempt, retry_in=pause, cause=error)
            wait(pause)
        else:
            return


class _TransientError(AlertError):
    """An attempt failed, and another may succeed."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to :func:`_post_once`: urllib would send them as GET, and to any host."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow none."""


_opener = urllib.request.build_opener(_NoRedirects)


def _post_once(url: str, body: bytes, timeout: float) -> None:
    host = urlsplit(url).hostname
    for _ in range(_MOST_REDIRECTS):
        request = urllib.request.Request(  # noqa: S310 - the setting admits http and https only
            url,
            data=body,
            headers={"Content-Type": "application/json", "User-Agent": f"backstory/{VERSION}"},
        )
        # Nothing that urllib raises is chained: it may hold the address.
        try:
            with _opener.open(request, timeout=timeout):
                return
        except urllib.error.HTTPError as error:
            with error:
                status, location = error.code, error.headers.get("Location", "")
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            cause = getattr(error, "reason", error)
            raise _TransientError(
                f"{host} cannot be reached ({type(cause).__name__})", code="unreachable"
            ) from None
        if status not in _REDIRECTS:
            _refuse(host, status)
        url = _follow(url, location)
    raise AlertError(
        f"{host} redirects more than {_MOST_REDIRECTS} times; correct alerts.webhook", code="redirected"
    )


def _refuse(host: str | None, status: int) -> NoReturn:
    if status in _TRANSIENT or status >= 500:
        raise _TransientError(f"{host} answered HTTP {status}", code="refused")
    raise AlertError(f"{host} refused the alert (HTTP {status}); correct alerts.webhook", code="refused")


def _follow(url: str, location: str) -> str:
    target = urljoin(url, location)
    before, after = urlsplit(url), urlsplit(target)
    if (before.scheme, before.netloc) != (after.scheme, after.netloc):
        raise AlertError(
            f"{before.hostname} redirects to another host, {after.scheme}://{after.hostname}; if you trust that host, "
            "name it in alerts.webhook",
            code="redirected",
        )
    return target
