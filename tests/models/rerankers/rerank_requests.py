"""Requests and answers as the tests of rerankers use them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backstory.models.reranker import (
    RATING,
    Candidate,
    Judgements,
    QueryChunk,
    RerankRequest,
    Topic,
)

QUERIES = {"q1": "A chat about trains.", "q2": "And soup."}

RATED = Judgements(
    (Topic("the frost", ("q1", "q2")), Topic("soup", ())),
    np.array([[5.0, np.nan], [0.0, 3.0]]),
    RATING,
)


def request_of(
    *chunk_ids: str, window_id: str = "w", queries: Mapping[str, str] = QUERIES, scores: Any = None
) -> RerankRequest:
    """Make a request in which every query has found every candidate, unless scores say other."""
    chunks = tuple(QueryChunk(*item) for item in queries.items())
    candidates = tuple(
        Candidate(chunk_id, f"Title of {chunk_id}", f"Text of {chunk_id}.") for chunk_id in chunk_ids
    )
    found = np.ones((len(chunks), len(candidates))) if scores is None else np.array(scores, np.float64)
    return RerankRequest(window_id, chunks, chunks, candidates, found)


def answer_of(
    topics: Mapping[str, Sequence[Any]], ratings: Sequence[Sequence[Any]], ids: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Make the answer of a model: parts by the label of each topic, and a row of ratings per document."""
    labels = range(1, len(ratings) + 1) if ids is None else ids
    return {
        "topics": [{"label": label, "parts": list(parts)} for label, parts in topics.items()],
        "documents": [
            {"id": label, "ratings": list(row)} for label, row in zip(labels, ratings, strict=True)
        ],
    }


def rate_later_half(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a prompt: one topic that the later half of the documents serves, and one that none serves."""
    count, parts = len(prompt["documents"]), [part["id"] for part in prompt["parts"]]
    rows = [[5 if 2 * place >= count else 0, 2] for place in range(count)]
    return answer_of({"the later ones": parts, "the frost": parts[:1]}, rows)
