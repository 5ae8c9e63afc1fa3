"""An embedder without a model, for tests and dry runs: it compares words, not meaning."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import regex
from numpy.typing import NDArray

from backstory.models.embeddings.protocol import (
    Task,
    Vectors,
    count_at_least,
    group_in_order,
    part_long_tokens,
    require_text,
    require_within_limit,
)

DIMENSION = 256
MAX_INPUT_TOKENS = 2048

_MAX_TEXTS = 256
_MAX_TOKENS = 100_000
# In scripts without spaces, each character counts as one word.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
# A difference of sets, since looking ahead at each character takes a hundred times the memory of a long run.
_WORD = regex.compile(rf"[{_UNSPACED}]|[\w--[{_UNSPACED}]]++", regex.VERSION1)


class HashingEmbedder:
    """Counts words into signed hash buckets (feature hashing, Weinberger et al. 2009), as its id says."""

    id = f"hashing:words:{DIMENSION}"
    dimension = DIMENSION
    max_input_tokens = MAX_INPUT_TOKENS
    default_min_similarity = 0.05
    default_query_tokens = 12  # words, which are fewer than the tokens of a model
    workers = 1
    api_calls = 0

    def __init__(self, *, languages: tuple[str, ...] | None = None) -> None:
        """Set the languages to state as known; None for all. The vectors do not depend on them."""
        self.languages = languages

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the words of each text; a text without words counts as one, a very long word as several."""
        require_text(texts)
        # Replacing counts the words without a list of them.
        words = np.fromiter((max(1, _WORD.subn("", text)[1]) for text in texts), np.int64, len(texts))
        return np.maximum(words, count_at_least(texts))

    def find_token_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Find the end of each word of each text; a very long word has several."""
        require_text(texts)
        words = (np.fromiter((word.end() for word in _WORD.finditer(text)), np.int64) for text in texts)
        return [part_long_tokens(ends) for ends in words]

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group neighbouring texts into batches of at most 256 texts."""
        return group_in_order(token_counts, max_texts=_MAX_TEXTS, max_tokens=_MAX_TOKENS)

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:  # noqa: ARG002 - queries and documents get the same vectors
        """Embed texts; queries and documents get the same vectors."""
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
