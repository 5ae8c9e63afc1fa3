"""The protocol of embedders, the same for every provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Task = Literal["query", "document"]
Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors of one embedding space."""

    @property
    def id(self) -> str:
        """Name of the embedding space: provider, model, revision, width. Vectors of two spaces are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """Width of a vector."""
        ...

    @property
    def max_input_tokens(self) -> int:
        """Most tokens, by :meth:`count_tokens`, of a text that is embedded whole."""
        ...

    @property
    def default_min_similarity(self) -> float:
        """Threshold: cosine similarity below which a hit of this model is no evidence; 0 if its scale is not known."""
        ...

    @property
    def languages(self) -> tuple[str, ...] | None:
        """Languages that the model knows, ISO 639-1; None if it knows all or states none."""
        ...

    @property
    def default_query_tokens(self) -> int:
        """Tokens that a query chunk should reach; higher where a quota counts texts."""
        ...

    @property
    def workers(self) -> int:
        """Number of batches that may run at once."""
        ...

    @property
    def api_calls(self) -> int:
        """Requests sent to a service so far, retries included; 0 for a local model."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the tokens of each text, special tokens included; the count is never below the model's own.

        Args:
            texts: Any number of texts.

        Returns:
            One count per text, shape ``(len(texts),)``.
        """
        ...

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group texts into batches that :meth:`embed` takes at once.

        Returns:
            Positions of the texts, each exactly once, batch by batch.
        """
        ...

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        """Embed one batch.

        Args:
            texts: The texts of one batch; none over ``max_input_tokens``.
            task: Whether the texts are queries or documents.

        Returns:
            Unit rows, shape ``(len(texts), dimension)``, in the order of the texts.

        Raises:
            EmbeddingInputError: A text is over the limit.
            EmbeddingError: The model failed or returned unusable vectors.
        """
        ...
