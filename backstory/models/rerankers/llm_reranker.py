"""A language model as a reranker: one call per window, answered with topics and a rating per topic and candidate."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from backstory.models.chat_model import Answer, ChatModel, Messages, UnusableAnswerError, ask_until_usable
from backstory.models.rerankers.llm_scoring import (
    INSTRUCTION,
    PROMPT_VERSION,
    RATINGS_FORM,
    read_judgements,
    write_prompt,
)
from backstory.models.rerankers.protocol import RATING, Judgements, RerankRequest
from backstory.models.services.meter import CallMeter, Usage


class LLMReranker:
    """Asks a model about windows, from several threads."""

    def __init__(self, model: ChatModel, *, threads: int, meter: CallMeter) -> None:
        """Set the model.

        Args:
            model: Answers the prompts.
            threads: Most calls at once.
            meter: Keeps the calls within budgets.
        """
        self._model = model
        self._threads = threads
        self._meter = meter
        self.id = f"{model.id}:prompt{PROMPT_VERSION}"

    @property
    def api_calls(self) -> int:
        """Requests sent to the service so far, retries included."""
        return self._model.api_calls

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        """Judge the candidates of any number of windows, with one call per window.

        An answer that is broken or not complete is requested once more.

        Returns:
            One result per request, in the same order. If no answer is usable, the result holds a note with the reason.

        Raises:
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A daily quota is used up.
            BudgetExhaustedError: The calls would exceed a budget; usually none of them was sent.
            ModelError: No attempt was answered, or the service refused the request.
        """
        prompts = [Messages(INSTRUCTION, write_prompt(request)) for request in requests]
        tokens = sum(messages.estimate_tokens() for messages in prompts)
        # Else the budget would end among the calls, and those that were answered would be paid for in vain.
        self._meter.require_room(Usage(len(requests), len(requests), tokens))
        with ThreadPoolExecutor(max_workers=self._threads, thread_name_prefix="reranking") as pool:
            answers = [
                pool.submit(self._judge_window, request, messages)
                for request, messages in zip(requests, prompts, strict=True)
            ]
            try:
                return [answer.result() for answer in answers]
            finally:
                # After a failure no further call is started; the executor waits for the running calls.
                pool.shutdown(wait=False, cancel_futures=True)

    def _judge_window(self, request: RerankRequest, messages: Messages) -> Judgements:
        def read(answer: Answer) -> Judgements:
            return read_judgements(answer.text, request)

        try:
            return ask_until_usable(self._model.ask, messages, RATINGS_FORM, read)
        except UnusableAnswerError as error:
            return Judgements.withheld(len(request.candidates), RATING, error.reason)
