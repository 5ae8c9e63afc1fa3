"""Checks of every embedder's inputs and vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import EmbeddingError, EmbeddingInputError
from backstory.models.embeddings.protocol import Vectors

_UNIT_TOLERANCE = 1e-3
# Words and symbols of any language have fewer on average.
_CHARACTERS_PER_TOKEN = 100


def require_text(texts: Sequence[str]) -> None:
    """Refuse what no tokenizer and no API accepts: values that are no strings, and halves of surrogate pairs."""
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise EmbeddingInputError(
                f"text {position} is of type {type(text).__name__}; pass strings, and drop nulls beforehand",
                code="no_text",
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise EmbeddingInputError(
                f"text {position} holds a lone surrogate at character {error.start}, which is not text; "
                "replace it, for example by text.encode('utf-8', 'replace').decode()",
                code="no_text",
            ) from error


def count_at_least(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the fewest tokens that each text counts as, whatever a tokenizer makes of it.

    To some tokenizers a word is one token, however long it is. A chunk may then have millions of characters, which
    every later step would read as a whole.
    """
    return np.fromiter((len(text) // _CHARACTERS_PER_TOKEN for text in texts), np.int64, len(texts))


def require_within_limit(token_counts: NDArray[np.int64], limit: int, embedder_id: str) -> None:
    """Refuse texts that a model would truncate, by the tokens of each."""
    over = int(np.count_nonzero(token_counts > limit))
    if over:
        longest = int(np.argmax(token_counts))
        raise EmbeddingInputError(
            f"{over} of {len(token_counts)} texts are over the {limit} tokens that {embedder_id} "
            f"embeds whole; the longest, text {longest}, has {token_counts[longest]}. Cut them with "
            "backstory.text.chunking.cut.cut_chunks and the embedder's count_tokens first",
            code="too_long",
        )


def require_unit_rows(vectors: Vectors, count: int, dimension: int, embedder_id: str) -> None:
    """Refuse the vectors of a number of texts if they cannot be searched: unit rows of float32 of a stated width."""
    if vectors.shape != (count, dimension) or vectors.dtype != np.float32:
        raise EmbeddingError(
            f"{embedder_id} answered {count} texts with {vectors.dtype} vectors of shape {vectors.shape}; "
            f"expected float32 of shape {(count, dimension)}",
            code="unusable_vectors",
        )
    off = np.abs(np.linalg.norm(vectors, axis=1) - 1)
    strays = np.flatnonzero(~(off <= _UNIT_TOLERANCE))
    if len(strays):
        raise EmbeddingError(
            f"{embedder_id} answered text {strays[0]} with a vector whose length is not 1, or that is not finite",
            code="unusable_vectors",
        )


def make_unit_rows(
    values: Sequence[Sequence[float]] | NDArray[np.float32], shape: tuple[int, int], embedder_id: str
) -> Vectors:
    """Check number and width of the vectors of an answer, and give them length 1, unless one is zero or not finite."""
    count, dimension = shape
    widths = sorted({len(row) for row in values})
    if len(values) != count or widths != [dimension]:
        raise EmbeddingError(
            f"{embedder_id} answered {count} texts with {len(values)} vectors of width "
            f"{' and '.join(map(str, widths))} instead of {count} of width {dimension}",
            code="unusable_vectors",
        )
    rows = np.array(values, np.float64)
    norms = np.linalg.norm(rows, axis=1)
    unusable = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if len(unusable):
        raise EmbeddingError(
            f"{embedder_id} answered {len(unusable)} of {count} texts with vectors that are zero or not "
            f"finite; the first is text {unusable[0]} of the request",
            code="unusable_vectors",
        )
    vectors: Vectors = (rows / norms[:, None]).astype(np.float32)
    return vectors
