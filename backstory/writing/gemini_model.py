"""A Gemini model that writes: one call per post or section, answered as JSON."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from backstory.chunking.tokens import estimate_tokens
from backstory.errors import WriterError
from backstory.providers.gemini_client import GeminiAccess, GeminiConnection, read_usage
from backstory.providers.metering import Usage
from backstory.writing.chat_model import POST_FORM, Answer, AnswerForm, ChatModelSettings
from backstory.writing.prompt import Messages

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import GenerateContentResponse, HttpOptions

_FINISHED: Final = "STOP"
_CUT: Final = ("MAX_TOKENS", "CONTINUATION")


class GeminiModel:
    """Asks a Gemini model, from several threads within rate limits that they share."""

    def __init__(
        self,
        settings: ChatModelSettings,
        access: GeminiAccess = GeminiAccess(),  # noqa: B008 - immutable
        form: AnswerForm = POST_FORM,
    ) -> None:
        """Prepare calls. The first call reads the key and loads the SDK.

        Args:
            settings: Model, parameters, limits, time-out and number of attempts.
            access: Key or client, shared limits, and time.
            form: The JSON that is asked for.
        """
        self._settings = settings
        self._form = form
        self._schema = {name: value for name, value in form.schema.items() if name != "additionalProperties"}
        self._model = (settings.paid_model or "").removeprefix("models/")
        self.id = f"gemini:{self._model}:t{settings.temperature}:o{settings.max_output_tokens}"
        self._connection = GeminiConnection(
            settings,
            model=self._model,
            units_per_minute=settings.requests_per_minute,
            failure=WriterError,
            access=access,
        )

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
        tokens = int(estimate_tokens([messages.system, messages.user]).sum())

        def send(client: genai.Client, options: HttpOptions) -> GenerateContentResponse:
            from google.genai import types

            return client.models.generate_content(
                model=self._model,
                contents=[types.Content(role="user", parts=[types.Part(text=messages.user)])],
                config=types.GenerateContentConfig(
                    system_instruction=messages.system or None,
                    response_mime_type="application/json",
                    response_json_schema=self._schema,
                    temperature=self._settings.temperature,
                    max_output_tokens=self._settings.max_output_tokens,
                    http_options=options,
                ),
            )

        most = Usage(1, 1, tokens, self._settings.max_output_tokens)

        def read(response: GenerateContentResponse) -> Answer:
            used = read_usage(response, most)
            text, withheld = _read_text(response, self._form)
            name = response.model_version or self._model
            return Answer(text, name, used.tokens_in, used.tokens_out, withheld)

        return self._connection.call(
            send, read, units=1, tokens=tokens, most=most, read_usage=partial(read_usage, most=most)
        )


def _read_text(response: GenerateContentResponse, form: AnswerForm) -> tuple[str, str | None]:
    """Read the text of an answer, and why it is not whole; None if it is."""
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        return "", f"blocked ({feedback.block_reason.value})"
    if not response.candidates:
        return "", "empty: the model wrote nothing"
    answer = response.candidates[0]
    reason = answer.finish_reason.value if answer.finish_reason is not None else _FINISHED
    if reason in _CUT:
        return "", f"cut ({reason}): {form.cut}"
    if reason != _FINISHED:
        return "", f"blocked ({reason})"
    parts = answer.content.parts if answer.content is not None else None
    return "".join(part.text or "" for part in parts or [] if not part.thought), None
