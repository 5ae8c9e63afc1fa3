"""A chat model that counts what is asked of it, so that the tokens and the price of one question are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from backstory.models.chat.messages import Messages
from backstory.models.chat.model import Answer, AnswerForm, ChatModel
from backstory.models.services.meter import Usage

PriceUsage: TypeAlias = Callable[[Usage], float | None]
"""Returns the price of a usage of one model; None if its price is not known."""


class CountedModel:
    """Asks a chat model, and counts what its answers used. One thread has one."""

    def __init__(self, model: ChatModel) -> None:
        """Count from nothing."""
        self._model = model
        self.used = Usage()

    @property
    def id(self) -> str:
        """Service, model and temperature."""
        return self._model.id

    @property
    def api_calls(self) -> int:
        """Requests that the model sent so far, for whomever, retries included."""
        return self._model.api_calls

    def ask(self, messages: Messages, form: AnswerForm) -> Answer:
        """Send messages; see :class:`backstory.models.chat.model.ChatModel`."""
        answer = self._model.ask(messages, form)
        self.used = Usage(
            calls=self.used.calls + 1,
            tokens_in=self.used.tokens_in + answer.tokens_in,
            tokens_out=self.used.tokens_out + answer.tokens_out,
        )
        return answer
