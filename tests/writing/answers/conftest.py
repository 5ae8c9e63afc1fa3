"""Answers by a model behind a loopback server, without waiting in real time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from backstory.base.errors import BudgetExhaustedError
from backstory.models.chat_model import ChatModel
from backstory.models.usage import Settle, Usage
from backstory.settings.writers import AnswerSettings
from backstory.writing.answers.model_answer import PASSAGE_TOKENS, ModelAnswerer
from backstory.writing.answers.model_questions import QuestionModel
from tests.models.services.chat_server import ChatServer

KEY = "sk-test-key-that-must-never-be-seen"


class Budget:
    """A meter that allows a number of calls, and adds up what they used."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.tokens = 0

    def require_room(self, needed: Usage) -> None:
        """Allow any calls; :meth:`reserve` counts them."""

    def reserve(self, most: Usage, *, seconds: float) -> Settle:  # noqa: ARG002
        if not self.left:
            raise BudgetExhaustedError("the budget of the day is used up")
        self.left -= 1
        return self._settle

    def _settle(self, used: Usage) -> None:
        self.tokens += used.tokens


@dataclass(frozen=True)
class Models:
    answerer: ModelAnswerer
    questions: QuestionModel
    budget: Budget


@pytest.fixture
def connect(chat: ChatServer, open_service: Callable[..., Any]) -> Callable[..., Models]:
    """Give a function that makes the models of answers, with a price of one per thousand tokens."""

    def make(*, calls: int = 100, passage_tokens: int = PASSAGE_TOKENS, **given: Any) -> Models:
        settings = AnswerSettings.model_validate(
            {"provider": "openai", "model": "tiny", "base_url": chat.url, "requests_per_minute": 10_000}
            | given
        )
        budget = Budget(calls)
        model = ChatModel(settings, open_service(settings, key=SecretStr(KEY), meter=budget))
        most = settings.max_output_tokens

        def price(used: Usage) -> float:
            return used.tokens / 1000

        answerer = ModelAnswerer(
            model,
            max_output_tokens=most,
            unsupported=settings.unsupported,
            price=price,
            passage_tokens=passage_tokens,
        )
        return Models(answerer, QuestionModel(model, max_output_tokens=most, price=price), budget)

    return make
