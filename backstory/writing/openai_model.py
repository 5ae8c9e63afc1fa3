"""A model behind an OpenAI-compatible address: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from backstory.chunking.tokens import estimate_tokens
from backstory.providers.connection import ServiceAccess
from backstory.providers.metering import Usage
from backstory.providers.openai_client import WRITERS, ChatConnection, Stage, read_usage
from backstory.settings.addresses import OPENAI_ADDRESS, is_openai, name_service
from backstory.writing.chat_model import POST_FORM, Answer, AnswerForm, ChatModelSettings
from backstory.writing.prompt import Messages

_FINISHED: Final = ("stop", None)
_CUT: Final = "length"


class OpenAIModel:
    """Asks for JSON of the schema by chat completions."""

    def __init__(
        self,
        settings: ChatModelSettings,
        access: ServiceAccess = ServiceAccess(),  # noqa: B008 - immutable
        form: AnswerForm = POST_FORM,
        stage: Stage = WRITERS,
    ) -> None:
        """Prepare calls. The first call reads the key.

        Args:
            settings: Model, parameters, address and limits.
            access: Key, shared limits, and time.
            form: The JSON that is asked for.
            stage: The stage that asks, which errors name.
        """
        self._settings = settings
        self._form = form
        self._model = settings.paid_model or ""
        self._connection = ChatConnection(settings, stage, access)
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
                "json_schema": {"name": self._form.name, "strict": True, "schema": self._form.schema},
            },
            self._limit: self._settings.max_output_tokens,
        }
        if self._settings.temperature is not None:
            body["temperature"] = self._settings.temperature
        tokens = int(estimate_tokens([messages.system, messages.user]).sum())
        most = Usage(1, 1, tokens, self._settings.max_output_tokens)
        completion = self._connection.complete(body, tokens=tokens, most=most)
        return _read_answer(completion, self._model, most, self._form)


def _read_answer(completion: Mapping[str, Any], model: str, most: Usage, form: AnswerForm) -> Answer:
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
        withheld=_find_reason(choice.get("finish_reason"), message.get("refusal"), form),
    )


def _find_reason(finish: object, refusal: object, form: AnswerForm) -> str | None:
    """Say why an answer is not whole; None if it is."""
    if isinstance(refusal, str) and refusal.strip():
        return f"refused: {' '.join(refusal.split())}"
    if finish == _CUT:
        return f"cut (length): {form.cut}"
    if finish not in _FINISHED:
        return f"blocked ({finish})"
    return None
