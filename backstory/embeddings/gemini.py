"""Gemini's embedding models, through the google-genai SDK.

The SDK neither limits the texts of a request nor checks the vectors; this module does both. Time-outs, retries
and rate limits are in :mod:`backstory.providers.gemini_client`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from backstory.chunking.tokens import estimate_tokens
from backstory.embeddings.batches import group_in_order
from backstory.embeddings.checks import require_text, require_within_limit
from backstory.embeddings.protocol import Task, Vectors
from backstory.errors import EmbeddingError, EmbeddingInputError
from backstory.providers.failures import TransientError
from backstory.providers.gemini_client import GeminiAccess, GeminiConnection
from backstory.providers.metering import Usage
from backstory.settings import EmbeddingSettings

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import EmbedContentResponse, HttpOptions

MAX_TEXTS = 100
MAX_BATCH_TOKENS = 20_000
MAX_INPUT_TOKENS = 2048

_MIN_SIMILARITY = 0.7  # the original design's threshold, chosen for this model
# The quota counts texts, so a window is cut into fewer, longer queries; docs/quality.md says what that costs.
_QUERY_TOKENS = 100
TASK_TYPES: dict[Task, str] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}


class GeminiEmbedder:
    """Calls the Gemini API from any number of threads, within rate limits that they share.

    Attributes:
        model: Name of the model, without ``models/``.
        connection: Sends all requests.
    """

    def __init__(
        self,
        settings: EmbeddingSettings,
        *,
        access: GeminiAccess = GeminiAccess(),  # noqa: B008 - immutable
    ) -> None:
        """Prepare calls. The first call reads the key and loads the SDK.

        Args:
            settings: Model, width, limits, time-out and number of attempts.
            access: Key or client, shared limits, and time.
        """
        self._settings = settings
        self.model = settings.model.removeprefix("models/")
        self.dimension = settings.dimension
        self.id = f"gemini:{self.model}:{self.dimension}"
        self.max_input_tokens = MAX_INPUT_TOKENS
        self.default_min_similarity = _MIN_SIMILARITY
        self.languages = settings.languages
        self.default_query_tokens = _QUERY_TOKENS
        self.workers = settings.threads
        self.connection = GeminiConnection(
            settings,
            model=self.model,
            units_per_minute=settings.texts_per_minute,
            failure=EmbeddingError,
            access=access,
        )

    @property
    def api_calls(self) -> int:
        """Requests sent to the service so far, retries included."""
        return self.connection.api_calls

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Estimate the tokens, since the model's tokenizer is not available here; the estimate errs upwards."""
        require_text(texts)
        return estimate_tokens(texts)

    def count_accepted_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the tokens of texts that are about to be sent.

        Raises:
            EmbeddingInputError: A text is blank or over ``max_input_tokens``.
        """
        counts = self.count_tokens(texts)
        require_within_limit(counts, MAX_INPUT_TOKENS, self.id)
        blank = next((position for position, text in enumerate(texts) if not text.strip()), None)
        if blank is not None:
            raise EmbeddingInputError(f"text {blank} is blank, which {self.id} refuses; drop blank texts")
        return counts

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group neighbouring texts into requests within the API's and the settings' limits."""
        return group_in_order(
            token_counts,
            max_texts=min(MAX_TEXTS, self._settings.texts_per_minute),
            max_tokens=min(MAX_BATCH_TOKENS, self._settings.tokens_per_minute),
        )

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        """Embed texts, in as many requests as they need, one after another.

        Args:
            texts: Any number of texts, none of them blank.
            task: Whether the texts are queries or documents.

        Returns:
            Unit rows, shape ``(len(texts), dimension)``, in the order of the texts.

        Raises:
            EmbeddingInputError: A text is blank or over ``max_input_tokens``.
            AuthenticationError: There is no key, or it was refused.
            QuotaExhaustedError: A daily quota is used up.
            BudgetExhaustedError: The next call would exceed a budget.
            EmbeddingError: No attempt returned usable vectors.
        """
        counts = self.count_accepted_tokens(texts)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for batch in self.plan_batches(counts):
            vectors[batch] = self._embed_batch([texts[at] for at in batch], int(counts[batch].sum()), task)
        return vectors

    def _embed_batch(self, texts: list[str], tokens: int, task: Task) -> Vectors:
        def send(client: genai.Client, options: HttpOptions) -> EmbedContentResponse:
            from google.genai import types

            return client.models.embed_content(
                model=self.model,
                # One Content per text: some models merge a bare list of strings into a single vector.
                contents=[types.Content(role="user", parts=[types.Part(text=text)]) for text in texts],
                config=types.EmbedContentConfig(
                    task_type=TASK_TYPES[task],
                    output_dimensionality=self.dimension,
                    http_options=options,
                ),
            )

        def read(response: EmbedContentResponse) -> Vectors:
            return self._read_vectors(response, len(texts))

        return self.connection.call(
            send, read, units=len(texts), tokens=tokens, most=Usage(1, len(texts), tokens)
        )

    def _read_vectors(self, response: EmbedContentResponse, count: int) -> Vectors:
        if not response.embeddings:
            raise TransientError("the answer holds no vectors")
        values = [embedding.values or [] for embedding in response.embeddings]
        return make_unit_rows(values, (count, self.dimension), self.id)


def make_unit_rows(values: Sequence[Sequence[float]], shape: tuple[int, int], embedder_id: str) -> Vectors:
    """Check the vectors of an answer, and give them length 1.

    Args:
        values: The numbers of each vector.
        shape: Number and width that they must have.
        embedder_id: Names the model in the message.

    Returns:
        Unit rows of that shape.

    Raises:
        EmbeddingError: Number or width differs, or a vector is zero or holds a number that is not finite.
    """
    count, dimension = shape
    widths = sorted({len(row) for row in values})
    if len(values) != count or widths != [dimension]:
        raise EmbeddingError(
            f"{embedder_id} answered {count} texts with {len(values)} vectors of width "
            f"{' and '.join(map(str, widths))} instead of {count} of width {dimension}"
        )
    rows = np.array(values, np.float64)
    norms = np.linalg.norm(rows, axis=1)
    unusable = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if len(unusable):
        raise EmbeddingError(
            f"{embedder_id} answered {len(unusable)} of {count} texts with vectors that are zero or not "
            f"finite; the first is text {unusable[0]} of the request"
        )
    vectors: Vectors = (rows / norms[:, None]).astype(np.float32)
    return vectors
