"""The probability that each hit of a question tells something about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.search import SearchIndex
from backstory.models.embeddings.protocol import Vectors
from backstory.retrieval.evidence.asking_parts import find_small_talk_parts
from backstory.retrieval.evidence.pair_features import measure_pairs
from backstory.retrieval.evidence.pair_model import read_pair_model

COMPARED: Final = 5
"""Hits of a part with which the model of pairs was fitted; a later hit is measured in the place of the last of them."""


def estimate_questions(
    hits: pl.DataFrame, chunks: pl.DataFrame, texts: Sequence[str], vectors: Vectors, index: SearchIndex
) -> NDArray[np.float64]:
    """Estimate the probability of every hit of some questions. Each question is a window of one part.

    Args:
        hits: The hits of a search, see :class:`backstory.index.result.SearchResult`.
        chunks: ``chunk_id``, ``title`` and ``text`` of each chunk of the hits, in any order.
        texts: The questions.
        vectors: Unit vectors of the questions, shape ``(len(texts), dimension)``.
        index: The index that was searched.

    Returns:
        Probabilities in the order of ``hits``, shape ``(len(hits),)``; 0 for a question that is small talk.
    """
    if hits.is_empty():
        return np.empty(0)
    ranked = hits.with_row_index("hit").with_columns(place=pl.int_range(1, pl.len() + 1).over("query"))
    is_first = pl.col("place") <= COMPARED
    later = ranked.filter(~is_first)
    ahead = ranked.filter(pl.col("place") < COMPARED)
    # Each later hit makes a list of its own, with the first hits of its question ahead of it.
    lists = pl.concat(
        [
            ranked.filter(is_first).with_columns(list=pl.format("{}", "query"), wanted=pl.lit(value=True)),
            later.with_columns(list=pl.format("{}+{}", "query", "hit"), wanted=pl.lit(value=True)),
            later.select("query", list=pl.format("{}+{}", "query", "hit"))
            .join(ahead, on="query", maintain_order="left_right")
            .with_columns(wanted=pl.lit(value=False))
            .select([*ranked.columns, "list", "wanted"]),
        ]
    ).sort("list", "place", maintain_order=True)
    asked = lists.select("list", "query").unique(maintain_order=True)
    rows = dict(asked.iter_rows())
    parts = asked.select(
        window_id="list",
        granularity=pl.lit("question"),
        text=pl.col("query").replace_strict(dict(enumerate(texts)), return_dtype=pl.String),
        part_id="list",
    )
    features = measure_pairs(
        lists.with_columns(window_id="list", query_chunk_id="list"),
        parts,
        chunks,
        lambda ids: vectors[[rows[part] for part in ids]],
        index,
    )
    measured = lists.select("hit", "wanted", probability=pl.Series(read_pair_model().estimate(features)))
    probability = measured.filter("wanted").sort("hit")["probability"].to_numpy()
    small_talk = find_small_talk_parts(pl.Series("text", list(texts))).to_numpy()
    estimated: NDArray[np.float64] = np.where(small_talk[hits["query"].to_numpy()], 0.0, probability)
    return estimated
