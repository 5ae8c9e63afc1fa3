"""The probability that each hit of a question tells something about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.scoring import rank_within
from backstory.index.search import SearchIndex
from backstory.models.embeddings.protocol import Vectors
from backstory.retrieval.evidence.asking_parts import find_small_talk_parts
from backstory.retrieval.evidence.pair_features import measure_pairs
from backstory.retrieval.evidence.pair_model import read_pair_model
from backstory.retrieval.evidence.pairs import Noise, Pairs, measure_noise
from backstory.retrieval.evidence.shared_words import Rows

COMPARED: Final = 5
"""Hits of a part with which the model of pairs was fitted; a later hit is measured in the place of the last of them."""


def estimate_questions(
    hits: pl.DataFrame,
    chunks: Mapping[str, Mapping[str, Any]],
    texts: Sequence[str],
    vectors: Vectors,
    index: SearchIndex,
) -> NDArray[np.float64]:
    """Estimate the probability of every hit of some questions. Each question is a window of one part.

    Args:
        hits: The hits of a search, see :class:`backstory.index.search.SearchResult`.
        chunks: ``title`` and ``text`` of each chunk of the hits, by id; may hold others.
        texts: The questions.
        vectors: Unit vectors of the questions, shape ``(len(texts), dimension)``.
        index: The index that was searched.

    Returns:
        Probabilities in the order of ``hits``, shape ``(len(hits),)``; 0 for a question that is small talk.
    """
    if hits.is_empty():
        return np.empty(0)
    query = hits["query"].to_numpy().astype(np.int64)
    hit, part, of_part, is_wanted = _list_hits(query)
    chunk, chunk_ids = _number(hits["chunk_id"].to_list())
    document, _ = _number(hits["document_id"].to_list())
    described = [chunks[chunk_id] for chunk_id in chunk_ids]
    alone = np.full(len(of_part), -1, np.int64)
    pairs = Pairs(
        cosine=hits["similarity"].to_numpy()[hit],
        keywords=np.nan_to_num(hits["keyword_score"].to_numpy())[hit],
        part=part,
        chunk=chunk[hit],
        document=document[hit],
        window=np.arange(len(of_part)),
        before=alone,
        after=alone,
        single=np.zeros(len(of_part), bool),
        part_texts=[texts[place] for place in of_part.tolist()],
        part_vectors=vectors[of_part],
        noise=_measure_noise(vectors, of_part, index),
        chunk_ids=chunk_ids,
        titles=[each["title"] for each in described],
        texts=[each["text"] for each in described],
        index=index,
    )
    # The wanted places are in the order of the hits.
    features = {name: values[is_wanted] for name, values in measure_pairs(pairs).items()}
    probability = read_pair_model().estimate(features)
    small_talk = np.array(find_small_talk_parts(texts))
    asked: NDArray[np.float64] = np.where(small_talk[query], 0.0, probability)
    return asked


def _list_hits(query: Rows) -> tuple[Rows, Rows, Rows, NDArray[np.bool_]]:
    """List the hits that are measured together: the first of each question, and each later one after the first ones.

    Args:
        query: The question of each hit, in the order of their ranks.

    Returns:
        Position of the hit, its list, and whether its value is wanted, for each place of the lists; and the question of
        each list.
    """
    place = rank_within(query)
    first = np.flatnonzero(place == 0)
    later = np.flatnonzero(place >= COMPARED)
    # The lists of a question follow each other, in the order of the hits.
    opens = (place == 0) | (place >= COMPARED)
    number = np.cumsum(opens) - 1
    ahead = COMPARED - 1
    repeated = np.searchsorted(first, later, side="right") - 1
    hit = np.concatenate(
        [np.arange(len(query)), np.repeat(first[repeated], ahead) + np.tile(np.arange(ahead), len(later))]
    )
    part = np.concatenate([number, np.repeat(number[later], ahead)])
    is_wanted = np.arange(len(hit)) < len(query)
    order = np.lexsort((place[hit], part))
    return hit[order], part[order], query[opens], is_wanted[order]


def _measure_noise(vectors: Vectors, of_part: Rows, index: SearchIndex) -> Noise:
    """Measure each question alone, so that no digit depends on the other questions of a search."""
    alone = [measure_noise(vectors[place : place + 1], index) for place in range(len(vectors))]
    mean, spread = (
        np.concatenate(values) for values in zip(*((each.mean, each.spread) for each in alone), strict=True)
    )
    return Noise(mean[of_part], spread[of_part])


def _number(values: Sequence[str]) -> tuple[Rows, list[str]]:
    """Number values in the order in which they first occur, and list them."""
    numbers: dict[str, int] = {}
    numbered = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
    return numbered, list(numbers)
