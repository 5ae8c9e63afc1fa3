"""A model that rates behind an OpenAI-compatible address: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from backstory.providers.connection import ServiceAccess
from backstory.providers.metering import Usage
from backstory.providers.openai_client import RERANKING, ChatConnection
from backstory.rerankers.rating import ANSWER_SCHEMA, INSTRUCTION, MAX_OUTPUT_TOKENS, Reply
from backstory.settings import RerankSettings
from backstory.settings.addresses import OPENAI_ADDRESS, is_openai, name_service

_FINISHED: Final = ("stop", None)
_CUT: Final = "length"
_REASON_CHARACTERS: Final = 40


class OpenAIRater:
    """Asks for JSON of the schema by chat completions."""

    def __init__(self, settings: RerankSettings, access: ServiceAccess = ServiceAccess()) -> None:  # noqa: B008 - immutable
        """Prepare calls. The first call reads the key.

        Args:
            settings: Model, parameters, address and limits.
            access: Key, shared limits, and time.
        """
        self._model = settings.paid_model or ""
        self._temperature = settings.temperature
        self._connection = ChatConnection(settings, RERANKING, access)
        address = settings.base_url or OPENAI_ADDRESS
        # The name of a model means something only at its service.
        self.id = f"openai:{name_service(address)}:{self._model}:t{settings.temperature}"
        # OpenAI's newer models refuse the name that all other services know.
        self._limit = "max_completion_tokens" if is_openai(address) else "max_tokens"

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
        return _read_reply(self._connection.complete(body, tokens=tokens, most=most))


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
