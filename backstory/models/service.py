"""The one client of the services of models: OpenAI's API, as many servers speak it, and Gemini by its own SDK.

A request waits for the limits per minute, reserves what it may cost, has a time-out, and is sent again where that may
help. No redirect is followed, and no message or error holds the key.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from backstory.base.addresses import OPENAI_ADDRESS
from backstory.base.environment import Keys, read_api_key, read_service_key
from backstory.base.errors import ModelError, TransientError, retry
from backstory.base.extras import require_extra
from backstory.base.telemetry import log_event, observe
from backstory.models.failures import Failure, explain_failure, redact
from backstory.models.usage import CallMeter, RateLimiter, Usage
from backstory.settings.groups import ServiceSettings

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import HttpOptions

logger = logging.getLogger(__name__)

_SETTLING_SECONDS: Final = 60.0
"""Time between the end of a call and its settlement, at most; a reservation lasts that much longer than a call."""

Response = TypeVar("Response")
Result = TypeVar("Result")


class Service:
    """Sends requests to one model of a service, from any number of threads, within limits that they share.

    Its name is that of the service, as the subject of a sentence. The units per minute are texts or requests, whichever
    the quota counts, and the calls are the requests that were sent so far, retries included.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        meter: CallMeter = CallMeter(),  # noqa: B008 - immutable
        keys: Keys | None = None,
        key: SecretStr | None = None,
        client: genai.Client | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare calls. The first call reads the key from ``keys``, unless there is a key, and makes the client.

        The keys are those of the workspace, or with None those of the environment. A ``MissingExtraError`` means that
        the packages of the service are absent.
        """
        self.is_gemini = settings.provider == "gemini"
        require_extra(
            "gemini" if self.is_gemini else "openai",
            f"The provider {settings.provider}",
            "choose another provider in backstory.yaml",
        )
        model = settings.paid_model or ""
        self.settings = settings
        self.model = model.removeprefix("models/") if self.is_gemini else model
        self.address = settings.base_url or OPENAI_ADDRESS
        self.name = "Gemini" if self.is_gemini else urlsplit(self.address).netloc
        self._meter = meter
        self.units_per_minute, self.tokens_per_minute = settings.per_minute
        self.api_calls = 0
        self._keys = keys
        self._key = key
        self._wait = wait
        self._limiter = RateLimiter(self.units_per_minute, self.tokens_per_minute, clock=clock, wait=wait)
        self._client: Any = client
        self._connection_lock = threading.Lock()

    def post(
        self, path: str, body: Mapping[str, Any], read: Callable[[dict[str, Any]], Result], *, most: Usage
    ) -> Result:
        """Send a request to a path below the address of a service with OpenAI's API, such as ``/embeddings``.

        ``read`` turns the answer, a JSON object, into the result, or raises :class:`TransientError`; ``most`` is what
        the call uses at most. A ``BudgetExhaustedError`` means that a budget or quota is used up, a ``ModelSetupError``
        that there is no key or it was refused, a ``ModelError`` that every attempt failed, or that the request was
        refused.
        """
        return self._call(partial(self._post, path, body), read, partial(read_usage, most=most), most)

    def ask_gemini(
        self,
        send: Callable[[genai.Client, HttpOptions], Response],
        read: Callable[[Response], Result],
        *,
        most: Usage,
    ) -> Result:
        """Send a request by a client of Gemini's SDK with options for the call; see :meth:`post`.

        The SDK's own time-out and retries are not used.
        """
        find_usage = partial(read_gemini_usage, most=most)
        return self._call(partial(self._send_by_sdk, send), read, find_usage, most)

    def _call(
        self,
        send: Callable[[Any], Response | Failure],
        read: Callable[[Response], Result],
        find_usage: Callable[[Response], Usage],
        most: Usage,
    ) -> Result:
        """Send a request by a client, read the answer, and retry after transient failures."""

        def attempt() -> Result:
            client = self._connect()
            self._limiter.acquire(most.texts, most.tokens_in)
            settle = self._meter.reserve(most, seconds=self.settings.seconds + _SETTLING_SECONDS)
            used = most  # an attempt without an answer may have been billed; one that was refused was not
            try:
                with self._connection_lock:
                    self.api_calls += 1
                with observe(f"{self.settings.provider} request", units=most.texts, tokens=most.tokens_in):
                    response = send(client)
                used = Usage(calls=1) if isinstance(response, Failure) else find_usage(response)
            finally:
                settle(used)
            if isinstance(response, Failure):
                raise explain_failure(response, self.name, self.settings, self._key_text())
            return read(response)

        attempts = self.settings.max_attempts
        try:
            return retry(attempt, attempts, wait=self._wait, report=self._prepare_retry)
        except TransientError as error:
            raise ModelError(
                f"{self.name} gave no usable answer in {attempts} attempts; the last error: {error}. "
                "Finished work is kept, so run the same command again",
                code="no_answer",
            ) from error

    def _post(self, path: str, body: Mapping[str, Any], client: Any) -> dict[str, Any] | Failure:
        import httpx2

        key = self._key_text()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            response = client.post(f"{self.address}{path}", json=body, headers=headers)
        except httpx2.RequestError as error:
            raise self._describe_loss(error) from None
        try:
            answer = json.loads(response.content)
        except ValueError:
            answer = None
        if response.status_code != 200:
            return Failure(response.status_code, response.headers, answer)
        if not isinstance(answer, dict):
            raise TransientError("the answer is not the JSON of the API")
        return answer

    def _send_by_sdk(
        self, send: Callable[[genai.Client, HttpOptions], Response], client: genai.Client
    ) -> Response | Failure:
        import httpx2
        from google.genai.errors import APIError
        from google.genai.types import HttpOptions, HttpRetryOptions

        timeout = round(self.settings.seconds * 1000)
        try:
            return send(client, HttpOptions(timeout=timeout, retry_options=HttpRetryOptions(attempts=1)))
        except APIError as error:
            return Failure(error.code, getattr(error.response, "headers", None) or {}, error.details)
        except httpx2.RequestError as error:
            raise self._describe_loss(error) from None
        except (ValueError, RecursionError) as error:  # the SDK parses JSON that a model wrote, however deep
            raise TransientError(f"the answer is not the JSON of the API ({type(error).__name__})") from None

    def _describe_loss(self, error: Exception) -> TransientError:
        """Describe a lost connection; the client's error is never chained, since it may hold the request's headers."""
        name = type(error).__name__
        message = redact(str(error), self._key_text()) or "connection lost"
        return TransientError(f"{name}: {message}")

    def _connect(self) -> Any:
        """Return the client, which is made once: that of Gemini, or one of HTTP."""
        with self._connection_lock:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def _make_client(self) -> Any:
        import httpx2

        # Clients keep the header with the key when they follow a redirect to another host.
        http = httpx2.Client(timeout=self.settings.seconds, follow_redirects=False)
        if not self.is_gemini:
            self._key = self._key or read_service_key(self.settings.key_variable, self.address, self._keys)
            return http
        from google import genai
        from google.genai.types import HttpOptions

        self._key = self._key or read_api_key(self._keys)
        options = HttpOptions(base_url=self.settings.base_url, httpx_client=http)
        return genai.Client(api_key=self._key.get_secret_value(), vertexai=False, http_options=options)

    def _key_text(self) -> str | None:
        return self._key.get_secret_value() if self._key else None

    def _prepare_retry(self, error: TransientError, attempt: int, delay: float) -> None:
        provider = self.settings.provider
        figures = {"service": provider, "attempt": attempt, "retry_in": delay, "cause": error}
        log_event(logger, "call failed", figures, level=logging.WARNING)
        if error.delay is not None:
            self._limiter.pause(delay)  # the other threads would be refused as well


def read_usage(answer: Mapping[str, Any], most: Usage) -> Usage:
    """Read what a call used of a service with OpenAI's API; without the service's own figures, the estimate."""
    reported = answer.get("usage")
    if not isinstance(reported, Mapping):
        return most
    sent = reported.get("prompt_tokens")
    written = reported.get("completion_tokens", 0 if most.tokens_out == 0 else None)
    # Services that count no tokens say that there were none.
    if not isinstance(sent, int) or not isinstance(written, int) or sent < 1:
        return most
    return Usage(1, most.texts, sent, max(written, 0))


def read_gemini_usage(response: Any, most: Usage) -> Usage:
    """Read what a call of Gemini used; without its own figures, as for vectors, the most that it may have used."""
    reported = getattr(response, "usage_metadata", None)
    if reported is None or reported.prompt_token_count is None:
        return most
    written = (reported.candidates_token_count or 0) + (reported.thoughts_token_count or 0)
    return Usage(1, most.texts, reported.prompt_token_count, written)
