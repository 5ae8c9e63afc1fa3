"""Models behind OpenAI's embeddings API: OpenAI itself, Ollama, vLLM, LM Studio, Text Embeddings Inference."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from backstory.base.addresses import OPENAI_ADDRESS, name_service
from backstory.base.errors import EmbeddingError
from backstory.base.retry import TransientError
from backstory.models.embeddings.checks import make_unit_rows
from backstory.models.embeddings.protocol import Task, Vectors
from backstory.models.embeddings.service import HARMLESS, ServiceEmbedder
from backstory.models.services.connection import EMBEDDING, ServiceAccess
from backstory.models.services.meter import Usage
from backstory.models.services.openai import OpenAIConnection
from backstory.settings.embedding import EmbeddingSettings

# What servers of one's own accept as they are installed, and answer in time without a GPU.

_UNKNOWN_SCALE = 0.0
_QUERY_TOKENS = 24  # as for local models: no quota counts texts
_OWN_WIDTH = "own"


class OpenAIEmbedder(ServiceEmbedder):
    """Calls ``/embeddings`` from any number of threads, within rate limits that they share.

    The scale of the model's similarities is not known, so its threshold is 0.
    """

    connection: OpenAIConnection
    most_texts = 32
    most_tokens = 8192

    def __init__(
        self,
        settings: EmbeddingSettings,
        *,
        access: ServiceAccess,
    ) -> None:
        """Prepare calls. The first call reads the key.

        Args:
            settings: Model, address, width, prefixes and limits.
            access: Key, shared limits, meter and time.
        """
        self._settings = settings
        self._model = settings.paid_model or ""
        self._width = settings.dimension
        self._prefixes: dict[Task, str] = {
            "query": settings.query_prefix,
            "document": settings.document_prefix,
        }
        self._longest_prefix = max(self._prefixes.values(), key=len)
        self.id = _name_space(settings, self._model)
        self.max_input_tokens = settings.input_limit
        self.default_min_similarity = _UNKNOWN_SCALE
        self.languages = settings.languages
        self.default_query_tokens = min(_QUERY_TOKENS, self.max_input_tokens // 2)
        self.workers = settings.threads
        self.connection = OpenAIConnection(
            settings,
            model=self._model,
            units_per_minute=settings.texts_per_minute,
            stage=EMBEDDING,
            access=access,
        )

    @property
    def dimension(self) -> int:
        """Width of a vector. If the settings name none, the first use of it requests one vector."""
        if self._width is None:
            [values] = self._ask([HARMLESS], int(self.count_tokens([HARMLESS])[0]))
            make_unit_rows([values], (1, len(values)), self.id)
            self._width = len(values)
        return self._width

    def _frame(self, texts: Sequence[str]) -> Sequence[str]:
        return [self._longest_prefix + text for text in texts] if self._longest_prefix else texts

    def _request(self, texts: list[str], tokens: int, task: Task) -> Vectors:
        values = self._ask([self._prefixes[task] + text for text in texts], tokens)
        return make_unit_rows(values, (len(texts), self.dimension), self.id)

    def _ask(self, inputs: list[str], tokens: int) -> list[list[float]]:
        body: dict[str, Any] = {"model": self._model, "input": inputs}
        if self._settings.dimension is not None:
            body["dimensions"] = self._settings.dimension
        most = Usage(1, len(inputs), tokens)
        return self.connection.post(
            "/embeddings", body, self._read_vectors, units=len(inputs), tokens=tokens, most=most
        )

    def _read_vectors(self, answer: Mapping[str, Any]) -> list[list[float]]:
        """Read the vectors in the order of the texts, which the service states by numbers."""
        entries = answer.get("data")
        if not isinstance(entries, list) or not entries:
            raise TransientError("the answer holds no vectors")
        by_index = {
            entry.get("index"): entry.get("embedding") for entry in entries if isinstance(entry, Mapping)
        }
        if sorted(by_index, key=str) != sorted(range(len(entries)), key=str):
            raise EmbeddingError(
                f"{self.id} answered with vectors whose `index` does not count from 0",
                code="wrong_order",
                embedder=self.id,
            )
        vectors = [by_index[index] for index in range(len(entries))]
        return [_read_numbers(values, self.id) for values in vectors]


def _read_numbers(values: object, embedder_id: str) -> list[float]:
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise EmbeddingError(
            f"{embedder_id} answered with an embedding that is no list of numbers",
            code="no_numbers",
            embedder=embedder_id,
        )
    return values


def _name_space(settings: EmbeddingSettings, model: str) -> str:
    """Name what decides the vectors: where the model runs, its name, the prefixes, and the requested width."""
    service = name_service(settings.base_url or OPENAI_ADDRESS)
    prefixes = [settings.query_prefix, settings.document_prefix]
    framed = hashlib.sha256("\0".join(prefixes).encode()).hexdigest()[:8] if any(prefixes) else "plain"
    width = settings.dimension or _OWN_WIDTH
    return f"openai:{service}:{model}:{framed}:{width}"
