"""Calls of the Gemini API through the google-genai SDK, with a time-out, retries and a rate limit.

By default the SDK has no time-out, ignores the delay that a server asks for, and does not retry dropped
connections.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from backstory.errors import ModelError
from backstory.extras import require_extra
from backstory.providers.failures import TransientError, interpret_api_error, redact
from backstory.providers.metering import CallMeter, Settle, Unmetered, Usage
from backstory.providers.rate_limit import RateLimiter, default_limits_file
from backstory.settings.environment import read_api_key
from backstory.telemetry import observe

require_extra("gemini", "The provider gemini", "choose another provider in backstory.yaml")
import tenacity  # noqa: E402 - if it is not installed, the line above names the extra to install

from backstory.providers.retrying import choose_delay, failure_of  # noqa: E402

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import HttpOptions
    from pydantic import SecretStr

logger = logging.getLogger(__name__)

_HTTP_CLIENTS = ("httpx2", "httpx")
_SETTLING_SECONDS = 60.0
"""Time between the end of a call and its settlement, at most; a reservation lasts that much longer than a call."""

Response = TypeVar("Response")
Result = TypeVar("Result")


class CallSettings(Protocol):
    """The settings that every stage needs to call Gemini."""

    @property
    def base_url(self) -> str | None:
        """Address of the API; None for the public one."""
        ...

    @property
    def timeout_seconds(self) -> float:
        """Time-out of one call."""
        ...

    @property
    def max_attempts(self) -> int:
        """Most attempts of one call, the first included."""
        ...

    @property
    def tokens_per_minute(self) -> int:
        """Most tokens sent per minute."""
        ...


def _wait_in_real_time(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True)
class GeminiAccess:
    """What calls need besides the settings of their stage.

    Attributes:
        api_key: The key; None reads it from the environment.
        client: A client to use instead of one made from the key; all such clients share one limit per model.
        limits_file: File of the rate limits that processes share; None for the one in the user's cache folder.
        meter: Counts what calls use, within budgets.
        clock: Gives monotonic seconds, the same in all processes.
        wait: Blocks the calling thread for a number of seconds.
    """

    api_key: SecretStr | None = None
    client: genai.Client | None = None
    limits_file: Path | None = None
    meter: CallMeter = field(default_factory=Unmetered)
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = _wait_in_real_time


class GeminiConnection:
    """Sends requests from any number of threads, within rate limits that they share.

    Attributes:
        api_calls: Requests sent so far, retries included.
        meter: Counts what calls use, within budgets.
    """

    def __init__(
        self,
        settings: CallSettings,
        *,
        model: str,
        units_per_minute: int,
        failure: type[ModelError],
        access: GeminiAccess,
    ) -> None:
        """Prepare calls. The first call reads the key and loads the SDK.

        Args:
            settings: Address, time-out, attempts and tokens per minute.
            model: Name of the model, which has a quota of its own.
            units_per_minute: Most texts or requests per minute, whichever the quota counts.
            failure: Type of the error that is raised when the service gives no usable answer.
            access: Key or client, shared limits, and time.
        """
        self.api_calls = 0
        self._settings = settings
        self._model = model
        self._units_per_minute = units_per_minute
        self._failure = failure
        self.meter = access.meter
        self._access = access
        self._api_key = access.api_key
        self._connected: tuple[genai.Client, RateLimiter] | None = None
        self._connecting = threading.Lock()
        self._counting = threading.Lock()

    def call(
        self,
        send: Callable[[genai.Client, HttpOptions], Response],
        read: Callable[[Response], Result],
        *,
        units: int,
        tokens: int,
        most: Usage | None,
        read_usage: Callable[[Response], Usage] | None = None,
    ) -> Result:
        """Send a request, read the answer, and retry after transient failures.

        Args:
            send: Calls the SDK with the given client and options.
            read: Turns the SDK's response into the result, or raises :class:`TransientError`.
            units: Texts or requests that count against the quota.
            tokens: Tokens that count against the quota.
            most: What the call uses at most, for the meter; None for a call that costs nothing.
            read_usage: Reads from the SDK's response what the call used; None takes ``most``.

        Returns:
            The result of ``read``.

        Raises:
            BudgetExhaustedError: The next attempt would exceed a budget.
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A daily quota is used up.
            ModelError: Every attempt failed, or the request was refused. The type is ``failure``.
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
            result: Result = retrying(self._attempt, send, read, units, tokens, most, read_usage)
        except TransientError as error:
            raise self._failure(
                f"Gemini gave no usable answer in {self._settings.max_attempts} attempts; "
                f"the last error: {error}. Finished work is kept, so run the same command again"
            ) from error
        return result

    def _attempt(
        self,
        send: Callable[[genai.Client, HttpOptions], Response],
        read: Callable[[Response], Result],
        units: int,
        tokens: int,
        most: Usage | None,
        read_usage: Callable[[Response], Usage] | None,
    ) -> Result:
        client, limiter = self._connect()
        limiter.acquire(units, tokens)
        with self._metering(most) as settle:
            with self._counting:
                self.api_calls += 1
            started = time.perf_counter()
            with observe("gemini request", units=units, tokens=tokens):
                response = self._send(client, send)
            if read_usage is not None:
                settle(read_usage(response))
        result = read(response)
        logger.debug("gemini answered units=%d seconds=%.2f", units, time.perf_counter() - started)
        return result

    @contextmanager
    def _metering(self, most: Usage | None) -> Iterator[Settle]:
        """Reserve what an attempt may use, and settle what it used: all of it, unless it gives another usage."""
        used = [most or Usage()]
        meter = Unmetered() if most is None else self.meter
        settle = meter.reserve(used[0], seconds=self._settings.timeout_seconds + _SETTLING_SECONDS)
        # An attempt without an answer may have been billed; one that was refused was not.
        try:
            yield used.append
        except _RefusedError as refused:
            used.append(Usage(calls=1))
            raise refused.error from None
        finally:
            settle(used[-1])

    def _send(self, client: genai.Client, send: Callable[[genai.Client, HttpOptions], Response]) -> Response:
        # Nothing raised by the SDK is chained: it may carry the request's headers, and with them the key.
        from google.genai.errors import APIError
        from google.genai.types import HttpOptions, HttpRetryOptions

        options = HttpOptions(
            timeout=round(self._settings.timeout_seconds * 1000),
            retry_options=HttpRetryOptions(attempts=1),
        )
        try:
            return send(client, options)
        except APIError as error:
            raise _RefusedError(interpret_api_error(error, self._key_text(), self._failure)) from None
        except _transport_errors() as error:
            message = redact(str(error), self._key_text())
            raise TransientError(f"{type(error).__name__}: {message or 'connection lost'}") from None
        except ValueError as error:
            raise TransientError(f"the answer is not the JSON of the API ({type(error).__name__})") from None

    def _connect(self) -> tuple[genai.Client, RateLimiter]:
        with self._connecting:
            if self._connected is None:
                client = self._access.client or self._make_client()
                self._connected = client, self._make_limiter()
            return self._connected

    def _make_client(self) -> genai.Client:
        from google import genai
        from google.genai.types import HttpOptions

        self._api_key = self._api_key or read_api_key()
        return genai.Client(
            api_key=self._api_key.get_secret_value(),
            vertexai=False,
            # HTTP clients keep the key's header when they follow a redirect to another host.
            http_options=HttpOptions(
                base_url=self._settings.base_url, client_args={"follow_redirects": False}
            ),
        )

    def _make_limiter(self) -> RateLimiter:
        return RateLimiter(
            self._access.limits_file or default_limits_file(),
            [self._settings.base_url or "", self._model, self._key_text() or ""],
            units_per_minute=self._units_per_minute,
            tokens_per_minute=self._settings.tokens_per_minute,
            clock=self._access.clock,
            wait=self._access.wait,
        )

    def _key_text(self) -> str | None:
        return self._api_key.get_secret_value() if self._api_key else None

    def _prepare_retry(self, state: tenacity.RetryCallState) -> None:
        error = failure_of(state)
        delay = state.upcoming_sleep
        logger.warning(
            "gemini call failed attempt=%d retry_in=%.1f cause=%s", state.attempt_number, delay, error
        )
        if error.delay is not None:
            self._connect()[1].pause(delay)  # the other threads and processes would be refused as well


class _RefusedError(Exception):
    """The service answered a call with an error, which it does not bill."""

    def __init__(self, error: ModelError) -> None:
        super().__init__(str(error))
        self.error = error


def _transport_errors() -> tuple[type[Exception], ...]:
    """Give the base class of connection errors of each HTTP client that the SDK may use."""
    modules: list[Any] = [
        importlib.import_module(name) for name in _HTTP_CLIENTS if importlib.util.find_spec(name)
    ]
    return tuple(module.TransportError for module in modules)
