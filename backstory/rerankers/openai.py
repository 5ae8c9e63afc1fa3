"""A model that rates behind an OpenAI-compatible address: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from backstory.errors import RerankError, WriterError
from backstory.providers.metering import Usage
from backstory.providers.openai_client import ChatAccess, ChatConnection
from backstory.rerankers.rating import ANSWER_SCHEMA, INSTRUCTION, MAX_OUTPUT_TOKENS, Reply
from backstory.settings import RerankSettings, WriterSettings
from backstory.settings.addresses import OPENAI_ADDRESS

_FINISHED: Final = ("stop", None)
_CUT: Final = "length"
_REASON_CHARACTERS: Final = 40


class OpenAIRater:
    """Asks for JSON of the schema by chat completions."""

    def __init__(self, settings: RerankSettings, access: ChatAccess = ChatAccess()) -> None:  # noqa: B008 - immutable
        """Prepare calls. The first call reads the key.

        Args:
            settings: Model, parameters, address and limits.
            access: Key, shared limits, and time.
        """
        self._model = settings.paid_model or ""
        self._temperature = settings.temperature
        self._connection = ChatConnection(_as_chat_settings(settings), access)
        address = urlsplit(settings.base_url or OPENAI_ADDRESS)
        # The name of a model means something only at its service.
        self.id = f"openai:{address.netloc}:{self._model}:t{settings.temperature}"
        # OpenAI's newer models refuse the name that all other services know.
        is_openai = address.hostname == urlsplit(OPENAI_ADDRESS).hostname
        self._limit = "max_completion_tokens" if is_openai else "max_tokens"

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""
        return self._connection.api_calls

    def ask(self, prompt: str, tokens: int) -> Reply:
        """Send a prompt; see :class:`backstory.rerankers.rating.RatingModel`."""
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": prompt}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "ratings", "strict": True, "schema": ANSWER_SCHEMA},
            },
            self._limit: MAX_OUTPUT_TOKENS,
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        most = Usage(1, 1, tokens, MAX_OUTPUT_TOKENS)
        try:
            return _read_reply(self._connection.complete(body, tokens=tokens, most=most))
        except WriterError as error:
            raise RerankError(str(error).replace("writers.", "rerank.")) from error


def _as_chat_settings(settings: RerankSettings) -> WriterSettings:
    """Give the settings of a connection, which are the same for writers and rerankers."""
    names = (
        "base_url",
        "allow_http",
        "timeout_seconds",
        "max_attempts",
        "requests_per_minute",
        "tokens_per_minute",
    )
    shared = {name: getattr(settings, name) for name in names}
    return WriterSettings(provider="openai", model=settings.paid_model, **shared)


def _read_reply(completion: Mapping[str, Any]) -> Reply:
    choices = completion["choices"]
    choice = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    message = message if isinstance(message, Mapping) else {}
    text, refusal, finish = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    if isinstance(refusal, str) and refusal.strip():
        return Reply("", "refused")
    if finish not in _FINISHED:
        return Reply(
            "", f"cut ({finish})" if finish == _CUT else f"blocked ({str(finish)[:_REASON_CHARACTERS]})"
        )
    return Reply(text if isinstance(text, str) else "")
