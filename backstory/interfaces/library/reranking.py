"""Rerank the hits of one question with the reranker of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.models.rerankers.judgement_cache import hash_request
from backstory.models.rerankers.protocol import (
    QUERY_CHARACTERS,
    TEXT_CHARACTERS,
    Candidate,
    QueryChunk,
    RerankRequest,
)
from backstory.pipeline.workspace import Workspace
from backstory.text.prompts.entries import cut_snippet


def rerank_hits(
    workspace: Workspace,
    question: str,
    found: Sequence[dict[str, Any]],
    described: Mapping[str, Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], bool, str | None]:
    """Order hits by the ratings of the reranker of the settings; equal ones stay in their order.

    Args:
        workspace: The workspace; its cache stores the reranker's answers.
        question: The question.
        found: The hits, best first.
        described: The description of each chunk, by its id.

    Returns:
        The hits, whether the reranker ordered them, and a note for the reader if it did not; None if there is nothing
        to order.

    Raises:
        InputError: The settings name no reranker.
        ModelError: The reranker could not be used.
    """
    reranker = workspace.reranker
    if reranker is None:
        raise InputError(
            "there is no reranker; set `rerank: {provider: ...}` in backstory.yaml, or search without reranking",
            code="absent_setting",
            setting="rerank.provider",
        )
    if len(found) < 2:
        return list(found), False, None
    settings = workspace.settings.rerank
    judged, left = list(found[: settings.candidates]), list(found[settings.candidates :])
    part = QueryChunk("question", cut_snippet(question, QUERY_CHARACTERS))
    candidates = tuple(
        Candidate(
            row["chunk_id"],
            str(described[row["chunk_id"]]["title"]),
            cut_snippet(str(described[row["chunk_id"]]["text"]), TEXT_CHARACTERS),
        )
        for row in judged
    )
    scores = np.array([[row["score"] for row in judged]])
    request = RerankRequest(digest([question], length=16), (part,), (part,), candidates, scores)
    key = {request.window_id: hash_request(reranker.id, request)}
    answer = workspace.judgements.get(key).get(request.window_id)
    if answer is None:
        [answer] = reranker.judge([request])
        if answer.note is None:
            workspace.judgements.put({request.window_id: (key[request.window_id], answer)})
    if answer.note is not None:
        return (
            list(found),
            False,
            f"the reranker's answer was {answer.note}; the hits stay in the order of the search",
        )
    values = np.nan_to_num(answer.values, nan=0.0).max(axis=0)
    order = np.argsort(-values, kind="stable").tolist()
    return [*(judged[place] for place in order), *left], True, None
