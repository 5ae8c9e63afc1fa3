"""Calls of OpenAI-compatible services by HTTP: chat completions and embeddings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from backstory.base.addresses import OPENAI_ADDRESS
from backstory.base.environment import (
    OPENAI_KEY_VARIABLE,
    read_service_key,
)
from backstory.base.errors import (
    AuthenticationError,
    ModelError,
    QuotaExhaustedError,
)
from backstory.base.extras import require_extra
from backstory.base.retry import TransientError
from backstory.models.services.failures import (
    LONGEST_DELAY_SECONDS,
    mark_refused_content,
    parse_retry_after,
    quote_service,
    redact,
)
from backstory.models.services.meter import Usage
from backstory.settings.embedding import TEXTS_PER_MINUTE, TOKENS_PER_MINUTE

require_extra("openai", "The provider openai", "choose another provider in backstory.yaml")
import httpx2  # noqa: E402 - if it is not installed, the line above names the extra to install

from backstory.models.services.connection import RefusedError, ServiceConnection  # noqa: E402

if TYPE_CHECKING:
    from pydantic import SecretStr

_QUOTA_DELAY_SECONDS: Final = 60.0
_TRANSIENT_CODES: Final = (408, 409, 425, 429)
_EXHAUSTED: Final = ("insufficient_quota", "billing_hard_limit_reached")

Response = TypeVar("Response")
Result = TypeVar("Result")


class OpenAIConnection(ServiceConnection[httpx2.Client]):
    """Sends requests from any number of threads, within rate limits that they share."""

    kind = "openai"
    default_units_per_minute = TEXTS_PER_MINUTE["openai"]
    default_tokens_per_minute = TOKENS_PER_MINUTE["openai"]

    @property
    def _address(self) -> str:
        return self._settings.base_url or OPENAI_ADDRESS

    @property
    def service(self) -> str:
        """Host and port of the service."""
        return urlsplit(self._address).netloc

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[dict[str, Any]], Result],
        *,
        units: int,
        tokens: int,
        most: Usage,
    ) -> Result:
        """Send a request, read the answer, and retry after transient failures.

        Args:
            path: Path below the address, such as ``/embeddings``.
            body: The request.
            read: Turns the answer, a JSON object, into the result, or raises :class:`TransientError`.
            units: Texts or requests that count against the rate limit.
            tokens: Tokens that count against the rate limit.
            most: What the call uses at most, for the meter.

        Raises:
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A quota or the credit is used up.
            BudgetExhaustedError: The next attempt would exceed a budget.
            ModelError: Every attempt failed, or the request was refused. The type is that of the stage.
        """

        def send(client: httpx2.Client) -> dict[str, Any]:
            key = self._key_text()
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            response = client.post(f"{self._address}{path}", json=body, headers=headers)
            if response.status_code != 200:
                raise RefusedError(self._interpret(response))
            return _read_object(response)

        return self.call(
            send,
            read,
            units=units,
            tokens=tokens,
            most=most,
            read_usage=lambda answer: read_usage(answer, most),
        )

    def _send(self, client: httpx2.Client, send: Callable[[httpx2.Client], Response]) -> Response:
        # Nothing raised by the client is chained: it may carry the request's headers, and with them the key.
        try:
            return send(client)
        except httpx2.RequestError as error:
            message = redact(str(error), self._key_text())
            name = type(error).__name__
            raise TransientError(f"{name}: {message or 'connection lost'}", cause=name) from None

    def _make_client(self) -> httpx2.Client:
        self._api_key = self._api_key or self._read_key()
        return httpx2.Client(timeout=self._settings.timeout_seconds, follow_redirects=False)

    def _read_key(self) -> SecretStr | None:
        return read_service_key(self._stage.key_variable, self._address, self._access.keys)

    def _interpret(self, response: httpx2.Response) -> ModelError:
        """Convert an answer that is an error into an error of this library."""
        code = response.status_code
        if 300 <= code < 400:
            return self._stage.failure(
                f"{self.service} redirects (HTTP {code}). Backstory does not follow it: it would send "
                f"{self._stage.sent} there. If you trust the other address, set it as base_url "
                "of the service (services in backstory.yaml)",
                code="redirected",
                status=code,
                setting="base_url",
            )
        kind, answered = _read_error(response)
        said = quote_service(answered, self._key_text())
        message = f"HTTP {code}: {said}"
        if code in (401, 403):
            return AuthenticationError(
                f"{self.service} refused the key ({message}); check {self._stage.key_variable} or "
                f"{OPENAI_KEY_VARIABLE}",
                code="refused_key",
                status=code,
                said=said,
                variables=(self._stage.key_variable, OPENAI_KEY_VARIABLE),
            )
        delay = parse_retry_after(response.headers.get("Retry-After", ""))
        if code == 402 or kind in _EXHAUSTED or (code == 429 and (delay or 0) > LONGEST_DELAY_SECONDS):
            return QuotaExhaustedError(
                f"the quota or credit at {self.service} is used up ({message}); finished work is kept, so run the same "
                "command again when it has been renewed",
                status=code,
                said=said,
            )
        if code == 429:
            wait = _QUOTA_DELAY_SECONDS if delay is None else delay
            return TransientError(message, wait, status=code, said=said)
        if code in _TRANSIENT_CODES or code >= 500:
            longest = None if delay is None else min(delay, LONGEST_DELAY_SECONDS)
            return TransientError(message, longest, status=code, said=said)
        refusal = self._stage.failure(
            f"{self.service} refused the request ({message}); a retry would not help",
            code="refused",
            status=code,
            said=said,
        )
        return mark_refused_content(refusal, code)


def read_usage(answer: Mapping[str, Any], most: Usage) -> Usage:
    """Read what a call used; without the service's own figures, the estimate."""
    reported = answer.get("usage")
    if not isinstance(reported, Mapping):
        return most
    sent, written = (
        reported.get("prompt_tokens"),
        reported.get("completion_tokens", 0 if most.tokens_out == 0 else None),
    )
    # Services that count no tokens say that there were none.
    if not isinstance(sent, int) or not isinstance(written, int) or sent < 1:
        return most
    return Usage(1, most.texts, sent, max(written, 0))


def _read_object(response: httpx2.Response) -> dict[str, Any]:
    """Read the body of an answer.

    Raises:
        TransientError: It is not the JSON of the API.
    """
    try:
        answer = json.loads(response.content)
    except ValueError:
        raise TransientError("the answer is not the JSON of the API") from None
    if not isinstance(answer, dict):
        raise TransientError("the answer is not the JSON of the API")
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
