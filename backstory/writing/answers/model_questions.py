"""What a chat model makes of a question before the documents are searched: its class, and one that stands alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from backstory.base.errors import BudgetExhaustedError, ModelError
from backstory.models.chat_model import (
    Answer,
    AnswerForm,
    ChatModel,
    CountedModel,
    Messages,
    PriceUsage,
    UnusableAnswerError,
    ask_until_usable,
)
from backstory.text.prompts.entries import cut_line
from backstory.writing.answers.answer import AskedQuestion, AskedRoute, Route, Turn
from backstory.writing.answers.answer_prompts import (
    make_question_form,
    make_route_form,
    read_question,
    read_route,
    write_condensing_prompt,
    write_repair_prompt,
    write_route_prompt,
)

_SHOWN_REASON: Final = 300

Result = TypeVar("Result")


class QuestionModel:
    """Asks a chat model about questions, from any thread."""

    def __init__(self, model: ChatModel, *, max_output_tokens: int, price: PriceUsage) -> None:
        """Set the model.

        Args:
            model: Answers the prompts.
            max_output_tokens: Most tokens that the model may write in one call.
            price: Estimates the price of what calls used.
        """
        self._model = model
        self._max_output_tokens = max_output_tokens
        self._price = price

    def route(self, question: str, by_rules: Callable[[str], Route]) -> AskedRoute:
        """Ask what a question asks for; the rules decide if the model cannot tell.

        Args:
            question: The question.
            by_rules: Tells the class without a model.
        """
        model = CountedModel(self._model)
        form = make_route_form(self._max_output_tokens)
        try:
            route = _ask(model, write_route_prompt(question), form, read_route)
        except (UnusableAnswerError, ModelError, BudgetExhaustedError) as error:
            ruled = by_rules(question)
            route = Route(ruled.kind, f"{ruled.reason} (by rules, since {_say(error)})")
        return AskedRoute(route, model.used.tokens, self._price(model.used))

    def condense(self, question: str, history: Sequence[Turn]) -> AskedQuestion:
        """Ask for a question that can be understood without its conversation.

        Args:
            question: The last question.
            history: What was asked and answered before, at least one turn.
        """
        model = CountedModel(self._model)
        form = make_question_form(self._max_output_tokens)
        condensed, note = None, None
        try:
            condensed = _ask(model, write_condensing_prompt(question, history), form, read_question)
        except (UnusableAnswerError, ModelError, BudgetExhaustedError) as error:
            note = f"the question was completed by rules, since {_say(error)}."
        return AskedQuestion(condensed, model.used.tokens, self._price(model.used), note)


def _ask(
    model: CountedModel, messages: Messages, form: AnswerForm, read: Callable[[Answer], Result]
) -> Result:
    return ask_until_usable(model.ask, messages, form, read, write_repair_prompt)


def _say(error: Exception) -> str:
    return f"the model gave no answer: {cut_line(str(error), _SHOWN_REASON)}"
