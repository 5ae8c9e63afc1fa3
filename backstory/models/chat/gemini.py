"""Chat models of the Gemini API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from backstory.base.retry import TransientError
from backstory.models.chat.messages import Messages
from backstory.models.chat.model import Answer, AnswerForm, ChatModelSettings, Withheld
from backstory.models.services.connection import Stage
from backstory.models.services.gemini import GeminiAccess, GeminiConnection, TimedClient, read_usage

if TYPE_CHECKING:
    from google.genai.types import GenerateContentResponse

_FINISHED: Final = "STOP"
_CUT: Final = ("MAX_TOKENS", "CONTINUATION")


class GeminiModel:
    """Asks a Gemini model, from several threads within rate limits that they share."""

    def __init__(
        self,
        settings: ChatModelSettings,
        stage: Stage,
        access: GeminiAccess,
    ) -> None:
        """Prepare calls. The first call reads the key and loads the SDK.

        Args:
            settings: Model, temperature, limits, time-out and number of attempts.
            stage: The stage that asks, which errors name.
            access: Key or client, shared limits, and time.
        """
        self._model = (settings.paid_model or "").removeprefix("models/")
        self._temperature = settings.temperature
        self.id = f"gemini:{self._model}:t{settings.temperature}"
        self._connection = GeminiConnection(
            settings,
            model=self._model,
            units_per_minute=settings.requests_per_minute,
            stage=stage,
            access=access,
        )

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""
        return self._connection.api_calls

    def ask(self, messages: Messages, form: AnswerForm) -> Answer:
        """Send messages; see :class:`backstory.models.chat.model.ChatModel`."""

        def send(timed: TimedClient) -> GenerateContentResponse:
            from google.genai import types

            return timed.client.models.generate_content(
                model=self._model,
                contents=[types.Content(role="user", parts=[types.Part(text=messages.user)])],
                config=types.GenerateContentConfig(
                    system_instruction=messages.system or None,
                    response_mime_type="application/json",
                    response_json_schema=form.schema,
                    temperature=self._temperature,
                    max_output_tokens=form.max_output_tokens,
                    http_options=timed.options,
                ),
            )

        most = form.limit_usage(messages)

        def read(response: GenerateContentResponse) -> Answer:
            text, withheld = _read_text(response, form)
            used = read_usage(response, most)
            model = response.model_version or self._model
            return Answer(text, model, used.tokens_in, used.tokens_out, withheld)

        return self._connection.call(
            send, read, units=1, tokens=most.tokens_in, most=most, read_usage=partial(read_usage, most=most)
        )


def _read_text(response: GenerateContentResponse, form: AnswerForm) -> tuple[str, Withheld | None]:
    """Read the text of an answer, or why it is not whole.

    Raises:
        TransientError: The answer holds neither a text nor a reason.
    """
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        return "", Withheld(f"blocked ({feedback.block_reason.value})")
    if not response.candidates:
        raise TransientError("the answer holds no candidates")
    answer = response.candidates[0]
    reason = answer.finish_reason.value if answer.finish_reason is not None else _FINISHED
    if reason in _CUT:
        return "", Withheld(f"cut ({reason})", form.cut_advice)
    if reason != _FINISHED:
        return "", Withheld(f"blocked ({reason})")
    parts = answer.content.parts if answer.content is not None else None
    return "".join(part.text or "" for part in parts or [] if not part.thought), None
