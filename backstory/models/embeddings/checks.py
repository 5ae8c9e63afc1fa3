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
    """Refuse values that are not Unicode text: no tokenizer and no API accepts them.

    Args:
        texts: Any number of texts.

    Raises:
        EmbeddingInputError: A text is not a string, or holds half of a surrogate pair.
    """
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise EmbeddingInputError(
                f"text {position} is of type {type(text).__name__}; pass strings, and drop nulls beforehand",
                code="no_text",
                text=position,
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise EmbeddingInputError(
                f"text {position} holds a lone surrogate at character {error.start}, which is not text; "
                "replace it, for example by text.encode('utf-8', 'replace').decode()",
                code="no_text",
                text=position,
            ) from error


def count_at_least(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the fewest tokens that each text counts as, whatever a tokenizer makes of it.

    To some tokenizers a word is one token, however long it is. A chunk may then have millions of characters, which
    every later step would read as a whole.
    """
    return np.fromiter((len(text) // _CHARACTERS_PER_TOKEN for text in texts), np.int64, len(texts))


def require_within_limit(token_counts: NDArray[np.int64], limit: int, embedder_id: str) -> None:
    """Refuse texts that a model would truncate.

    Args:
        token_counts: Tokens of each text.
        limit: Most tokens that the model reads of a text.
        embedder_id: Names the model in the message.

    Raises:
        EmbeddingInputError: A text is over the limit. The message says how many are, and which is the longest.
    """
    over = int(np.count_nonzero(token_counts > limit))
    if over:
        longest = int(np.argmax(token_counts))
        raise EmbeddingInputError(
            f"{over} of {len(token_counts)} texts are over the {limit} tokens that {embedder_id} "
            f"embeds whole; the longest, text {longest}, has {token_counts[longest]}. Cut them with "
            "backstory.text.chunking.cut.cut_chunks and the embedder's count_tokens first",
            code="too_long",
            texts=over,
            text=longest,
            tokens=int(token_counts[longest]),
            limit=limit,
        )


def require_unit_rows(vectors: Vectors, count: int, dimension: int, embedder_id: str) -> None:
    """Refuse vectors that cannot be searched.

    Args:
        vectors: Vectors that the model returned.
        count: Number of texts that the model was given.
        dimension: Width that the embedder states.
        embedder_id: Names the model in the message.

    Raises:
        EmbeddingError: The count, width or type is wrong, a number is not finite, or a row is not of length 1.
    """
    if vectors.shape != (count, dimension) or vectors.dtype != np.float32:
        raise EmbeddingError(
            f"{embedder_id} answered {count} texts with {vectors.dtype} vectors of shape {vectors.shape}; "
            f"expected float32 of shape {(count, dimension)}",
            code="unusable_vectors",
            embedder=embedder_id,
            shape=vectors.shape,
            dtype=str(vectors.dtype),
        )
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise EmbeddingError(
            f"{embedder_id} answered text {row} with a vector that is not finite",
            code="unusable_vectors",
            embedder=embedder_id,
            text=row,
        )
    norms = np.linalg.norm(vectors, axis=1)
    if count and (worst := float(np.abs(norms - 1).max())) > _UNIT_TOLERANCE:
        row = int(np.abs(norms - 1).argmax())
        raise EmbeddingError(
            f"{embedder_id} answered text {row} with a vector of length {norms[row]:.6g}, {worst:.2g} off 1",
            code="unusable_vectors",
            embedder=embedder_id,
            text=row,
            length=float(norms[row]),
        )


def make_unit_rows(
    values: Sequence[Sequence[float]] | NDArray[np.float32], shape: tuple[int, int], embedder_id: str
) -> Vectors:
    """Check the vectors of an answer, and give them length 1.

    Args:
        values: The numbers of each vector.
        shape: Number and width that they must have.
        embedder_id: Names the model in the message.

    Raises:
        EmbeddingError: Number or width differs, or a vector is zero or holds a number that is not finite.
    """
    count, dimension = shape
    widths = sorted({len(row) for row in values})
    if len(values) != count or widths != [dimension]:
        raise EmbeddingError(
            f"{embedder_id} answered {count} texts with {len(values)} vectors of width "
            f"{' and '.join(map(str, widths))} instead of {count} of width {dimension}",
            code="unusable_vectors",
            embedder=embedder_id,
            count=len(values),
            widths=tuple(widths),
        )
    rows = np.array(values, np.float64)
    norms = np.linalg.norm(rows, axis=1)
    unusable = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if len(unusable):
        raise EmbeddingError(
            f"{embedder_id} answered {len(unusable)} of {count} texts with vectors that are zero or not "
            f"finite; the first is text {unusable[0]} of the request",
            code="unusable_vectors",
            embedder=embedder_id,
            text=int(unusable[0]),
        )
    vectors: Vectors = (rows / norms[:, None]).astype(np.float32)
    return vectors
