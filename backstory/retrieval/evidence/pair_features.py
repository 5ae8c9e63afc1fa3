"""Pairs of a part of a window and a stored chunk -> features, relative to the window and to the corpus.

No feature is a cosine by itself: each is compared with what the part, the chunk or the window finds elsewhere, in the
spread or the temperature of the embedding space. So one model of pairs serves several embedders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.ids import WHOLE_WINDOW
from backstory.index.search import SearchIndex
from backstory.models.embeddings.protocol import Vectors
from backstory.retrieval.selection.strategies import FindVectors
from backstory.text.message_markdown import MESSAGE_SEPARATOR

Values = NDArray[np.float64]
Rows = NDArray[np.int64]

SAMPLED: Final = 512
"""Chunks of the corpus whose cosines say what a text reaches by chance."""
_LEAST_SAMPLE: Final = 20
"""Fewer chunks say nothing of chance; the threshold and the temperature of the embedding space take their place."""
_TINY: Final = 1e-6
_ROWS_AT_ONCE: Final = 1 << 15


@dataclass(frozen=True)
class _Pairs:
    """The pairs of a batch of windows, with the texts and vectors that their features are read from.

    Attributes:
        hits: Table ``hits``, one row per pair.
        part: Row of the part in ``parts`` of each pair.
        chunk: Row of the chunk in ``chunk_vectors`` of each pair.
        parts: ``window_id`` and ``text`` of the parts that have a pair or lie beside one that has.
        before: Row of the part before each part in its window; -1 for the first.
        after: Row of the part after it; -1 for the last.
        part_vectors: Unit vectors of the parts.
        chunk_vectors: Unit vectors of the chunks.
        part_words: ``part``, ``term`` and ``rarity`` of the words of the parts, in order.
        chunk_words: ``chunk``, ``term`` and ``rarity`` of the words of the chunks with their titles, in order.
        title_words: ``chunk``, ``term`` and ``rarity`` of the words of the chunks' titles.
        sample: Unit vectors of some chunks of the corpus.
        temperature: Difference in score that changes the evidence by the factor e.
        threshold: Cosine below which a hit of this embedding space is seldom evidence.
    """

    hits: pl.DataFrame
    part: Rows
    chunk: Rows
    parts: pl.DataFrame
    before: Rows
    after: Rows
    part_vectors: Vectors
    chunk_vectors: Vectors
    part_words: pl.DataFrame
    chunk_words: pl.DataFrame
    title_words: pl.DataFrame
    sample: Vectors
    temperature: float
    threshold: float

    def compare(self, part: Rows) -> Values:
        """Return the cosine of a part with the chunk of each pair."""
        return _compare(self.part_vectors, part, self.chunk_vectors, self.chunk)


def measure_pairs(
    hits: pl.DataFrame, parts: pl.DataFrame, find_vectors: FindVectors, index: SearchIndex
) -> dict[str, Values]:
    """Measure the pair of every hit.

    Args:
        hits: Table ``hits``.
        parts: From :func:`list_parts`: the queries of the same windows.
        find_vectors: Gives the unit vectors of parts by id, shape ``(len(ids), dimension)``.
        index: The index that was searched.

    Returns:
        The values of each feature, in the order of ``hits``, shape ``(len(hits),)``.

    Raises:
        InputError: A hit is not of this index, or not of these queries.
    """
    # The score of the hybrid ranking, by whichever ranking the hits were found.
    fused = (
        pl.col("similarity") + index.calibration.keyword_weight * pl.col("keyword_score").fill_null(0).sqrt()
    )
    pairs = _read_pairs(hits.with_columns(score=fused), parts, find_vectors, index)
    noise = _measure_noise(pairs)
    return {
        **_measure_similarity(pairs, noise),
        **_measure_words(pairs),
        **_measure_neighbours(pairs, noise),
        **_measure_documents(pairs, noise),
    }


def _read_pairs(
    hits: pl.DataFrame, parts: pl.DataFrame, find_vectors: FindVectors, index: SearchIndex
) -> _Pairs:
    rows = {part: row for row, part in enumerate(parts["part_id"])}
    chunk_ids = hits["chunk_id"].unique(maintain_order=True)
    columns = {chunk_id: row for row, chunk_id in enumerate(chunk_ids)}
    described = index.describe(chunk_ids)
    texts = described.select(pl.concat_str("title", "text", separator="\n")).to_series()
    same = parts.select(
        after=(pl.struct("window_id", "granularity") == pl.struct("window_id", "granularity").shift(-1))
    )["after"].fill_null(value=False)
    follows = same.to_numpy()
    own = np.arange(len(parts))
    before = np.full(len(parts), -1)
    before[1:][follows[:-1]] = own[:-1][follows[:-1]]
    return _Pairs(
        hits=hits,
        part=hits["query_chunk_id"].replace_strict(rows, return_dtype=pl.Int64).to_numpy(),
        chunk=hits["chunk_id"].replace_strict(columns, return_dtype=pl.Int64).to_numpy(),
        parts=parts,
        before=before,
        after=np.where(follows, own + 1, -1),
        part_vectors=find_vectors(parts["part_id"].to_list()),
        chunk_vectors=index.vectors_of(chunk_ids),
        part_words=index.words_of(parts["text"].to_list()).rename({"text": "part"}),
        chunk_words=index.words_of(texts.to_list()).rename({"text": "chunk"}),
        title_words=index.words_of(described["title"].to_list()).rename({"text": "chunk"}),
        sample=index.sample_vectors(SAMPLED),
        temperature=index.calibration.temperature,
        threshold=index.calibration.min_similarity or 0.0,
    )


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


def _measure_similarity(pairs: _Pairs, noise: _Noise) -> dict[str, Values]:
    """Compare the cosine and the score of each pair with what its part finds elsewhere."""
    hits = pairs.hits
    cosine = hits["similarity"].to_numpy()
    table = hits.select(
        "score",
        mean=pl.col("score").mean().over("query_chunk_id"),
    )
    score, mean = (table[name].to_numpy() for name in ("score", "mean"))
    return {
        "part_deviations": noise.standardize(pairs, cosine),
        "gap_to_mean": (score - mean) / pairs.temperature,
        "log_share": np.log(_share(pairs) + _TINY),
        "keywords": np.sqrt(hits["keyword_score"].fill_null(0).to_numpy()),
    }


def _share(pairs: _Pairs) -> Values:
    """Return the share of each pair in the evidence of its part, a softmax of the scores."""
    evidence = ((pl.col("score") - pl.col("score").max()) / pairs.temperature).exp()
    table = pairs.hits.select(share=(evidence / evidence.sum()).over("query_chunk_id"))
    return table["share"].to_numpy()


def _measure_words(pairs: _Pairs) -> dict[str, Values]:
    """Measure the words and phrases that part and chunk share, weighted by rarity."""
    shared = _share_words(pairs, pairs.part)
    phrases = _add_up(pairs, pairs.part, _pair_words(pairs.part_words, "part"), ["first", "second"],
                      _pair_words(pairs.chunk_words, "chunk"))  # fmt: skip
    titles = _add_up(pairs, pairs.part, _distinct(pairs.part_words), ["term"], _distinct(pairs.title_words))
    title_rarity = _sum_rarity(pairs.title_words, "chunk", len(pairs.chunk_vectors))
    return {
        "rarest_shared_word": shared["most"].to_numpy(),
        "shared_phrases": np.log1p(phrases["sum"].to_numpy()),
        "title_share": titles["sum"].to_numpy() / np.maximum(title_rarity[pairs.chunk], _TINY),
    }


def _share_words(pairs: _Pairs, part: Rows) -> pl.DataFrame:
    return _add_up(pairs, part, _distinct(pairs.part_words), ["term"], _distinct(pairs.chunk_words))


def _add_up(
    pairs: _Pairs, part: Rows, of_parts: pl.DataFrame, by: list[str], of_chunks: pl.DataFrame
) -> pl.DataFrame:
    """Return ``sum`` and ``most`` of the rarity of what a part shares with the chunk of each pair, 0 for nothing."""
    keys = pl.DataFrame({"part": part, "chunk": pairs.chunk}).with_row_index("pair")
    found = (
        keys.join(of_parts, on="part")
        .join(of_chunks.select("chunk", *by), on=["chunk", *by])
        .group_by("pair")
        .agg(sum=pl.col("rarity").sum(), most=pl.col("rarity").max())
    )
    return keys.select("pair").join(found, on="pair", how="left", maintain_order="left").fill_null(0.0)


def _distinct(words: pl.DataFrame) -> pl.DataFrame:
    return words.unique(maintain_order=True)


def _pair_words(words: pl.DataFrame, of: str) -> pl.DataFrame:
    """Return the distinct pairs of neighbouring words of each text, with the mean of their rarities."""
    return (
        words.select(
            of,
            first="term",
            second=pl.col("term").shift(-1).over(of),
            rarity=(pl.col("rarity") + pl.col("rarity").shift(-1).over(of)) / 2,
        )
        .drop_nulls("second")
        .unique([of, "first", "second"], maintain_order=True)
    )


def _sum_rarity(words: pl.DataFrame, of: str, count: int) -> Values:
    found = _distinct(words).group_by(of).agg(pl.col("rarity").sum())
    sums = np.zeros(count)
    sums[found[of].to_numpy()] = found["rarity"].to_numpy()
    return sums


def _measure_neighbours(pairs: _Pairs, noise: _Noise) -> dict[str, Values]:
    """Measure what the parts beside a part, and its whole window, have in common with the chunk."""
    cosines, words = [], np.zeros(len(pairs.part))
    for beside in (pairs.before[pairs.part], pairs.after[pairs.part]):
        cosines.append(np.where(beside >= 0, pairs.compare(np.maximum(beside, 0)), np.nan))
        shared = _share_words(pairs, beside)["sum"].to_numpy()
        words += np.where(beside >= 0, shared, 0.0)
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
    numbers = pairs.parts.select(pl.col("window_id").rank("dense") - 1).to_series().cast(pl.Int64).to_numpy()
    sums = np.zeros((int(numbers.max(initial=-1)) + 1, pairs.part_vectors.shape[1]), np.float32)
    np.add.at(sums, numbers, pairs.part_vectors)
    means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _TINY)
    return _compare(means, numbers[pairs.part], pairs.chunk_vectors, pairs.chunk)


def _measure_documents(pairs: _Pairs, noise: _Noise) -> dict[str, Values]:
    """Measure how much of the window finds the document of each pair, and how well."""
    hits = pairs.hits.select("window_id", "query_chunk_id", "document_id", "score").with_columns(
        share=_share(pairs), best=pl.col("score").max().over("query_chunk_id")
    )
    document = ["window_id", "document_id"]
    by_part = hits.group_by(*document, "query_chunk_id").agg(pl.col("score").max(), pl.col("share").sum())
    of_document = by_part.group_by(document).agg(
        most=pl.col("score").max(),
        second=pl.col("score").top_k(2).min(),
        mass=pl.col("share").sum(),
        found=pl.len(),
    )
    parts = hits.group_by("window_id").agg(parts=pl.col("query_chunk_id").n_unique())
    table = hits.join(of_document, on=document, how="left", maintain_order="left").join(
        parts, on="window_id", how="left", maintain_order="left"
    )
    column = {name: table[name].to_numpy().astype(np.float64) for name in table.columns[3:]}
    return {
        "document_above_part": (column["most"] - column["best"]) / pairs.temperature,
        "document_second": noise.standardize(pairs, column["second"]),
        "document_mass": np.log(column["mass"] / column["parts"] + 1e-4),
        "document_found": np.log(column["found"] / column["parts"]),
        "parts": np.log(column["parts"]),
    }
