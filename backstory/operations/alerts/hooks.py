"""Send an alert: to a command on its standard input, or to a webhook by POST."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import SecretStr

from backstory.base import VERSION
from backstory.base.environment import hook_environment
from backstory.base.errors import BackstoryError, TransientError, retry
from backstory.settings.models import require_address

Payload: TypeAlias = Mapping[str, Any]

ATTEMPTS: Final = 3
_TRANSIENT: Final = (408, 425, 429)


def run_command(command: Sequence[str], payload: Payload, folder: Path, timeout: float) -> None:
    """Run a command with the alert as JSON on standard input. No shell is involved, and its output is discarded.

    It runs in the folder, from which a program with a relative path is found. After the timeout, in seconds, it is
    killed with all processes that it started.

    Raises:
        BackstoryError: It cannot be started, exits with a code other than 0, or takes too long.
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
        raise BackstoryError(
            f"{command[0]} cannot be started ({error.strerror}); correct alerts.command",
            code="unstartable_command",
        ) from error
    with process:
        try:
            process.communicate(json.dumps(payload).encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise BackstoryError(
                f"{command[0]} took over {timeout:g} s and was killed; make it faster, or raise alerts.timeout_seconds",
                code="too_slow",
            ) from None
    if process.returncode:
        raise BackstoryError(
            f"{command[0]} ended with exit code {process.returncode}; run it by hand to see why",
            code="failed_command",
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the address may be a secret, and urllib would send a GET to any host."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow none."""


_opener = urllib.request.build_opener(_NoRedirects)


def post(
    address: SecretStr, payload: Payload, timeout: float, wait: Callable[[float], None] = time.sleep
) -> None:
    """Send the alert as JSON by POST, and retry after a transient failure. Errors name the host alone.

    Raises:
        BackstoryError: Every attempt failed, or the service refused the alert.
    """
    try:
        require_address(address)
    except ValueError as error:
        raise BackstoryError(f"alerts.webhook cannot be used: {error}", code="invalid_address") from None
    host = urlsplit(address.get_secret_value()).hostname

    def send() -> None:
        # Nothing that urllib raises is chained: it may hold the address.
        request = urllib.request.Request(  # noqa: S310 - the setting admits http and https only
            address.get_secret_value(),
            data=json.dumps(payload).encode(),
            headers={"Content-Type": "application/json", "User-Agent": f"backstory/{VERSION}"},
        )
        try:
            with _opener.open(request, timeout=timeout):
                return
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
            if status in _TRANSIENT or status >= 500:
                raise TransientError(f"{host} answers HTTP {status}", code="refused") from None
            raise BackstoryError(
                f"{host} refused the alert (HTTP {status}); correct alerts.webhook", code="refused"
            ) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            cause = type(getattr(error, "reason", error)).__name__
            raise TransientError(f"{host} cannot be reached ({cause})", code="unreachable") from None

    retry(send, ATTEMPTS, wait=wait)
