"""The pairs of a part of a window and a stored chunk, with the words and vectors that their features are read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.ids import WHOLE_WINDOW
from backstory.index.search import SearchIndex
from backstory.models.embeddings.protocol import Vectors
from backstory.retrieval.evidence.shared_words import Rows, Values, WordLists, list_phrases, list_words
from backstory.retrieval.query_chunks import SINGLE
from backstory.retrieval.selection.strategies import FindVectors
from backstory.text.layout import MESSAGE_SEPARATOR

if TYPE_CHECKING:
    from backstory.index.keywords import IndexedWords

SAMPLED: Final = 512
"""Chunks of the corpus whose cosines say what a text reaches by chance."""
_LEAST_SAMPLE: Final = 20
"""Fewer chunks say nothing of chance; the threshold and the temperature of the embedding space take their place."""
_TINY: Final = 1e-6
_ROWS_AT_ONCE: Final = 1 << 15


@dataclass(frozen=True)
class Noise:
    """What each part reaches by chance.

    Attributes:
        mean: Mean of its cosines with the sample.
        spread: Their standard deviation.
    """

    mean: Values
    spread: Values


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The pairs of a batch of windows.

    Attributes:
        cosine: Cosine of each pair.
        keywords: Score of each pair by keywords, 0 where they do not find it.
        part: Row of the part of each pair.
        chunk: Row of the chunk of each pair.
        document: Number of the document of each pair.
        window: Number of the window of each part.
        before: Row of the part before each part in its window; -1 for the first.
        after: Row of the part after it; -1 for the last.
        single: Whether each part is one message of a window of short ones.
        part_texts: Text of each part.
        part_vectors: Unit vectors of the parts.
        noise: What each part reaches by chance.
        chunk_ids: Id of each chunk.
        titles: Title of each chunk.
        texts: Text of each chunk.
        index: The index that was searched.
    """

    cosine: Values
    keywords: Values
    part: Rows
    chunk: Rows
    document: Rows
    window: Rows
    before: Rows
    after: Rows
    single: NDArray[np.bool_]
    part_texts: Sequence[str]
    part_vectors: Vectors
    noise: Noise
    chunk_ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    index: SearchIndex

    @cached_property
    def score(self) -> Values:
        """Score of the hybrid ranking of each pair, by whichever ranking it was found."""
        score: Values = self.cosine + self.index.manifest.calibration.keyword_weight * np.sqrt(self.keywords)
        return score

    @cached_property
    def chunk_vectors(self) -> Vectors:
        """Unit vectors of the chunks."""
        return self.index.vectors_of(self.chunk_ids)

    @cached_property
    def part_words(self) -> WordLists:
        """Words of the parts."""
        return list_words(self._words_of_parts)

    @cached_property
    def chunk_words(self) -> WordLists:
        """Words of the chunks with their titles."""
        return list_words(self._words_of_chunks)

    @cached_property
    def title_words(self) -> WordLists:
        """Words of the titles of the chunks."""
        return list_words(self.index.words_of(self.titles))

    @cached_property
    def part_phrases(self) -> WordLists:
        """Phrases of the parts."""
        return list_phrases(self._words_of_parts, self._width)

    @cached_property
    def chunk_phrases(self) -> WordLists:
        """Phrases of the chunks with their titles."""
        return list_phrases(self._words_of_chunks, self._width)

    @property
    def temperature(self) -> float:
        """Difference in score that changes the evidence by the factor e."""
        return self.index.manifest.calibration.temperature

    def standardize(self, cosines: Values) -> Values:
        """Return how many deviations lie between the mean of the part of each pair and a cosine."""
        standard: Values = (cosines - self.noise.mean[self.part]) / self.noise.spread[self.part]
        return standard

    def compare(self, part: Rows) -> Values:
        """Return the cosine of a part with the chunk of each pair."""
        return compare_rows(self.part_vectors, part, self.chunk_vectors, self.chunk)

    @cached_property
    def _words_of_parts(self) -> IndexedWords:
        return self.index.words_of(self.part_texts)

    @cached_property
    def _words_of_chunks(self) -> IndexedWords:
        named = [f"{title}\n{text}" for title, text in zip(self.titles, self.texts, strict=True)]
        return self.index.words_of(named)

    @property
    def _width(self) -> int:
        return 1 + max(
            int(words.term.max(initial=0)) for words in (self._words_of_parts, self._words_of_chunks)
        )


def read_pairs(
    hits: pl.DataFrame,
    parts: pl.DataFrame,
    chunks: pl.DataFrame,
    find_vectors: FindVectors,
    index: SearchIndex,
) -> Pairs:
    """Read the pair of every hit.

    Args:
        hits: Table ``hits``.
        parts: From :func:`list_parts`: the queries of the same windows.
        chunks: ``chunk_id``, ``title`` and ``text`` of each chunk of the hits, in any order; may hold others.
        find_vectors: Gives the unit vectors of parts by id, shape ``(len(ids), dimension)``.
        index: The index that was searched.

    Returns:
        The pairs, in the order of ``hits``.

    Raises:
        InputError: A part is none of the queries whose vectors are known.
    """
    part_ids = parts["part_id"].to_list()
    chunks = chunks.filter(pl.col("chunk_id").is_in(hits["chunk_id"].unique().to_list()))
    chunk_ids = chunks["chunk_id"].to_list()
    window, kind = _number(parts["window_id"]), _number(parts["granularity"])
    follows = (window[1:] == window[:-1]) & (kind[1:] == kind[:-1])
    own = np.arange(len(parts))
    vectors = find_vectors(part_ids)
    return Pairs(
        cosine=hits["similarity"].to_numpy().astype(np.float64),
        keywords=hits["keyword_score"].fill_null(0).to_numpy().astype(np.float64),
        part=_find_rows(hits["query_chunk_id"], part_ids),
        chunk=_find_rows(hits["chunk_id"], chunk_ids),
        document=_number(hits["document_id"]),
        window=window,
        before=np.where(np.insert(follows, 0, values=False)[: len(own)], own - 1, -1),
        after=np.where(np.append(follows, values=False)[: len(own)], own + 1, -1),
        single=(parts["granularity"] == SINGLE).to_numpy(),
        part_texts=parts["text"].to_list(),
        part_vectors=vectors,
        noise=measure_noise(vectors, index),
        chunk_ids=chunk_ids,
        titles=chunks["title"].to_list(),
        texts=chunks["text"].to_list(),
        index=index,
    )


def _number(values: pl.Series) -> Rows:
    """Number values in the order in which they first occur."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values.to_list()], np.int64)


def _find_rows(values: pl.Series, known: Sequence[str]) -> Rows:
    rows = {value: row for row, value in enumerate(known)}
    return np.array([rows[value] for value in values.to_list()], np.int64)


def measure_noise(vectors: Vectors, index: SearchIndex) -> Noise:
    """Measure what parts reach by chance: with the sample, or by the constants of the embedding space.

    The last digits of the values depend on how many parts are measured at once.

    Args:
        vectors: Unit vectors of the parts.
        index: The index that was searched.
    """
    sample = index.sample_vectors(SAMPLED)
    if len(sample) < _LEAST_SAMPLE:
        threshold, temperature = (
            index.manifest.calibration.min_similarity or 0.0,
            index.manifest.calibration.temperature,
        )
        return Noise(np.full(len(vectors), threshold - temperature), np.full(len(vectors), temperature))
    cosines = [
        vectors[start : start + _ROWS_AT_ONCE].astype(np.float64) @ sample.T
        for start in range(0, len(vectors), _ROWS_AT_ONCE)
    ]
    mean = np.concatenate([np.empty(0), *(group.mean(axis=1) for group in cosines)])
    spread = np.concatenate([np.empty(0), *(group.std(axis=1) for group in cosines)])
    return Noise(mean, spread + _TINY)


def compare_rows(left: Vectors, left_rows: Rows, right: Vectors, right_rows: Rows) -> Values:
    """Return the products of rows of two sets of vectors, pair by pair."""
    products = [
        np.einsum(
            "ij,ij->i",
            left[left_rows[start : start + _ROWS_AT_ONCE]],
            right[right_rows[start : start + _ROWS_AT_ONCE]],
        )
        for start in range(0, len(left_rows), _ROWS_AT_ONCE)
    ]
    return np.concatenate([np.empty(0), *products])


def list_parts(hits: pl.DataFrame, window_chunks: pl.DataFrame) -> pl.DataFrame:
    """List the queries of the windows of the hits.

    The query of a whole window is one part. If all queries of a window are of that kind, its chunks are none.

    Args:
        hits: Table ``hits``.
        window_chunks: Table ``window_chunks`` of the same windows.

    Returns:
        ``part_id``, ``window_id``, ``granularity`` and ``text``; parts of one window and granularity are neighbours.
    """
    asked = hits.select("window_id", "query_chunk_id").unique(maintain_order=True)
    is_whole = pl.col("query_chunk_id").str.ends_with(f"#{WHOLE_WINDOW}")
    chunked = asked.filter(~is_whole).select("window_id").unique()
    chunks = window_chunks.join(chunked, on="window_id", how="semi", maintain_order="left").select(
        "window_id", "granularity", "text", part_id="chunk_id"
    )
    whole = asked.filter(is_whole)
    if whole.is_empty():
        return chunks
    texts = window_chunks.group_by("window_id", maintain_order=True).agg(
        pl.col("text").str.join(MESSAGE_SEPARATOR)
    )
    joined = whole.join(texts, on="window_id", how="left", maintain_order="left")
    return pl.concat(
        [
            chunks,
            joined.select(
                "window_id", granularity=pl.lit(WHOLE_WINDOW), text="text", part_id="query_chunk_id"
            ),
        ]
    )
