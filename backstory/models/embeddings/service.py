"""Base of the embedders of all services: requests within limits, and the text that caused a refusal."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import EmbeddingError, EmbeddingInputError
from backstory.models.embeddings.batches import group_in_order
from backstory.models.embeddings.checks import require_text, require_within_limit
from backstory.models.embeddings.protocol import Task, Vectors
from backstory.models.services.failures import quote
from backstory.text.chunking.tokens import estimate_tokens

if TYPE_CHECKING:  # its packages belong to the extras of the services
    from backstory.models.services.connection import ServiceConnection

logger = logging.getLogger(__name__)

HARMLESS = "ok"
"""A text that every model takes."""

_SHOWN_CHARACTERS = 40


class ServiceEmbedder(ABC):
    """Calls a service from any number of threads, within rate limits that they share.

    Attributes:
        id: Name of the embedding space.
        max_input_tokens: Most tokens of a text that is embedded whole.
        connection: Sends all requests.
    """

    id: str
    max_input_tokens: int
    connection: ServiceConnection[Any]
    most_texts: ClassVar[int]
    """Most texts of one request that the service takes."""
    most_tokens: ClassVar[int]
    """Most tokens of one request."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Width of a vector."""

    @property
    def api_calls(self) -> int:
        """Requests sent to the service so far, retries included."""
        return self.connection.api_calls

    @property
    def request_limits(self) -> tuple[int, int]:
        """Most texts and most tokens of one request, by the service and by the limits per minute."""
        return (
            min(self.most_texts, self.connection.units_per_minute),
            min(self.most_tokens, self.connection.tokens_per_minute),
        )

    @abstractmethod
    def _request(self, texts: list[str], tokens: int, task: Task) -> Vectors:
        """Send one request, with the service's retries.

        Raises:
            EmbeddingError: There was no usable answer; ``blames_content`` if a part of the texts may be accepted.
        """

    def _frame(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts as they are sent, for counting; the longest form if there are several."""
        return texts

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Estimate the tokens, since the model's tokenizer is not available here; the estimate errs upwards."""
        require_text(texts)
        return estimate_tokens(self._frame(texts))

    def count_accepted_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the tokens of texts that are about to be sent.

        Raises:
            EmbeddingInputError: A text is blank or over ``max_input_tokens``.
        """
        counts = self.count_tokens(texts)
        require_within_limit(counts, self.max_input_tokens, self.id)
        blank = next((position for position, text in enumerate(texts) if not text.strip()), None)
        if blank is not None:
            raise EmbeddingInputError(
                f"text {blank} is blank, which {self.id} refuses; drop blank texts",
                code="blank_text",
                text=blank,
            )
        return counts

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group neighbouring texts into requests within the API's and the settings' limits."""
        max_texts, max_tokens = self.request_limits
        return group_in_order(token_counts, max_texts=max_texts, max_tokens=max_tokens)

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        """Embed texts, in as many requests as they need, one after another.

        Args:
            texts: Any number of texts, none of them blank.
            task: Whether the texts are queries or documents.

        Returns:
            Unit rows, shape ``(len(texts), dimension)``, in the order of the texts.

        Raises:
            EmbeddingInputError: A text is blank or over ``max_input_tokens``, or the service refuses it.
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A daily quota is used up.
            BudgetExhaustedError: The next call would exceed a budget.
            EmbeddingError: No attempt returned usable vectors.
        """
        counts = self.count_accepted_tokens(texts)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for batch in self.plan_batches(counts):
            vectors[batch] = self._embed_batch([texts[at] for at in batch], counts[batch], task)
        return vectors

    def _embed_batch(self, texts: list[str], counts: NDArray[np.int64], task: Task) -> Vectors:
        try:
            return self._request(texts, int(counts.sum()), task)
        except EmbeddingError as refusal:
            if not refusal.blames_content or not self._accepts_anything(task):
                raise
            return self._split(texts, counts, task, refusal)

    def _accepts_anything(self, task: Task) -> bool:
        """Return whether the service takes a harmless text; if it does not, the texts are not to blame."""
        try:
            self._request([HARMLESS], int(self.count_tokens([HARMLESS])[0]), task)
        except EmbeddingError as error:
            if not error.blames_content:
                raise
            return False
        return True

    def _split(
        self, texts: list[str], counts: NDArray[np.int64], task: Task, refusal: EmbeddingError
    ) -> Vectors:
        """Embed refused texts in halves, down to the one that is refused alone."""
        if len(texts) == 1:
            begin = " ".join(texts[0].split())[:_SHOWN_CHARACTERS]
            error = EmbeddingInputError(
                f"{self.id} refuses the text of {len(texts[0])} characters that begins with {quote(begin)}, and takes "
                f"others: {refusal}. Change the text, or leave its document or chat out",
                code="refused_text",
                characters=len(texts[0]),
                **refusal.values,
            )
            error.text = texts[0]
            raise error from refusal
        logger.warning("%s refused %d texts together; they are sent in halves", self.id, len(texts))
        half = len(texts) // 2
        return np.concatenate(
            [
                self._embed_part(part, part_counts, task)
                for part, part_counts in ((texts[:half], counts[:half]), (texts[half:], counts[half:]))
            ]
        )

    def _embed_part(self, texts: list[str], counts: NDArray[np.int64], task: Task) -> Vectors:
        try:
            return self._request(texts, int(counts.sum()), task)
        except EmbeddingError as refusal:
            if not refusal.blames_content:
                raise
            return self._split(texts, counts, task, refusal)
