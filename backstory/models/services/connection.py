"""One way to call a service: a time-out, retries, a meter and a rate limit, whatever the service's API.

A service's own module knows how its client is made, how a request is sent, and which of its errors are worth a retry.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Protocol, TypeVar

from backstory.base.credentials import Keys
from backstory.base.environment import (
    ANSWER_KEY_VARIABLE,
    EMBEDDING_KEY_VARIABLE,
    RERANK_KEY_VARIABLE,
    SUMMARY_KEY_VARIABLE,
    WRITER_KEY_VARIABLE,
)
from backstory.base.errors import AnswerError, EmbeddingError, ModelError, RerankError, WriterError
from backstory.base.retry import TransientError, choose_delay, failure_of
from backstory.base.telemetry.scope import observe
from backstory.models.services.meter import CallMeter, Settle, Unmetered, Usage
from backstory.models.services.rate_limit import RateLimiter, default_limits_file

if TYPE_CHECKING:
    import tenacity
    from pydantic import SecretStr


class CallSettings(Protocol):
    """The settings that every stage needs to call a service."""

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
    def tokens_per_minute(self) -> int | None:
        """Most tokens sent per minute; None for the service's default."""
        ...


logger = logging.getLogger(__name__)

_SETTLING_SECONDS = 60.0
"""Time between the end of a call and its settlement, at most; a reservation lasts that much longer than a call."""

Client = TypeVar("Client")
Response = TypeVar("Response")
Result = TypeVar("Result")


def _wait_in_real_time(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True)
class Stage:
    """A stage that calls services, with the names that its errors use.

    Attributes:
        group: Its group of settings.
        key_variable: Environment variable of its key.
        sent: What a redirect would carry to another host.
        failure: Type of the error that is raised when the service gives no usable answer.
    """

    group: str
    key_variable: str
    sent: str
    failure: type[ModelError]


RERANKING: Final = Stage("rerank", RERANK_KEY_VARIABLE, "chats, documents and key", RerankError)
WRITERS: Final = Stage("writers", WRITER_KEY_VARIABLE, "chats, documents and key", WriterError)
SUMMARIES: Final = Stage("summaries", SUMMARY_KEY_VARIABLE, "documents and key", WriterError)
ANSWERS: Final = Stage("answers", ANSWER_KEY_VARIABLE, "questions, documents and key", AnswerError)
EMBEDDING: Final = Stage("embedding", EMBEDDING_KEY_VARIABLE, "chats, documents and key", EmbeddingError)


@dataclass(frozen=True)
class ServiceAccess:
    """What calls need besides the settings of their stage.

    Attributes:
        api_key: The key; None reads it from ``keys``.
        keys: The keys of the workspace; None for those of the environment.
        limits_file: File of the rate limits that processes share; None for the one in the user's cache folder.
        meter: Counts what calls use, within budgets.
        clock: Gives monotonic seconds, the same in all processes.
        wait: Blocks the calling thread for a number of seconds.
    """

    api_key: SecretStr | None = None
    keys: Keys | None = field(default=None, repr=False)
    limits_file: Path | None = None
    meter: CallMeter = field(default_factory=Unmetered)
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = _wait_in_real_time


class RefusedError(Exception):
    """The service answered a call with an error, which it does not bill.

    Attributes:
        error: The error to raise in its place.
    """

    def __init__(self, error: ModelError) -> None:
        super().__init__(str(error))
        self.error = error


class ServiceConnection(ABC, Generic[Client]):
    """Sends requests from any number of threads, within rate limits that they share.

    Attributes:
        api_calls: Requests sent so far, retries included.
        meter: Counts what calls use, within budgets.
        units_per_minute: Most texts or requests per minute.
        tokens_per_minute: Most tokens per minute.
    """

    kind: ClassVar[str]
    """Kind of service, for logs."""
    default_units_per_minute: ClassVar[int]
    default_tokens_per_minute: ClassVar[int]

    def __init__(
        self,
        settings: CallSettings,
        *,
        model: str,
        units_per_minute: int | None,
        stage: Stage,
        access: ServiceAccess,
    ) -> None:
        """Prepare calls. The first call reads the key and makes the client.

        Args:
            settings: Address, time-out, attempts and tokens per minute.
            model: Name of the model, which has a quota of its own.
            units_per_minute: Most texts or requests per minute, whichever the quota counts; None for the default.
            stage: The stage that calls, which errors name.
            access: Key, shared limits, meter and time.
        """
        self.api_calls = 0
        self.meter = access.meter
        self.units_per_minute = units_per_minute or self.default_units_per_minute
        self.tokens_per_minute = settings.tokens_per_minute or self.default_tokens_per_minute
        self._settings = settings
        self._model = model
        self._stage = stage
        self._access = access
        self._api_key = access.api_key
        self._connected: tuple[Client, RateLimiter] | None = None
        self._connecting = threading.Lock()
        self._counting = threading.Lock()

    @property
    @abstractmethod
    def service(self) -> str:
        """The service, as the subject of a sentence."""

    @abstractmethod
    def _make_client(self) -> Client:
        """Read the key if the service needs one, and make the client."""

    @abstractmethod
    def _send(self, client: Client, send: Callable[[Client], Response]) -> Response:
        """Send a request.

        Raises:
            RefusedError: The service answered with an error.
            TransientError: There was no answer that can be read.
        """

    def call(
        self,
        send: Callable[[Client], Response],
        read: Callable[[Response], Result],
        *,
        units: int,
        tokens: int,
        most: Usage | None,
        read_usage: Callable[[Response], Usage] | None = None,
    ) -> Result:
        """Send a request, read the answer, and retry after transient failures.

        Args:
            send: Sends the request by the given client.
            read: Turns the response into the result, or raises :class:`TransientError`.
            units: Texts or requests that count against the quota.
            tokens: Tokens that count against the quota.
            most: What the call uses at most, for the meter; None for a call that costs nothing.
            read_usage: Reads from the response what the call used; None takes ``most``.

        Raises:
            BudgetExhaustedError: The next attempt would exceed a budget.
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A quota that does not refill soon is used up.
            ModelError: Every attempt failed, or the request was refused. The type is that of the connection.
        """
        # Whoever chooses a service loads this module before its own, which names the extra of an absent package.
        import tenacity

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
            raise self._stage.failure(
                f"{self.service} gave no usable answer in {self._settings.max_attempts} attempts; "
                f"the last error: {error}. Finished work is kept, so run the same command again",
                code="no_answer",
                attempts=self._settings.max_attempts,
                **error.values,
            ) from error
        return result

    def _attempt(
        self,
        send: Callable[[Client], Response],
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
            with observe(f"{self.kind} request", units=units, tokens=tokens):
                response = self._send(client, send)
            if read_usage is not None:
                settle(read_usage(response))
        result = read(response)
        logger.debug(
            "call answered service=%s units=%d seconds=%.2f", self.kind, units, time.perf_counter() - started
        )
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
        except RefusedError as refused:
            used.append(Usage(calls=1))
            raise refused.error from None
        finally:
            settle(used[-1])

    def _connect(self) -> tuple[Client, RateLimiter]:
        with self._connecting:
            if self._connected is None:
                client = self._make_client()
                self._connected = client, self._make_limiter()
            return self._connected

    def _make_limiter(self) -> RateLimiter:
        return RateLimiter(
            self._access.limits_file or default_limits_file(),
            [self._settings.base_url or "", self._model, self._key_text() or ""],
            units_per_minute=self.units_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            clock=self._access.clock,
            wait=self._access.wait,
        )

    def _key_text(self) -> str | None:
        return self._api_key.get_secret_value() if self._api_key else None

    def _prepare_retry(self, state: tenacity.RetryCallState) -> None:
        error, delay = failure_of(state), state.upcoming_sleep
        logger.warning(
            "call failed service=%s attempt=%d retry_in=%.1f cause=%s",
            self.kind,
            state.attempt_number,
            delay,
            error,
        )
        if error.delay is not None:
            self._connect()[1].pause(delay)  # the other threads and processes would be refused as well
