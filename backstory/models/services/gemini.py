"""Calls of the Gemini API through the google-genai SDK.

By default the SDK has no time-out, ignores the delay that a server asks for, and does not retry dropped
connections.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from backstory.base.environment import read_api_key
from backstory.base.extras import require_extra
from backstory.base.retry import TransientError
from backstory.models.services.connection import CallSettings
from backstory.models.services.failures import interpret_api_error, redact
from backstory.models.services.meter import Usage
from backstory.settings.embedding import TEXTS_PER_MINUTE, TOKENS_PER_MINUTE

require_extra("gemini", "The provider gemini", "choose another provider in backstory.yaml")
from backstory.models.services.connection import RefusedError, ServiceAccess, ServiceConnection, Stage  # noqa: E402

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import GenerateContentResponse, HttpOptions

_HTTP_CLIENTS = ("httpx2", "httpx")

Response = TypeVar("Response")


@dataclass(frozen=True)
class GeminiAccess(ServiceAccess):
    """What calls need besides the settings of their stage.

    Attributes:
        client: A client to use instead of one made from the key; all such clients share one limit per model.
    """

    client: genai.Client | None = None


def read_usage(response: GenerateContentResponse, most: Usage) -> Usage:
    """Read what a call used; without the service's own figures, the most that it may have used."""
    reported = response.usage_metadata
    if reported is None or reported.prompt_token_count is None:
        return most
    written = (reported.candidates_token_count or 0) + (reported.thoughts_token_count or 0)
    return Usage(1, 1, reported.prompt_token_count, written)


class TimedClient(NamedTuple):
    """A client of the SDK, and the options that every call of it takes: the time-out, and no retries of its own."""

    client: genai.Client
    options: HttpOptions


class GeminiConnection(ServiceConnection[TimedClient]):
    """Sends requests from any number of threads, within rate limits that they share."""

    kind = "gemini"
    service = "Gemini"
    # The free tier.
    default_units_per_minute = TEXTS_PER_MINUTE["gemini"]
    default_tokens_per_minute = TOKENS_PER_MINUTE["gemini"]

    def __init__(
        self,
        settings: CallSettings,
        *,
        model: str,
        units_per_minute: int | None,
        stage: Stage,
        access: GeminiAccess,
    ) -> None:
        """Prepare calls; see :class:`ServiceConnection`. The first call loads the SDK."""
        super().__init__(settings, model=model, units_per_minute=units_per_minute, stage=stage, access=access)
        self._injected_client = access.client

    def _send(self, client: TimedClient, send: Callable[[TimedClient], Response]) -> Response:
        # Nothing raised by the SDK is chained: it may carry the request's headers, and with them the key.
        from google.genai.errors import APIError

        try:
            return send(client)
        except APIError as error:
            raise RefusedError(interpret_api_error(error, self._key_text(), self._stage.failure)) from None
        except _transport_errors() as error:
            message = redact(str(error), self._key_text())
            name = type(error).__name__
            raise TransientError(f"{name}: {message or 'connection lost'}", cause=name) from None
        except (ValueError, RecursionError) as error:  # the SDK parses JSON that a model wrote, however deep
            raise TransientError(f"the answer is not the JSON of the API ({type(error).__name__})") from None

    def _make_client(self) -> TimedClient:
        from google.genai.types import HttpOptions, HttpRetryOptions

        timeout = round(self._settings.timeout_seconds * 1000)
        options = HttpOptions(timeout=timeout, retry_options=HttpRetryOptions(attempts=1))
        return TimedClient(self._injected_client or self._make_own_client(), options)

    def _make_own_client(self) -> genai.Client:
        from google import genai
        from google.genai.types import HttpOptions

        self._api_key = self._api_key or read_api_key(self._access.keys)
        return genai.Client(
            api_key=self._api_key.get_secret_value(),
            vertexai=False,
            # HTTP clients keep the key's header when they follow a redirect to another host.
            http_options=HttpOptions(
                base_url=self._settings.base_url, client_args={"follow_redirects": False}
            ),
        )


def _transport_errors() -> tuple[type[Exception], ...]:
    """Return the base class of connection errors of each HTTP client that the SDK may use."""
    modules: list[Any] = [
        importlib.import_module(name) for name in _HTTP_CLIENTS if importlib.util.find_spec(name)
    ]
    return tuple(module.TransportError for module in modules)
