"""A model behind an OpenAI-compatible address: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from backstory.chunking.tokens import estimate_tokens
from backstory.providers.connection import ServiceAccess
from backstory.providers.metering import Usage
from backstory.providers.openai_client import WRITERS, ChatConnection, read_usage
from backstory.settings.addresses import OPENAI_ADDRESS, is_openai, name_service
from backstory.settings.writers import WriterSettings
from backstory.writing.chat_model import ANSWER_SCHEMA, Answer
from backstory.writing.prompt import Messages

_FINISHED: Final = ("stop", None)
_CUT: Final = "length"


class OpenAIModel:
    """Asks for JSON of the schema by chat completions."""

    def __init__(self, settings: WriterSettings, access: ServiceAccess = ServiceAccess()) -> None:  # noqa: B008 - immutable
        """Prepare calls. The first call reads the key.

        Args:
            settings: Model, parameters, address and limits.
            access: Key, shared limits, and time.
        """
        self._settings = settings
        self._model = settings.paid_model or ""
        self._connection = ChatConnection(settings, WRITERS, access)
        address = settings.base_url or OPENAI_ADDRESS
        # The name of a model means something only at its service.
        parameters = f"t{settings.temperature}:o{settings.max_output_tokens}"
        self.id = f"openai:{name_service(address)}:{self._model}:{parameters}"
        # OpenAI's newer models refuse the name that all other services know.
        self._limit = "max_completion_tokens" if is_openai(address) else "max_tokens"

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""
        return self._connection.api_calls

    def ask(self, messages: Messages) -> Answer:
        """Send a prompt.

        Raises:
            ModelError: The service gave no answer, or refused the request.
            BudgetExhaustedError: The call would exceed a budget.
        """
        sent = [("system", messages.system)] if messages.system else []
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": role, "content": text} for role, text in [*sent, ("user", messages.user)]],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "post", "strict": True, "schema": ANSWER_SCHEMA},
            },
            self._limit: self._settings.max_output_tokens,
        }
        if self._settings.temperature is not None:
            body["temperature"] = self._settings.temperature
        tokens = int(estimate_tokens([messages.system, messages.user]).sum())
        most = Usage(1, 1, tokens, self._settings.max_output_tokens)
        return _read_answer(self._connection.complete(body, tokens=tokens, most=most), self._model, most)


def _read_answer(completion: Mapping[str, Any], model: str, most: Usage) -> Answer:
    choices = completion["choices"]
    choice = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    message = message if isinstance(message, Mapping) else {}
    text = message.get("content")
    used = read_usage(completion, most)
    return Answer(
        text=text if isinstance(text, str) else "",
        model=str(completion.get("model") or model),
        tokens_in=used.tokens_in,
        tokens_out=used.tokens_out,
        withheld=_find_reason(choice.get("finish_reason"), message.get("refusal")),
    )


def _find_reason(finish: object, refusal: object) -> str | None:
    """Say why an answer is not whole; None if it is."""
    if isinstance(refusal, str) and refusal.strip():
        return f"refused: {' '.join(refusal.split())}"
    if finish == _CUT:
        return "cut (length): raise writers.max_output_tokens, or ask for less in the prompt"
    if finish not in _FINISHED:
        return f"blocked ({finish})"
    return None
