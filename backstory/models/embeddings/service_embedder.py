"""Embedders behind services: OpenAI's API, as many servers speak it, and Gemini.

Neither the services nor their clients keep to all limits of a request or check the vectors; this module does both.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from backstory.base.addresses import name_service
from backstory.base.errors import InputError, ModelError, TransientError
from backstory.models.embeddings.protocol import (
    Task,
    Vectors,
    group_in_order,
    make_unit_rows,
    require_text,
    require_within_limit,
)
from backstory.models.failures import quote
from backstory.models.service import Service
from backstory.models.usage import Usage
from backstory.settings.embedding import EmbeddingSettings
from backstory.text.chunking.units import estimate_tokens, find_estimated_ends

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import EmbedContentResponse, HttpOptions

logger = logging.getLogger(__name__)

_HARMLESS: Final = "ok"
"""A text that every model takes."""
_SHOWN_CHARACTERS: Final = 40
_UNKNOWN_SCALE: Final = 0.0
_QUERY_TOKENS: Final = 24  # as for local models: no quota counts texts

_GEMINI_TOKENS: Final = 2048
_GEMINI_DIMENSION: Final = 768
_GEMINI_MIN_SIMILARITY: Final = 0.7  # the original design's threshold, chosen for this model
# The quota counts texts, so a window is cut into fewer, longer queries; docs/studies/defaults.md says what that costs.
_GEMINI_QUERY_TOKENS: Final = 100
_TASK_TYPES: Final[Mapping[Task, str]] = MappingProxyType(
    {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}
)


class ServiceEmbedder:
    """Calls OpenAI's ``/embeddings`` from any number of threads, within limits that they share.

    The scale of the model's similarities is not known, so its threshold is 0. The id of the space names where the model
    runs, its name, the prefixes, and the requested width.
    """

    # What servers of one's own accept as they are installed, and answer in time without a GPU.
    most_texts: ClassVar[int] = 32
    """Most texts of one request."""
    most_tokens: ClassVar[int] = 8192
    """Most tokens of one request."""

    def __init__(self, settings: EmbeddingSettings, service: Service | None = None) -> None:
        """Prepare calls by a service; None makes it from the settings and the key of the environment."""
        self.service = service or Service(settings)
        prefixes = settings.query_prefix, settings.document_prefix
        framed = hashlib.sha256("\0".join(prefixes).encode()).hexdigest()[:8] if any(prefixes) else "plain"
        width = settings.dimension or "own"
        self.id = f"openai:{name_service(self.service.address)}:{self.service.model}:{framed}:{width}"
        self.max_input_tokens = settings.input_limit
        self.default_min_similarity = _UNKNOWN_SCALE
        self.default_query_tokens = min(_QUERY_TOKENS, self.max_input_tokens // 2)
        self.languages = settings.languages
        self.workers = settings.threads
        self._prefixes: dict[Task, str] = {"query": prefixes[0], "document": prefixes[1]}
        self._longest_prefix = max(prefixes, key=len)
        self._requested_width = self._width = settings.dimension

    @property
    def dimension(self) -> int:
        """Width of a vector. If the settings name none, the first use of it requests one vector."""
        if self._width is None:
            [values] = self._ask([_HARMLESS], int(self.count_tokens([_HARMLESS])[0]))
            make_unit_rows([values], (1, len(values)), self.id)
            self._width = len(values)
        return self._width

    @property
    def api_calls(self) -> int:
        """Requests sent to the service so far, retries included."""
        return self.service.api_calls

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Estimate the tokens, since the model's tokenizer is not available here; the estimate errs upwards."""
        require_text(texts)
        return estimate_tokens([self._longest_prefix + text for text in texts])

    def find_token_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Estimate the end of each token; it is 0 for special tokens and those of the longer prefix."""
        prefix = self._longest_prefix
        found = find_estimated_ends([prefix + text for text in texts])
        return [np.maximum(ends - len(prefix), 0) for ends in found]

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group neighbouring texts into requests within the API's and the settings' limits."""
        return group_in_order(
            token_counts,
            max_texts=min(self.most_texts, self.service.units_per_minute),
            max_tokens=min(self.most_tokens, self.service.tokens_per_minute),
        )

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        """Embed texts, in as many requests as they need, one after another, in the order of the texts.

        An ``InputError`` means that a text is blank or too long; see :meth:`backstory.models.service.Service.post` for
        others.
        """
        counts = self.count_tokens(texts)
        require_within_limit(counts, self.max_input_tokens, self.id)
        blank = next((position for position, text in enumerate(texts) if not text.strip()), None)
        if blank is not None:
            raise InputError(
                f"text {blank} is blank, which {self.id} refuses; drop blank texts",
                code="blank_text",
            )
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for batch in self.plan_batches(counts):
            vectors[batch] = self._embed_batch([texts[at] for at in batch], counts[batch], task)
        return vectors

    def _request(self, texts: list[str], tokens: int, task: Task) -> Vectors:
        """Send one request, with the service's retries."""
        values = self._ask([self._prefixes[task] + text for text in texts], tokens)
        return make_unit_rows(values, (len(texts), self.dimension), self.id)

    def _ask(self, inputs: list[str], tokens: int) -> list[list[float]]:
        body: dict[str, Any] = {"model": self.service.model, "input": inputs}
        if self._requested_width is not None:
            body["dimensions"] = self._requested_width
        return self.service.post("/embeddings", body, self._read_values, most=Usage(1, len(inputs), tokens))

    def _read_values(self, answer: Mapping[str, Any]) -> list[list[float]]:
        """Read the vectors in the order of the texts, which the service states by numbers."""
        entries = answer.get("data")
        if not isinstance(entries, list) or not entries:
            raise TransientError("the answer holds no vectors")
        try:
            rows = {entry["index"]: [float(value) for value in entry["embedding"]] for entry in entries}
            return [rows[place] for place in range(len(entries))]
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"{self.id} answered with something else than a list of numbers for each `index` from 0",
                code="unusable_vectors",
            ) from error

    def _embed_batch(
        self, texts: list[str], counts: NDArray[np.int64], task: Task, *, is_part: bool = False
    ) -> Vectors:
        """Embed a batch. If it is refused, it is embedded in halves, down to the text that is refused alone."""
        try:
            return self._request(texts, int(counts.sum()), task)
        except ModelError as refusal:
            # If the service does not take a harmless text either, the texts are not to blame.
            if not refusal.blames_content or not (is_part or self._accepts(_HARMLESS, task)):
                raise
            if len(texts) == 1:
                begin = " ".join(texts[0].split())[:_SHOWN_CHARACTERS]
                error = ModelError(
                    f"{self.id} refuses the text of {len(texts[0])} characters that begins with {quote(begin)}, and "
                    f"takes others: {refusal}. Change the text, or leave its document or chat out",
                    code="refused_text",
                )
                error.text = texts[0]
                raise error from refusal
        logger.warning("%s refused %d texts together; they are sent in halves", self.id, len(texts))
        halves = np.split(np.arange(len(texts)), [len(texts) // 2])
        rows = [
            self._embed_batch([texts[at] for at in half], counts[half], task, is_part=True) for half in halves
        ]
        return np.concatenate(rows)

    def _accepts(self, text: str, task: Task) -> bool:
        try:
            self._request([text], int(self.count_tokens([text])[0]), task)
        except ModelError as error:
            if not error.blames_content:
                raise
            return False
        return True


class GeminiEmbedder(ServiceEmbedder):
    """Calls Gemini's embedding models, from any number of threads within limits that they share."""

    most_texts = 100
    most_tokens = 20_000

    def __init__(self, settings: EmbeddingSettings, service: Service | None = None) -> None:
        """Prepare calls; see :class:`ServiceEmbedder`. The first call loads the SDK."""
        super().__init__(settings, service)
        self._width = settings.dimension or _GEMINI_DIMENSION
        self.id = f"gemini:{self.service.model}:{self._width}"
        self.max_input_tokens = _GEMINI_TOKENS
        self.default_min_similarity = _GEMINI_MIN_SIMILARITY
        self.default_query_tokens = _GEMINI_QUERY_TOKENS
        self._longest_prefix = ""

    def _request(self, texts: list[str], tokens: int, task: Task) -> Vectors:
        def send(client: genai.Client, options: HttpOptions) -> EmbedContentResponse:
            from google.genai import types

            return client.models.embed_content(
                model=self.service.model,
                # One Content per text: some models merge a bare list of strings into a single vector.
                contents=[types.Content(role="user", parts=[types.Part(text=text)]) for text in texts],
                config=types.EmbedContentConfig(
                    task_type=_TASK_TYPES[task], output_dimensionality=self.dimension, http_options=options
                ),
            )

        def read(response: EmbedContentResponse) -> Vectors:
            if not response.embeddings:
                raise TransientError("the answer holds no vectors")
            values = [embedding.values or [] for embedding in response.embeddings]
            return make_unit_rows(values, (len(texts), self.dimension), self.id)

        return self.service.ask_gemini(send, read, most=Usage(1, len(texts), tokens))
