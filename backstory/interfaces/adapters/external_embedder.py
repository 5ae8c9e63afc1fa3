"""A model that a program hands over, as an embedder with an identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backstory.interfaces.adapters.rag_config import BaseEmbeddingProvider
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import (
    Embedder,
    Task,
    Vectors,
    group_in_order,
    make_unit_rows,
    require_text,
    require_within_limit,
)
from backstory.text.chunking.units import estimate_tokens, find_estimated_ends

_TEXTS_AT_ONCE: Final = 64
_TOKENS_AT_ONCE: Final = 100_000
_QUERY_TOKENS: Final = 150
_HARMLESS: Final = "width"


class ExternalEmbedder:
    """Calls a provider, checks its vectors, and gives them length 1.

    Tokens are estimated, since a provider does not count them. The scale of its similarities is not known, so the
    threshold is 0.
    """

    default_min_similarity = 0.0
    languages: tuple[str, ...] | None = None
    workers = 1

    def __init__(self, provider: BaseEmbeddingProvider) -> None:
        """Wrap a provider, without a call of it yet.

        Args:
            provider: The model.
        """
        self._provider = provider
        self._width: int | None = None
        self.id = f"given:{provider.identity}"
        self.max_input_tokens = provider.max_input_tokens
        self.default_query_tokens = min(_QUERY_TOKENS, self.max_input_tokens // 2)
        self.api_calls = 0

    @property
    def dimension(self) -> int:
        """Width of a vector, which one call of the provider measures."""
        if self._width is None:
            [values] = self._call([_HARMLESS])
            make_unit_rows([values], (1, len(values)), self.id)
            self._width = len(values)
        return self._width

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return a conservative (high) token estimate per text, shape ``(len(texts),)``."""
        require_text(texts)
        return estimate_tokens(texts)

    def find_token_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Estimate the end of each token of each text."""
        return find_estimated_ends(texts)

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group neighbouring texts into batches of at most 64."""
        return group_in_order(token_counts, max_texts=_TEXTS_AT_ONCE, max_tokens=_TOKENS_AT_ONCE)

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:  # noqa: ARG002 - a provider does not tell them apart
        """Embed one batch; the provider gets every text whole.

        Args:
            texts: The texts.
            task: Ignored: queries and documents are embedded alike.

        Returns:
            Unit rows, shape ``(len(texts), dimension)``.

        Raises:
            InputError: A text is over ``max_input_tokens``.
            ModelError: The provider gave unusable vectors.
        """
        require_within_limit(self.count_tokens(texts), self.max_input_tokens, self.id)
        values = self._call(list(texts))
        return make_unit_rows(values, (len(texts), self.dimension), self.id)

    def _call(self, texts: list[str]) -> list[list[float]]:
        self.api_calls += 1
        return [[float(value) for value in row] for row in self._provider.embed(texts)]


class EmbedderProvider(BaseEmbeddingProvider):
    """An embedder of the settings, as a provider."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def identity(self) -> str:
        """Name of the embedding space."""
        return self._embedder.id

    def embed(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Return a vector of length 1 for each text, as documents have it."""
        vectors: list[list[float]] = embed_texts(
            self._embedder, texts, task="document", cache=None
        ).vectors.tolist()
        return vectors
