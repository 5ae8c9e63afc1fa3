"""A Gemini model that rates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from backstory.errors import RerankError
from backstory.providers.failures import TransientError
from backstory.providers.gemini_client import GeminiAccess, GeminiConnection, read_usage
from backstory.providers.metering import Usage
from backstory.rerankers.rating import ANSWER_SCHEMA, INSTRUCTION, MAX_OUTPUT_TOKENS, Reply
from backstory.settings import RerankSettings

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import GenerateContentResponse, HttpOptions

_FINISHED: Final = "STOP"
_CUT: Final = ("MAX_TOKENS", "CONTINUATION")


class GeminiRater:
    """Asks a Gemini model for JSON of the schema, within rate limits that all threads share."""

    def __init__(
        self,
        settings: RerankSettings,
        *,
        access: GeminiAccess = GeminiAccess(),  # noqa: B008 - immutable
    ) -> None:
        """Prepare calls. The first call reads the key and loads the SDK.

        Args:
            settings: Model, limits, time-out and number of attempts.
            access: Key or client, shared limits, and time.
        """
        self._model = (settings.paid_model or "").removeprefix("models/")
        self._temperature = settings.temperature
        self.id = f"gemini:{self._model}:t{settings.temperature}"
        self._connection = GeminiConnection(
            settings,
            model=self._model,
            units_per_minute=settings.requests_per_minute,
            failure=RerankError,
            access=access,
        )

    @property
    def api_calls(self) -> int:
        """Requests sent to the service so far, retries included."""
        return self._connection.api_calls

    def ask(self, prompt: str, tokens: int) -> Reply:
        """Send a prompt; see :class:`backstory.rerankers.rating.RatingModel`."""

        def send(client: genai.Client, options: HttpOptions) -> GenerateContentResponse:
            from google.genai import types

            return client.models.generate_content(
                model=self._model,
                contents=[types.Content(role="user", parts=[types.Part(text=prompt)])],
                config=types.GenerateContentConfig(
                    system_instruction=INSTRUCTION,
                    response_mime_type="application/json",
                    response_json_schema=ANSWER_SCHEMA,
                    temperature=self._temperature,
                    max_output_tokens=MAX_OUTPUT_TOKENS,
                    http_options=options,
                ),
            )

        most = Usage(1, 1, tokens, MAX_OUTPUT_TOKENS)

        return self._connection.call(
            send, _read_reply, units=1, tokens=tokens, most=most, read_usage=partial(read_usage, most=most)
        )


def _read_reply(response: GenerateContentResponse) -> Reply:
    """Read the text of an answer, or the reason why there is none.

    Raises:
        TransientError: The answer holds neither a text nor a reason.
    """
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        return Reply("", f"blocked ({feedback.block_reason.value})")
    if not response.candidates:
        raise TransientError("the answer holds no candidates")
    answer = response.candidates[0]
    reason = answer.finish_reason.value if answer.finish_reason is not None else _FINISHED
    if reason != _FINISHED:
        return Reply("", f"cut ({reason})" if reason in _CUT else f"blocked ({reason})")
    parts: list[Any] = (answer.content.parts if answer.content is not None else None) or []
    return Reply("".join(part.text or "" for part in parts if not part.thought))
