"""Pairs of a part of a window and a stored chunk -> features, relative to the window and to the corpus.

No feature is a cosine by itself: each is compared with what the part, the chunk or the window finds elsewhere, in the
spread or the temperature of the embedding space. So one model of pairs serves several embedders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from backstory.base.ids import WHOLE_WINDOW
from backstory.index.search import SearchIndex
from backstory.models.embeddings.protocol import Vectors
from backstory.retrieval.evidence.shared_words import (
    Rows,
    Values,
    WordLists,
    list_phrases,
    list_words,
    weigh_shared,
)
from backstory.retrieval.selection.strategies import FindVectors
from backstory.text.message_markdown import MESSAGE_SEPARATOR

SAMPLED: Final = 512
"""Chunks of the corpus whose cosines say what a text reaches by chance."""
_LEAST_SAMPLE: Final = 20
"""Fewer chunks say nothing of chance; the threshold and the temperature of the embedding space take their place."""
_TINY: Final = 1e-6
_ROWS_AT_ONCE: Final = 1 << 15


@dataclass(frozen=True)
class _Pairs:
    """The pairs of a batch of windows, with the words and vectors that their features are read from.

    Attributes:
        cosine: Cosine of each pair.
        keywords: Score of each pair by keywords, 0 where they do not find it.
        score: Score of the hybrid ranking of each pair.
        part: Row of the part of each pair.
        chunk: Row of the chunk of each pair.
        document: Number of the document of each pair.
        window: Number of the window of each part.
        before: Row of the part before each part in its window; -1 for the first.
        after: Row of the part after it; -1 for the last.
        part_vectors: Unit vectors of the parts.
        chunk_vectors: Unit vectors of the chunks.
        part_words: Words of the parts.
        chunk_words: Words of the chunks with their titles.
        title_words: Words of the titles of the chunks.
        part_phrases: Phrases of the parts.
        chunk_phrases: Phrases of the chunks with their titles.
        sample: Unit vectors of some chunks of the corpus.
        temperature: Difference in score that changes the evidence by the factor e.
        threshold: Cosine below which a hit of this embedding space is seldom evidence.
    """

    cosine: Values
    keywords: Values
    score: Values
    part: Rows
    chunk: Rows
    document: Rows
    window: Rows
    before: Rows
    after: Rows
    part_vectors: Vectors
    chunk_vectors: Vectors
    part_words: WordLists
    chunk_words: WordLists
    title_words: WordLists
    part_phrases: WordLists
    chunk_phrases: WordLists
    sample: Vectors
    temperature: float
    threshold: float

    def compare(self, part: Rows) -> Values:
        """Return the cosine of a part with the chunk of each pair."""
        return _compare(self.part_vectors, part, self.chunk_vectors, self.chunk)


def measure_pairs(
    hits: pl.DataFrame,
    parts: pl.DataFrame,
    chunks: pl.DataFrame,
    find_vectors: FindVectors,
    index: SearchIndex,
) -> dict[str, Values]:
    """Measure the pair of every hit.

    Args:
        hits: Table ``hits``.
        parts: From :func:`list_parts`: the queries of the same windows.
        chunks: ``chunk_id``, ``title`` and ``text`` of each chunk of the hits, in any order; may hold others.
        find_vectors: Gives the unit vectors of parts by id, shape ``(len(ids), dimension)``.
        index: The index that was searched.

    Returns:
        The values of each feature, in the order of ``hits``, shape ``(len(hits),)``.

    Raises:
        InputError: A part is none of the queries whose vectors are known.
    """
    pairs = _read_pairs(hits, parts, chunks, find_vectors, index)
    noise, share = _measure_noise(pairs), _share(pairs)
    return {
        **_measure_similarity(pairs, noise, share),
        **_measure_words(pairs),
        **_measure_neighbours(pairs, noise),
        **_measure_documents(pairs, noise, share),
    }


def _read_pairs(
    hits: pl.DataFrame,
    parts: pl.DataFrame,
    chunks: pl.DataFrame,
    find_vectors: FindVectors,
    index: SearchIndex,
) -> _Pairs:
    part_ids = parts["part_id"].to_list()
    chunks = chunks.filter(pl.col("chunk_id").is_in(hits["chunk_id"].unique().to_list()))
    chunk_ids = chunks["chunk_id"].to_list()
    cosine = hits["similarity"].to_numpy().astype(np.float64)
    keywords = hits["keyword_score"].fill_null(0).to_numpy().astype(np.float64)
    titles = chunks["title"].to_list()
    texts = [f"{title}\n{text}" for title, text in zip(titles, chunks["text"], strict=True)]
    part_words = index.words_of(parts["text"].to_list())
    chunk_words = index.words_of(texts)
    width = 1 + max(int(words["term"].to_numpy().max(initial=0)) for words in (part_words, chunk_words))
    window, kind = _number(parts["window_id"]), _number(parts["granularity"])
    follows = (window[1:] == window[:-1]) & (kind[1:] == kind[:-1])
    own = np.arange(len(parts))
    return _Pairs(
        cosine=cosine,
        keywords=keywords,
        # By whichever ranking the hits were found.
        score=cosine + index.calibration.keyword_weight * np.sqrt(keywords),
        part=_find_rows(hits["query_chunk_id"], part_ids),
        chunk=_find_rows(hits["chunk_id"], chunk_ids),
        document=_number(hits["document_id"]),
        window=window,
        before=np.where(np.insert(follows, 0, values=False)[: len(own)], own - 1, -1),
        after=np.where(np.append(follows, values=False)[: len(own)], own + 1, -1),
        part_vectors=find_vectors(part_ids),
        chunk_vectors=index.vectors_of(chunk_ids),
        part_words=list_words(part_words, len(parts)),
        chunk_words=list_words(chunk_words, len(chunk_ids)),
        title_words=list_words(index.words_of(titles), len(chunk_ids)),
        part_phrases=list_phrases(part_words, len(parts), width),
        chunk_phrases=list_phrases(chunk_words, len(chunk_ids), width),
        sample=index.sample_vectors(SAMPLED),
        temperature=index.calibration.temperature,
        threshold=index.calibration.min_similarity or 0.0,
    )


def _number(values: pl.Series) -> Rows:
    """Number values in the order in which they first occur."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values.to_list()], np.int64)


def _find_rows(values: pl.Series, known: Sequence[str]) -> Rows:
    rows = {value: row for row, value in enumerate(known)}
    return np.array([rows[value] for value in values.to_list()], np.int64)


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


@dataclass(frozen=True)
class _Noise:
    """What each part reaches by chance: mean and standard deviation of its cosines with the sample."""

    mean: Values
    spread: Values

    def standardize(self, pairs: _Pairs, cosines: Values) -> Values:
        """Return how many deviations lie between the mean of the part of each pair and a cosine."""
        standard: Values = (cosines - self.mean[pairs.part]) / self.spread[pairs.part]
        return standard


def _measure_noise(pairs: _Pairs) -> _Noise:
    if len(pairs.sample) < _LEAST_SAMPLE:
        count = len(pairs.part_vectors)
        mean = np.full(count, pairs.threshold - pairs.temperature)
        return _Noise(mean, np.full(count, pairs.temperature))
    # In double precision, since the last digits of a product depend on how many parts are multiplied at once.
    vectors, sample = pairs.part_vectors, pairs.sample.T.astype(np.float64)
    cosines = [
        vectors[start : start + _ROWS_AT_ONCE].astype(np.float64) @ sample
        for start in range(0, len(vectors), _ROWS_AT_ONCE)
    ]
    mean = np.concatenate([np.empty(0), *(group.mean(axis=1) for group in cosines)])
    spread = np.concatenate([np.empty(0), *(group.std(axis=1) for group in cosines)])
    return _Noise(mean, spread + _TINY)


def _compare(left: Vectors, left_rows: Rows, right: Vectors, right_rows: Rows) -> Values:
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


def _measure_similarity(pairs: _Pairs, noise: _Noise, share: Values) -> dict[str, Values]:
    """Compare the cosine and the score of each pair with what its part finds elsewhere."""
    count = len(pairs.part_vectors)
    found = np.maximum(np.bincount(pairs.part, minlength=count), 1)
    mean = np.bincount(pairs.part, weights=pairs.score, minlength=count) / found
    return {
        "part_deviations": noise.standardize(pairs, pairs.cosine),
        "gap_to_mean": (pairs.score - mean[pairs.part]) / pairs.temperature,
        "log_share": np.log(share + _TINY),
        "keywords": np.sqrt(pairs.keywords),
    }


def _share(pairs: _Pairs) -> Values:
    """Return the share of each pair in the evidence of its part, a softmax of the scores."""
    count = len(pairs.part_vectors)
    best = _find_most(pairs.part, pairs.score, count)
    evidence = np.exp((pairs.score - best[pairs.part]) / pairs.temperature)
    share: Values = evidence / np.bincount(pairs.part, weights=evidence, minlength=count)[pairs.part]
    return share


def _find_most(group: Rows, values: Values, groups: int) -> Values:
    """Return the highest value of each group."""
    most = np.full(groups, -np.inf)
    np.maximum.at(most, group, values)
    return most


def _measure_words(pairs: _Pairs) -> dict[str, Values]:
    """Measure the words and phrases that part and chunk share, weighted by rarity."""
    _, rarest = weigh_shared(pairs.part_words, pairs.part, pairs.chunk_words, pairs.chunk)
    phrases, _ = weigh_shared(pairs.part_phrases, pairs.part, pairs.chunk_phrases, pairs.chunk)
    titles, _ = weigh_shared(pairs.part_words, pairs.part, pairs.title_words, pairs.chunk)
    return {
        "rarest_shared_word": rarest,
        "shared_phrases": np.log1p(phrases),
        "title_share": titles / np.maximum(pairs.title_words.sum_rarity()[pairs.chunk], _TINY),
    }


def _measure_neighbours(pairs: _Pairs, noise: _Noise) -> dict[str, Values]:
    """Measure what the parts beside a part, and its whole window, have in common with the chunk."""
    cosines, words = [], np.zeros(len(pairs.part))
    for beside in (pairs.before[pairs.part], pairs.after[pairs.part]):
        cosines.append(np.where(beside >= 0, pairs.compare(np.maximum(beside, 0)), np.nan))
        words += weigh_shared(pairs.part_words, beside, pairs.chunk_words, pairs.chunk)[0]
    count = np.isfinite(cosines).sum(axis=0)
    alone = count == 0
    mean = np.nansum(cosines, axis=0) / np.maximum(count, 1)
    window = _compare_window(pairs)
    return {
        "neighbour_deviations": np.where(alone, 0.0, noise.standardize(pairs, mean)),
        "neighbours_above_window": np.where(alone, 0.0, (mean - window) / pairs.temperature),
        "neighbour_words": np.log1p(words),
    }


def _compare_window(pairs: _Pairs) -> Values:
    """Return the cosine of the chunk of each pair with the mean of its window's parts."""
    windows = int(pairs.window.max(initial=-1)) + 1
    sums = np.zeros((windows, pairs.part_vectors.shape[1]), np.float32)
    np.add.at(sums, pairs.window, pairs.part_vectors)
    means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _TINY)
    return _compare(means, pairs.window[pairs.part], pairs.chunk_vectors, pairs.chunk)


def _measure_documents(pairs: _Pairs, noise: _Noise, share: Values) -> dict[str, Values]:
    """Measure how much of the window finds the document of each pair, and how well."""
    parts, documents = len(pairs.part_vectors), int(pairs.document.max(initial=-1)) + 1
    # A document in a window, then in a part of it.
    found, of_pair = np.unique(pairs.window[pairs.part] * documents + pairs.document, return_inverse=True)
    by_part, of_finding = np.unique(of_pair * parts + pairs.part, return_inverse=True)
    owner = by_part // max(parts, 1)
    score = _find_most(of_finding, pairs.score, len(by_part))
    mass = np.bincount(owner, weights=np.bincount(of_finding, weights=share), minlength=len(found))
    count = np.bincount(owner, minlength=len(found))
    order = np.lexsort((-score, owner))
    best = np.cumsum(count) - count
    second = score[order][best + (count > 1)]
    asked = np.bincount(pairs.window[np.unique(pairs.part)])[pairs.window[pairs.part]].astype(np.float64)
    of_part = _find_most(pairs.part, pairs.score, parts)[pairs.part]
    return {
        "document_above_part": (score[order][best][of_pair] - of_part) / pairs.temperature,
        "document_second": noise.standardize(pairs, second[of_pair]),
        "document_mass": np.log(mass[of_pair] / asked + 1e-4),
        "document_found": np.log(count[of_pair] / asked),
        "parts": np.log(asked),
    }
