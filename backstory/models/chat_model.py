"""Chat models, for writers, rerankers, summaries and answers: messages and a form make an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from backstory.base.addresses import is_openai, name_service
from backstory.base.errors import TransientError
from backstory.base.wording import count
from backstory.models.usage import Usage
from backstory.text.chunking.units import estimate_tokens

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import GenerateContentResponse, HttpOptions

    from backstory.models.service import Service
    from backstory.settings.groups import LanguageModelSettings

_FENCED: Final = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n```\s*\Z", re.DOTALL)
_FINISHED: Final = ("STOP", "stop", None)
_CUT: Final = ("MAX_TOKENS", "CONTINUATION", "length")
_REASON_CHARACTERS: Final = 40

Result = TypeVar("Result")


@dataclass(frozen=True)
class Messages:
    """What is sent to a model: instructions, which may be empty, and the material."""

    system: str
    user: str

    def estimate_tokens(self) -> int:
        """Estimate the tokens of both messages; the estimate errs upwards."""
        return int(estimate_tokens([self.system, self.user]).sum())


@dataclass(frozen=True)
class AnswerForm:
    """The JSON that a model is to answer with: one word for it, its schema, and most tokens, thoughts included.

    The advice tells a person what to do about an answer that was cut; it may be empty.
    """

    name: str
    schema: Mapping[str, Any]
    max_output_tokens: int
    cut_advice: str = ""


class UnusableAnswerError(Exception):
    """An answer was withheld, is not whole, or is not of the form, for a short reason such as ``blocked (SAFETY)``.

    The detail never repeats the model's own words, which may name somebody, and which nobody has checked.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


@dataclass(frozen=True)
class Answer:
    """What a model answered: a text, which should be JSON of the form, and the model's name at the service.

    It read and wrote so many tokens, its thoughts included. ``withheld`` tells why the text is not whole.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    withheld: UnusableAnswerError | None = None


class ChatModel:
    """Asks one model of a service, which its id names with all that decides its answers, from any number of threads."""

    def __init__(self, settings: LanguageModelSettings, service: Service) -> None:
        """Set the temperature, by the settings, and what sends the messages."""
        self._service = service
        self._temperature = settings.temperature
        # The name of a model means something only at its service.
        place = "gemini" if service.is_gemini else f"openai:{name_service(service.address)}"
        self.id = f"{place}:{service.model}:t{settings.temperature}"

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""
        return self._service.api_calls

    def ask(self, messages: Messages, form: AnswerForm) -> Answer:
        """Send messages, from any thread; see :meth:`backstory.models.service.Service.post` for the errors."""
        most = Usage(1, 1, messages.estimate_tokens(), form.max_output_tokens)
        ask = self._ask_gemini if self._service.is_gemini else self._post
        return ask(messages, form, most)

    def _post(self, messages: Messages, form: AnswerForm, most: Usage) -> Answer:
        from backstory.models.service import read_usage

        system = [{"role": "system", "content": messages.system}] if messages.system else []
        body: dict[str, Any] = {
            "model": self._service.model,
            "messages": [*system, {"role": "user", "content": messages.user}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": form.name, "strict": True, "schema": form.schema},
            },
        }
        # OpenAI's newer models refuse the name that all other services know.
        limit = "max_completion_tokens" if is_openai(self._service.address) else "max_tokens"
        body[limit] = form.max_output_tokens
        if self._temperature is not None:
            body["temperature"] = self._temperature

        def read(completion: Mapping[str, Any]) -> Answer:
            text, withheld = _read_completion(completion, form)
            used = read_usage(completion, most)
            model = str(completion.get("model") or self._service.model)
            return Answer(text, model, used.tokens_in, used.tokens_out, withheld)

        return self._service.post("/chat/completions", body, read, most=most)

    def _ask_gemini(self, messages: Messages, form: AnswerForm, most: Usage) -> Answer:
        from backstory.models.service import read_gemini_usage

        def send(client: genai.Client, options: HttpOptions) -> GenerateContentResponse:
            from google.genai import types

            return client.models.generate_content(
                model=self._service.model,
                contents=[types.Content(role="user", parts=[types.Part(text=messages.user)])],
                config=types.GenerateContentConfig(
                    system_instruction=messages.system or None,
                    response_mime_type="application/json",
                    response_json_schema=form.schema,
                    temperature=self._temperature,
                    max_output_tokens=form.max_output_tokens,
                    http_options=options,
                ),
            )

        def read(response: GenerateContentResponse) -> Answer:
            text, withheld = _read_candidate(response, form)
            used = read_gemini_usage(response, most)
            model = response.model_version or self._service.model
            return Answer(text, model, used.tokens_in, used.tokens_out, withheld)

        return self._service.ask_gemini(send, read, most=most)


Ask: TypeAlias = Callable[[Messages, AnswerForm], Answer]
"""Sends messages, as :meth:`ChatModel.ask` does."""

PriceUsage: TypeAlias = Callable[[Usage], float | None]
"""Returns the price of a usage of one model; None if its price is not known."""


@dataclass
class CountedModel:
    """Asks a chat model, and counts what its answers used, from nothing. One thread has one."""

    model: ChatModel
    used: Usage = field(default_factory=Usage)

    def ask(self, messages: Messages, form: AnswerForm) -> Answer:
        """Send messages; see :meth:`ChatModel.ask`."""
        answer = self.model.ask(messages, form)
        self.used = Usage(
            calls=self.used.calls + 1,
            tokens_in=self.used.tokens_in + answer.tokens_in,
            tokens_out=self.used.tokens_out + answer.tokens_out,
        )
        return answer


Repair: TypeAlias = Callable[[Messages, Answer, str], Messages]
"""Makes of the messages, the answer that cannot be read and the reason the messages that ask once more."""


def ask_until_usable(
    ask: Ask,
    messages: Messages,
    form: AnswerForm,
    read: Callable[[Answer], Result],
    repair: Repair | None = None,
) -> Result:
    """Ask a model, and once more, with repaired messages or the same, if its answer cannot be read.

    ``read`` makes the result of a whole answer, or raises :class:`UnusableAnswerError`, as a withheld answer does at
    once.
    """

    def ask_once(messages: Messages) -> Answer:
        answer = ask(messages, form)
        if answer.withheld is not None:
            raise answer.withheld
        return answer

    answer = ask_once(messages)
    try:
        return read(answer)
    except UnusableAnswerError as error:
        again = repair(messages, answer, str(error)) if repair is not None else messages
    return read(ask_once(again))


def describe_object(**properties: Any) -> dict[str, Any]:
    """Make the JSON schema of an object with these properties, all of them required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def parse_answer(text: str) -> Any:
    """Parse the JSON of an answer, also inside the fence that some models put around it, or raise ``ValueError``."""
    fenced = _FENCED.match(text)
    try:
        return json.loads(fenced[1] if fenced else text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _read_completion(
    completion: Mapping[str, Any], form: AnswerForm
) -> tuple[str, UnusableAnswerError | None]:
    """Read the text of an answer of OpenAI's API, or why it is not whole."""
    choices = completion.get("choices")
    if not isinstance(choices, list):
        raise TransientError("the answer holds no choices")
    choice = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    message = message if isinstance(message, Mapping) else {}
    text, refusal = message.get("content"), message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return "", UnusableAnswerError("refused", count(len(refusal), "character"))
    withheld = _find_withheld(choice.get("finish_reason"), form)
    return text if withheld is None and isinstance(text, str) else "", withheld


def _read_candidate(
    response: GenerateContentResponse, form: AnswerForm
) -> tuple[str, UnusableAnswerError | None]:
    """Read the text of Gemini's answer, or why it is not whole."""
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        return "", UnusableAnswerError(f"blocked ({feedback.block_reason.value})")
    if not response.candidates:
        raise TransientError("the answer holds no candidates")
    answer = response.candidates[0]
    withheld = _find_withheld(answer.finish_reason.value if answer.finish_reason is not None else None, form)
    parts = answer.content.parts if withheld is None and answer.content is not None else None
    return "".join(part.text or "" for part in parts or [] if not part.thought), withheld


def _find_withheld(reason: Any, form: AnswerForm) -> UnusableAnswerError | None:
    if reason in _FINISHED:
        return None
    if reason in _CUT:
        return UnusableAnswerError(f"cut ({reason})", form.cut_advice)
    return UnusableAnswerError(f"blocked ({str(reason)[:_REASON_CHARACTERS]})")
