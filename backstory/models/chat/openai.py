"""Chat models behind an OpenAI-compatible address: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from backstory.base.addresses import OPENAI_ADDRESS, is_openai, name_service
from backstory.base.retry import TransientError
from backstory.models.chat.messages import Messages
from backstory.models.chat.model import Answer, AnswerForm, ChatModelSettings, Withheld
from backstory.models.services.connection import ServiceAccess, Stage
from backstory.models.services.openai import OpenAIConnection, read_usage

_FINISHED: Final = ("stop", None)
_CUT: Final = "length"
_REASON_CHARACTERS: Final = 40


class OpenAIModel:
    """Asks for JSON of a schema by chat completions."""

    def __init__(
        self,
        settings: ChatModelSettings,
        stage: Stage,
        access: ServiceAccess,
    ) -> None:
        """Prepare calls. The first call reads the key.

        Args:
            settings: Model, temperature, address and limits.
            stage: The stage that asks, which errors name.
            access: Key, shared limits, and time.
        """
        self._model = settings.paid_model or ""
        self._temperature = settings.temperature
        self._connection = OpenAIConnection(
            settings,
            model=self._model,
            units_per_minute=settings.requests_per_minute,
            stage=stage,
            access=access,
        )
        address = settings.base_url or OPENAI_ADDRESS
        # The name of a model means something only at its service.
        self.id = f"openai:{name_service(address)}:{self._model}:t{settings.temperature}"
        # OpenAI's newer models refuse the name that all other services know.
        self._limit = "max_completion_tokens" if is_openai(address) else "max_tokens"

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""
        return self._connection.api_calls

    def ask(self, messages: Messages, form: AnswerForm) -> Answer:
        """Send messages; see :class:`backstory.models.chat.model.ChatModel`."""
        system = [{"role": "system", "content": messages.system}] if messages.system else []
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [*system, {"role": "user", "content": messages.user}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": form.name, "strict": True, "schema": form.schema},
            },
            self._limit: form.max_output_tokens,
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        most = form.limit_usage(messages)

        def read(completion: Mapping[str, Any]) -> Answer:
            text, withheld = _read_text(completion, form)
            used = read_usage(completion, most)
            model = str(completion.get("model") or self._model)
            return Answer(text, model, used.tokens_in, used.tokens_out, withheld)

        return self._connection.post(
            "/chat/completions", body, read, units=1, tokens=most.tokens_in, most=most
        )


def _read_text(completion: Mapping[str, Any], form: AnswerForm) -> tuple[str, Withheld | None]:
    """Read the text of an answer, or why it is not whole.

    Raises:
        TransientError: The answer holds no list of choices.
    """
    choices = completion.get("choices")
    if not isinstance(choices, list):
        raise TransientError("the answer holds no choices")
    choice = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    message = message if isinstance(message, Mapping) else {}
    text, refusal, finish = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    if isinstance(refusal, str) and refusal.strip():
        return "", Withheld("refused", " ".join(refusal.split()))
    if finish == _CUT:
        return "", Withheld(f"cut ({finish})", form.cut_advice)
    if finish not in _FINISHED:
        return "", Withheld(f"blocked ({str(finish)[:_REASON_CHARACTERS]})")
    return text if isinstance(text, str) else "", None
