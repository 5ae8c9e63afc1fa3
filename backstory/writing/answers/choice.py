"""The models that answer questions, as the settings name them."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.base.environment import Keys
from backstory.models.chat_model import ChatModel, PriceUsage
from backstory.models.reranker import Reranker
from backstory.models.service import Service
from backstory.models.usage import CallMeter
from backstory.settings.writers import AnswerSettings
from backstory.writing.answers.model_answer import ModelAnswerer
from backstory.writing.answers.model_questions import QuestionModel


@dataclass(frozen=True)
class AnswerModels:
    """One chat model in both its uses.

    Attributes:
        answerer: Answers questions from passages.
        questions: Completes follow-ups, and tells what a question asks for.
        routes: Whether the settings want it to tell what a question asks for.
    """

    answerer: ModelAnswerer
    questions: QuestionModel
    routes: bool


def make_answer_models(
    settings: AnswerSettings,
    meter: CallMeter,
    price: PriceUsage,
    keys: Keys | None = None,
    reranker: Reranker | None = None,
) -> AnswerModels:
    """Make the models of settings that name a service.

    Args:
        settings: The provider, a service, with its model and its limits.
        meter: Counts what calls of a service use, within budgets.
        price: Estimates the price of what calls used.
        keys: The keys of the workspace; None for those of the environment.
        reranker: Judges statements in other words than the documents; None without one.

    Raises:
        MissingExtraError: The packages of the provider are not installed.
    """
    model = ChatModel(settings, Service(settings, meter=meter, keys=keys))
    most = settings.max_output_tokens
    return AnswerModels(
        ModelAnswerer(
            model,
            max_output_tokens=most,
            unsupported=settings.unsupported,
            price=price,
            reranker=reranker,
        ),
        QuestionModel(model, max_output_tokens=most, price=price),
        settings.router == "model",
    )
