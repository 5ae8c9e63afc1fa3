"""What every embedder takes and gives: the protocol, and the checks and batches that the embedders share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import InputError, ModelError

Task = Literal["query", "document"]
Vectors = NDArray[np.float32]

_UNIT_TOLERANCE: Final = 1e-3
# Words and symbols of any language have fewer on average.
_CHARACTERS_PER_TOKEN: Final = 100


class Embedder(Protocol):
    """Turns texts into unit vectors of one embedding space, which ``id`` names: vectors of two are never compared.

    ``max_input_tokens`` are those of a text that is embedded whole. A hit below ``default_min_similarity`` is no
    evidence; 0 if the scale is not known. ``languages`` are those that the model knows; None if all. A query chunk
    should reach ``default_query_tokens``, and ``workers`` batches may run at once.
    """

    id: str
    max_input_tokens: int
    default_min_similarity: float
    languages: tuple[str, ...] | None
    default_query_tokens: int
    workers: int

    @property
    def dimension(self) -> int:
        """Width of a vector."""

    @property
    def api_calls(self) -> int:
        """Requests sent to a service so far, retries included; 0 for a local model."""

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count the tokens of each text, special tokens included; the count is never below the model's own."""

    def find_token_ends(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Find the offset after each token of each text, in order; it is 0 for what is added before a text."""

    def plan_batches(self, token_counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Group texts into batches that :meth:`embed` takes at once: their positions, each exactly once."""

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        """Embed one batch as unit rows of shape ``(len(texts), dimension)``, in the order of the texts.

        An ``InputError`` means that a text is over the limit, a ``ModelError`` that the model failed.
        """


def require_text(texts: Sequence[str]) -> None:
    """Refuse what no tokenizer and no API accepts: values that are no strings, and halves of surrogate pairs."""
    for position, text in enumerate(texts):
        try:
            if not isinstance(text, str):
                raise TypeError(f"it is of type {type(text).__name__}; drop nulls beforehand")
            text.encode()
        except (TypeError, UnicodeEncodeError) as error:
            raise InputError(
                f"text {position} is not text: {error}; a lone surrogate is replaced, for example, by "
                "text.encode('utf-8', 'replace').decode()",
                code="no_text",
            ) from error


def count_at_least(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the fewest tokens that each text counts as, whatever a tokenizer makes of it.

    To some tokenizers a word is one token, however long it is, and every later step would read it as a whole.
    """
    return np.fromiter((len(text) // _CHARACTERS_PER_TOKEN for text in texts), np.int64, len(texts))


def part_long_tokens(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Part each token that is so long that it counts as several by :func:`count_at_least`."""
    sizes = np.diff(ends, prepend=0)
    long = np.flatnonzero(sizes >= 2 * _CHARACTERS_PER_TOKEN)
    parts = [np.arange(ends[at] - sizes[at], ends[at], _CHARACTERS_PER_TOKEN)[1:] for at in long]
    return np.sort(np.concatenate([ends, *parts]))


def require_within_limit(token_counts: NDArray[np.int64], limit: int, embedder_id: str) -> None:
    """Refuse texts that a model would truncate, by the tokens of each."""
    over = int(np.count_nonzero(token_counts > limit))
    if over:
        longest = int(np.argmax(token_counts))
        raise InputError(
            f"{over} of {len(token_counts)} texts are over the {limit} tokens that {embedder_id} "
            f"embeds whole; the longest, text {longest}, has {token_counts[longest]}. Cut them with "
            "backstory.text.chunking.cut.cut_chunks first",
            code="too_long",
        )


def find_stray_vector(vectors: Vectors) -> int | None:
    """Find the first row that is not a finite unit vector; None if all are."""
    squared = np.einsum("ij,ij->i", vectors, vectors)
    strays = np.flatnonzero(~(np.abs(squared - 1.0) <= 2 * _UNIT_TOLERANCE))
    return int(strays[0]) if len(strays) else None


def require_unit_rows(vectors: Vectors, count: int, dimension: int, embedder_id: str) -> None:
    """Refuse the vectors of a number of texts if they cannot be searched: unit rows of float32 of a stated width."""
    if vectors.shape != (count, dimension) or vectors.dtype != np.float32:
        raise ModelError(
            f"{embedder_id} answered {count} texts with {vectors.dtype} vectors of shape {vectors.shape}; "
            f"expected float32 of shape {(count, dimension)}",
            code="unusable_vectors",
        )
    if (stray := find_stray_vector(vectors)) is not None:
        raise ModelError(
            f"{embedder_id} answered text {stray} with a vector whose length is not 1, or that is not finite",
            code="unusable_vectors",
        )


def make_unit_rows(
    values: Sequence[Sequence[float]] | NDArray[np.float32], shape: tuple[int, int], embedder_id: str
) -> Vectors:
    """Check number and width of the vectors of an answer, and give them length 1, unless one is zero or not finite."""
    count, dimension = shape
    widths = sorted({len(row) for row in values})
    if len(values) != count or widths != [dimension]:
        raise ModelError(
            f"{embedder_id} answered {count} texts with {len(values)} vectors of width "
            f"{' and '.join(map(str, widths))} instead of {count} of width {dimension}",
            code="unusable_vectors",
        )
    rows = np.array(values, np.float64)
    norms = np.linalg.norm(rows, axis=1)
    unusable = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if len(unusable):
        raise ModelError(
            f"{embedder_id} answered {len(unusable)} of {count} texts with vectors that are zero or not "
            f"finite; the first is text {unusable[0]} of the request",
            code="unusable_vectors",
        )
    vectors: Vectors = (rows / norms[:, None]).astype(np.float32)
    return vectors


def group_in_order(
    token_counts: NDArray[np.int64], *, max_texts: int, max_tokens: int
) -> list[NDArray[np.int64]]:
    """Group neighbouring texts until a batch is full; a text over the limit of tokens is a batch alone."""
    starts: list[int] = []
    texts = tokens = 0
    for position, count in enumerate(token_counts.tolist()):
        if not starts or texts == max_texts or tokens + count > max_tokens:
            starts.append(position)
            texts = tokens = 0
        texts += 1
        tokens += count
    return np.split(np.arange(len(token_counts)), starts[1:]) if starts else []
