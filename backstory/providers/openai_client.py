"""Calls of an OpenAI-compatible service (chat completions), with a time-out, retries and a rate limit."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from backstory.errors import AuthenticationError, ModelError, QuotaExhaustedError, WriterError
from backstory.extras import require_extra
from backstory.providers.failures import (
    LONGEST_DELAY_SECONDS,
    TransientError,
    parse_retry_after,
    redact,
)
from backstory.providers.metering import CallMeter, Unmetered, Usage
from backstory.providers.rate_limit import RateLimiter, default_limits_file
from backstory.settings.addresses import OPENAI_ADDRESS
from backstory.settings.environment import OPENAI_KEY_VARIABLE, WRITER_KEY_VARIABLE, read_writer_key
from backstory.settings.writers import WriterSettings
from backstory.telemetry import observe

require_extra("openai", "The provider openai", "choose another provider in backstory.yaml")
import httpx2  # noqa: E402 - if it is not installed, the line above names the extra to install
import tenacity  # noqa: E402

from backstory.providers.retrying import choose_delay, failure_of  # noqa: E402

if TYPE_CHECKING:
    from pydantic import SecretStr

logger = logging.getLogger(__name__)

_MESSAGE_CHARACTERS: Final = 300
_QUOTA_DELAY_SECONDS: Final = 60.0
_SETTLING_SECONDS: Final = 60.0
_TRANSIENT_CODES: Final = (408, 409, 425, 429)
_EXHAUSTED: Final = ("insufficient_quota", "billing_hard_limit_reached")


def _wait_in_real_time(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True)
class ChatAccess:
    """What calls need besides the settings.

    Attributes:
        api_key: The key; None reads it from the environment.
        limits_file: File of the rate limits that processes share; None for the one in the user's cache folder.
        meter: Counts what calls use, within budgets.
        clock: Gives monotonic seconds, the same in all processes.
        wait: Blocks the calling thread for a number of seconds.
    """

    api_key: SecretStr | None = None
    limits_file: Path | None = None
    meter: CallMeter = field(default_factory=Unmetered)
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = _wait_in_real_time


class ChatConnection:
    """Sends requests from any number of threads, within rate limits that they share.

    Attributes:
        api_calls: Requests sent so far, retries included.
    """

    def __init__(self, settings: WriterSettings, access: ChatAccess) -> None:
        """Prepare calls. The first call reads the key.

        Args:
            settings: Address, time-out, attempts and limits.
            access: Key, shared limits, and time.
        """
        self.api_calls = 0
        self._settings = settings
        self._address = settings.base_url or OPENAI_ADDRESS
        self._access = access
        self._lock = threading.Lock()
        self._connected: tuple[httpx2.Client, RateLimiter, SecretStr | None] | None = None

    def complete(self, body: Mapping[str, Any], *, tokens: int, most: Usage) -> dict[str, Any]:
        """Ask for a completion, and retry after transient failures.

        Args:
            body: The request.
            tokens: Tokens that count against the rate limit.
            most: What the call uses at most, for the meter.

        Returns:
            The answer of the service, which holds ``choices``.

        Raises:
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A quota or the credit is used up.
            BudgetExhaustedError: The next attempt would exceed a budget.
            WriterError: Every attempt failed, or the request was refused.
        """
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            stop=tenacity.stop_after_attempt(self._settings.max_attempts),
            wait=choose_delay,
            sleep=self._access.wait,
            before_sleep=self._prepare_retry,
            reraise=True,
        )
        try:
            answer: dict[str, Any] = retrying(self._attempt, body, tokens, most)
        except TransientError as error:
            raise WriterError(
                f"{self._host} gave no usable answer in {self._settings.max_attempts} attempts; the last error: "
                f"{error}. Finished work is kept, so run the same command again"
            ) from error
        return answer

    @property
    def _host(self) -> str:
        return urlsplit(self._address).netloc

    def _attempt(self, body: Mapping[str, Any], tokens: int, most: Usage) -> dict[str, Any]:
        client, limiter, key = self._connect()
        limiter.acquire(1, tokens)
        settle = self._access.meter.reserve(most, seconds=self._settings.timeout_seconds + _SETTLING_SECONDS)
        used = most
        try:
            with self._lock:
                self.api_calls += 1
            response = self._send(client, body, key)
            if response.status_code != 200:
                used = Usage(calls=1)  # a service bills no refused call
                raise self._interpret(response, key)
            answer = _read_completion(response)
            used = read_usage(answer, most)
        finally:
            settle(used)
        return answer

    def _send(self, client: httpx2.Client, body: Mapping[str, Any], key: SecretStr | None) -> httpx2.Response:
        # Nothing raised by the client is chained: it may carry the request's headers, and with them the key.
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        try:
            with observe("chat request", units=1):
                return client.post(f"{self._address}/chat/completions", json=body, headers=headers)
        except httpx2.RequestError as error:
            message = redact(str(error), key.get_secret_value() if key else None)
            raise TransientError(f"{type(error).__name__}: {message or 'connection lost'}") from None

    def _connect(self) -> tuple[httpx2.Client, RateLimiter, SecretStr | None]:
        with self._lock:
            if self._connected is None:
                key = self._access.api_key or read_writer_key(self._address)
                client = httpx2.Client(timeout=self._settings.timeout_seconds, follow_redirects=False)
                limiter = RateLimiter(
                    self._access.limits_file or default_limits_file(),
                    [self._address, self._settings.model or "", key.get_secret_value() if key else ""],
                    units_per_minute=self._settings.requests_per_minute,
                    tokens_per_minute=self._settings.tokens_per_minute,
                    clock=self._access.clock,
                    wait=self._access.wait,
                )
                self._connected = client, limiter, key
            return self._connected

    def _prepare_retry(self, state: tenacity.RetryCallState) -> None:
        error, delay = failure_of(state), state.upcoming_sleep
        logger.warning(
            "chat call failed attempt=%d retry_in=%.1f cause=%s", state.attempt_number, delay, error
        )
        if error.delay is not None:
            self._connect()[1].pause(delay)  # the other threads and processes would be refused as well

    def _interpret(self, response: httpx2.Response, key: SecretStr | None) -> ModelError:
        """Convert an answer that is an error into an error of this library."""
        code = response.status_code
        if 300 <= code < 400:
            return WriterError(
                f"{self._host} redirects (HTTP {code}). Backstory does not follow it: it would send chats and key "
                "there. If you trust the other address, set it as writers.base_url"
            )
        kind, said = _read_error(response)
        message = redact(said, key.get_secret_value() if key else None)[:_MESSAGE_CHARACTERS]
        message = f"HTTP {code}: {message or 'no message'}"
        if code in (401, 403):
            return AuthenticationError(
                f"{self._host} refused the key ({message}); check {WRITER_KEY_VARIABLE} or {OPENAI_KEY_VARIABLE}"
            )
        delay = parse_retry_after(response.headers.get("Retry-After", ""))
        if code == 402 or kind in _EXHAUSTED or (code == 429 and (delay or 0) > LONGEST_DELAY_SECONDS):
            return QuotaExhaustedError(
                f"the quota or credit at {self._host} is used up ({message}); finished work is kept, so run the same "
                "command again when it has been renewed"
            )
        if code == 429:
            return TransientError(message, _QUOTA_DELAY_SECONDS if delay is None else delay)
        if code in _TRANSIENT_CODES or code >= 500:
            return TransientError(message, None if delay is None else min(delay, LONGEST_DELAY_SECONDS))
        return WriterError(f"{self._host} refused the request ({message}); a retry would not help")


def read_usage(answer: Mapping[str, Any], most: Usage) -> Usage:
    """Read what a call used; without the service's own figures, the estimate."""
    told = answer.get("usage")
    if not isinstance(told, Mapping):
        return most
    sent, written = told.get("prompt_tokens"), told.get("completion_tokens")
    if not isinstance(sent, int) or not isinstance(written, int):
        return most
    return Usage(1, 1, max(sent, 0), max(written, 0))


def _read_completion(response: httpx2.Response) -> dict[str, Any]:
    """Read the body of an answer.

    Raises:
        TransientError: It is not the JSON of the API.
    """
    try:
        answer = json.loads(response.content)
    except ValueError:
        raise TransientError("the answer is not the JSON of the API") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
        raise TransientError("the answer holds no choices")
    return answer


def _read_error(response: httpx2.Response) -> tuple[str, str]:
    """Read the kind and the message of an error, which services put in different places."""
    try:
        body = json.loads(response.content)
    except ValueError:
        return "", ""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", " ".join(str(error).split())
    kind = error.get("code") or error.get("type") or ""
    return str(kind), " ".join(str(error.get("message") or "").split())
