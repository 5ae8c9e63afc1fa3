"""A language model as a reranker: one call per window, answered with topics and a rating per topic and candidate."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from backstory.chunking.tokens import estimate_tokens
from backstory.providers.metering import CallMeter, Usage
from backstory.rerankers.protocol import RATING, Judgements, RerankRequest
from backstory.rerankers.rating import (
    INSTRUCTION,
    PROMPT_VERSION,
    RatingModel,
    UnusableAnswerError,
    read_judgements,
    write_prompt,
)

_ATTEMPTS: Final = 2
"""Times that a window is asked about until the answer is usable; a model seldom errs twice in the same way."""


class LanguageModelReranker:
    """Asks a model about windows, from several threads."""

    def __init__(self, model: RatingModel, *, threads: int, meter: CallMeter) -> None:
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

        An answer that is broken or not complete is asked for once more.

        Args:
            requests: One request per window.

        Returns:
            One result per request, in the same order. If no answer is usable, the result holds a note with the reason.

        Raises:
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A daily quota is used up.
            BudgetExhaustedError: The calls would exceed a budget; usually none of them was sent.
            RerankError: No attempt was answered, or the service refused the request.
        """
        prompts = [write_prompt(request) for request in requests]
        tokens = [int(estimate_tokens([INSTRUCTION, prompt]).sum()) for prompt in prompts]
        # Else the budget would end among the calls, and those that were answered would be paid for in vain.
        self._meter.require_room(Usage(len(requests), len(requests), sum(tokens)))
        with ThreadPoolExecutor(max_workers=self._threads, thread_name_prefix="reranking") as pool:
            answers = [
                pool.submit(self._judge_window, *asked)
                for asked in zip(requests, prompts, tokens, strict=True)
            ]
            try:
                return [answer.result() for answer in answers]
            finally:
                # After a failure no further call is started; the executor waits for the running calls.
                pool.shutdown(wait=False, cancel_futures=True)

    def _judge_window(self, request: RerankRequest, prompt: str, tokens: int) -> Judgements:
        reason = ""
        for _ in range(_ATTEMPTS):
            reply = self._model.ask(prompt, tokens)
            if reply.withheld is not None:
                reason = reply.withheld
                break
            try:
                return read_judgements(reply.text, request)
            except UnusableAnswerError as error:
                reason = str(error)
        return Judgements.withheld(len(request.candidates), RATING, reason)
