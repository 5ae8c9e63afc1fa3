"""An embedder without a model, for tests and dry runs: it compares words, not meanings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import regex
from numpy.typing import NDArray

from backstory.embeddings.batches import group_in_order
from backstory.embeddings.checks import require_text, require_within_limit
from backstory.embeddings.protocol import Task, Vectors

DIMENSION = 256
MAX_INPUT_TOKENS = 2048

_MAX_TEXTS = 256
_MAX_TOKENS = 100_000
# Scripts that are written without spaces give one word per character.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+")


class HashingEmbedder:
    """Counts words into signed hash buckets (feature hashing, Weinberger et al. 2009).

    Deterministic, the same on every machine and in every process. The id says what made the vectors, so that
    they are never taken for those of a model.
    """

    id = f"hashing:words:{DIMENSION}"
    dimension = DIMENSION
    max_input_tokens = MAX_INPUT_TOKENS
    default_min_similarity = 0.05
    default_query_tokens = 12  # words, which are fewer than the tokens of a model
    workers = 1
    api_calls = 0

    def __init__(self, *, languages: tuple[str, ...] | None = None) -> None:
        """Prepare nothing.

        Args:
            languages: What to state as the known languages, for dry runs; equal words are alike in every one.
        """
        self.languages = languages

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count words, at least one."""
        require_text(texts)
        return np.fromiter((max(1, len(_WORD.findall(text))) for text in texts), np.int64, len(texts))

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group neighbouring texts into batches of at most 256."""
        return group_in_order(token_counts, max_texts=_MAX_TEXTS, max_tokens=_MAX_TOKENS)

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:  # noqa: ARG002 - queries and documents are alike
        """Embed texts.

        Args:
            texts: Any number of texts.
            task: Makes no difference here.

        Returns:
            Unit rows, shape ``(len(texts), 256)``, in the order of the texts.

        Raises:
            EmbeddingInputError: A text is over ``max_input_tokens``.
        """
        require_within_limit(self.count_tokens(texts), MAX_INPUT_TOKENS, self.id)
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in _WORD.findall(text.casefold()):
                _add(row, word)
            if not row.any():
                _add(row, f"no words: {text}")
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


def _add(row: NDArray[np.float32], feature: str) -> None:
    value = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
    row[value % DIMENSION] += 1 if value >> 63 else -1
