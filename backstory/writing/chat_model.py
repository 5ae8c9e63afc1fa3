"""What a language model is asked, and its answer: the part that the services have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from backstory.providers.call_settings import CallSettings
from backstory.writing.draft import Draft
from backstory.writing.prompt import Messages

ANSWER_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "text": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title", "text", "tags"],
    "additionalProperties": False,
}
"""JSON schema of an answer."""


@dataclass(frozen=True)
class AnswerForm:
    """The JSON that a model is to answer with.

    Attributes:
        name: What the JSON is, one word.
        schema: JSON schema of an answer.
        group: Group of settings of the caller, which errors name.
    """

    name: str
    schema: Mapping[str, Any]
    group: str

    @property
    def cut(self) -> str:
        """What to do about an answer that was cut."""
        return f"raise {self.group}.max_output_tokens, or ask for less in the prompt"


POST_FORM: Final = AnswerForm("post", ANSWER_SCHEMA, "writers")

_FENCED: Final = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n```\s*\Z", re.DOTALL)
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True)
class Answer:
    """What a model answered.

    Attributes:
        text: Its text, which should be JSON of the form that was asked for.
        model: The model, as the service names it.
        tokens_in: Tokens that it read.
        tokens_out: Tokens that it wrote, its thoughts included.
        withheld: Why there is no text, or only a part of one; None if it is whole.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    withheld: str | None = None


class ChatModelSettings(CallSettings, Protocol):
    """The settings that a model needs."""

    @property
    def paid_model(self) -> str | None:
        """Name of the model at its service."""

    @property
    def requests_per_minute(self) -> int | None:
        """Most requests per minute; None for the service's default."""

    @property
    def temperature(self) -> float | None:
        """Randomness of the model; None for its own default."""

    @property
    def max_output_tokens(self) -> int:
        """Most tokens that the model may write, its thoughts included."""


class ChatModel(Protocol):
    """Sends a prompt to a model.

    Attributes:
        id: Service, model and parameters; everything that decides the answer besides the prompt.
    """

    @property
    def id(self) -> str:
        """Service, model and parameters."""

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""

    def ask(self, messages: Messages) -> Answer:
        """Send a prompt, from any thread.

        Raises:
            ModelError: The service gave no answer, or refused the request.
        """


def read_draft(answer: Answer) -> Draft:
    """Read the draft from an answer; one that is withheld or not of the schema gives a draft without a text."""
    if answer.withheld is not None:
        return _withhold(answer, answer.withheld)
    if not answer.text.strip():
        return _withhold(answer, "empty: the model wrote nothing")
    try:
        content = json.loads(unwrap_json(answer.text))
    except ValueError:
        return _withhold(answer, f"not JSON: the model answered {_shorten(answer.text)}")
    fields = content if isinstance(content, dict) else {}
    title, text, tags = (fields.get(name) for name in ("title", "text", "tags"))
    if not isinstance(title, str) or not isinstance(text, str):
        return _withhold(answer, "not of the schema: the answer holds no title or no text")
    named = tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    return Draft(title, text, named, answer.model, answer.tokens_in, answer.tokens_out)


def unwrap_json(text: str) -> str:
    """Give the JSON of an answer, out of the fence that some models put around it."""
    fenced = _FENCED.match(text)
    return fenced[1] if fenced else text


def _withhold(answer: Answer, reason: str) -> Draft:
    return Draft("", "", (), answer.model, answer.tokens_in, answer.tokens_out, reason)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…")
