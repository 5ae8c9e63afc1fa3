"""Gemini's embedding models, through the google-genai SDK.

The SDK neither limits the texts of a request nor checks the vectors; this module does both. Time-outs, retries
and rate limits are in :mod:`backstory.models.services.gemini`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.base.retry import TransientError
from backstory.models.embeddings.checks import make_unit_rows
from backstory.models.embeddings.protocol import Task, Vectors
from backstory.models.embeddings.service import ServiceEmbedder
from backstory.models.services.connection import EMBEDDING
from backstory.models.services.gemini import GeminiAccess, GeminiConnection, TimedClient
from backstory.models.services.meter import Usage
from backstory.settings.embedding import EmbeddingSettings

if TYPE_CHECKING:
    from google.genai.types import EmbedContentResponse

MAX_INPUT_TOKENS = 2048

_DIMENSION = 768
_MIN_SIMILARITY = 0.7  # the original design's threshold, chosen for this model
# The quota counts texts, so a window is cut into fewer, longer queries; docs/studies/defaults.md says what that costs.
_QUERY_TOKENS = 100
TASK_TYPES: dict[Task, str] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}


class GeminiEmbedder(ServiceEmbedder):
    """Calls the Gemini API from any number of threads, within rate limits that they share.

    Attributes:
        model: Name of the model, without ``models/``.
        connection: Sends all requests.
    """

    connection: GeminiConnection
    most_texts = 100
    most_tokens = 20_000

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
        self.model = (settings.paid_model or "").removeprefix("models/")
        self._dimension = settings.dimension or _DIMENSION
        self.id = f"gemini:{self.model}:{self._dimension}"
        self.max_input_tokens = MAX_INPUT_TOKENS
        self.default_min_similarity = _MIN_SIMILARITY
        self.languages = settings.languages
        self.default_query_tokens = _QUERY_TOKENS
        self.workers = settings.threads
        self.connection = GeminiConnection(
            settings,
            model=self.model,
            units_per_minute=settings.texts_per_minute,
            stage=EMBEDDING,
            access=access,
        )

    @property
    def dimension(self) -> int:
        """Width of a vector."""
        return self._dimension

    def _request(self, texts: list[str], tokens: int, task: Task) -> Vectors:
        def send(timed: TimedClient) -> EmbedContentResponse:
            from google.genai import types

            return timed.client.models.embed_content(
                model=self.model,
                # One Content per text: some models merge a bare list of strings into a single vector.
                contents=[types.Content(role="user", parts=[types.Part(text=text)]) for text in texts],
                config=types.EmbedContentConfig(
                    task_type=TASK_TYPES[task],
                    output_dimensionality=self.dimension,
                    http_options=timed.options,
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
