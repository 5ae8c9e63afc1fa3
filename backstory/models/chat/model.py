"""The interface of chat models, for writers, rerankers, summaries and answers: messages and a form make an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from backstory.models.chat.messages import Messages
from backstory.models.services.connection import CallSettings
from backstory.models.services.meter import Usage

_ATTEMPTS: Final = 2
"""Attempts until an answer is usable; a model seldom errs twice in the same way."""
_FENCED: Final = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n```\s*\Z", re.DOTALL)

Result = TypeVar("Result")


@dataclass(frozen=True)
class AnswerForm:
    """The JSON that a model is to answer with.

    Attributes:
        name: What the JSON is, one word.
        schema: JSON schema of an answer.
        max_output_tokens: Most tokens that the model may write, its thoughts included.
        cut_advice: What a person can do about an answer that was cut; may be empty.
    """

    name: str
    schema: Mapping[str, Any]
    max_output_tokens: int
    cut_advice: str = ""

    def limit_usage(self, messages: Messages) -> Usage:
        """Return the most that one call uses: the estimated tokens of its messages, and all that may be written."""
        return Usage(1, 1, messages.estimate_tokens(), self.max_output_tokens)


@dataclass(frozen=True)
class Withheld:
    """Reason why a service gave no answer, or only a part of one.

    Attributes:
        reason: Short, without the model's own words: ``blocked (SAFETY)``, ``cut (length)``, or ``refused``.
        detail: The words of a refusal, or the advice of the form for an answer that was cut; may be empty.
    """

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


@dataclass(frozen=True)
class Answer:
    """What a model answered.

    Attributes:
        text: Its text, which should be JSON of the form.
        model: The model, as the service names it.
        tokens_in: Tokens that it read.
        tokens_out: Tokens that it wrote, its thoughts included.
        withheld: Why there is no text, or only a part of one; None if it is whole.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    withheld: Withheld | None = None


class UnusableAnswerError(Exception):
    """An answer was withheld, or is not of the form.

    Attributes:
        reason: Short, without the model's own words.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(str(Withheld(reason, detail)))
        self.reason = reason


class ChatModelSettings(CallSettings, Protocol):
    """The settings that a chat model needs, whatever calls it."""

    @property
    def provider(self) -> str:
        """The service: ``gemini`` or ``openai``."""

    @property
    def paid_model(self) -> str | None:
        """Name of the model at its service."""

    @property
    def requests_per_minute(self) -> int | None:
        """Most requests per minute; None for the service's default."""

    @property
    def temperature(self) -> float | None:
        """Randomness of the model; None for its own default."""


class ChatModel(Protocol):
    """Sends messages to a model.

    Attributes:
        id: Service, model and temperature; together with messages and form, everything that decides the answer.
    """

    @property
    def id(self) -> str:
        """Service, model and temperature."""

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""

    def ask(self, messages: Messages, form: AnswerForm) -> Answer:
        """Send messages, from any thread.

        Args:
            messages: The instructions and the material.
            form: The JSON to answer with.

        Raises:
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A quota or the credit is used up.
            BudgetExhaustedError: The call would exceed a budget.
            ModelError: The service gave no answer, or refused the request. The type is that of the stage.
        """


Repair: TypeAlias = Callable[[Messages, Answer, str], Messages]
"""Makes of the messages, the answer that cannot be read and the reason the messages that ask once more."""


def ask_until_usable(
    model: ChatModel,
    messages: Messages,
    form: AnswerForm,
    read: Callable[[Answer], Result],
    repair: Repair | None = None,
) -> Result:
    """Ask a model, and once more if its answer cannot be read.

    Args:
        model: The model.
        messages: The instructions and the material.
        form: The JSON to answer with.
        read: Reads the result from a whole answer, or raises :class:`UnusableAnswerError`.
        repair: Makes the messages that ask once more; None for the same messages.

    Raises:
        UnusableAnswerError: The service withheld the answer, which is not requested again, or no answer could be read.
        ModelError: As in :meth:`ChatModel.ask`.
    """
    attempts_left = _ATTEMPTS
    while True:
        attempts_left -= 1
        answer = model.ask(messages, form)
        if answer.withheld is not None:
            raise UnusableAnswerError(answer.withheld.reason, answer.withheld.detail)
        try:
            return read(answer)
        except UnusableAnswerError as error:
            if not attempts_left:
                raise
            if repair is not None:
                messages = repair(messages, answer, str(error))


def parse_answer(text: str) -> Any:
    """Parse the JSON of an answer, also inside the fence that some models put around it.

    Raises:
        ValueError: The text is not JSON, or nested too deeply.
    """
    fenced = _FENCED.match(text)
    try:
        return json.loads(fenced[1] if fenced else text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
