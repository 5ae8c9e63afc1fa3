"""Rerank the hits of one question with the reranker of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.models.reranker import (
    QUERY_CHARACTERS,
    TEXT_CHARACTERS,
    Candidate,
    QueryChunk,
    RerankRequest,
    hash_request,
)
from backstory.pipeline.chats.name_view import NameView
from backstory.pipeline.workspace import Workspace
from backstory.text.prompts.entries import cut_snippet


def rerank_hits(
    workspace: Workspace,
    question: str,
    found: Sequence[dict[str, Any]],
    described: Mapping[str, Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], bool, list[str]]:
    """Order hits by the ratings of the reranker of the settings; equal ones stay in their order.

    Beside the hits, tell whether the reranker ordered them, and in notes why not, and which documents it was not sent.
    """
    reranker = workspace.reranker
    if reranker is None:
        raise InputError(
            "there is no reranker; set `rerank: {provider: ...}` in backstory.yaml, or search without reranking",
            code="absent_setting",
        )
    if len(found) < 2:
        return list(found), False, []
    settings = workspace.settings.rerank
    view = NameView(workspace, settings)
    asked = view.show(None, question)
    if asked is None:
        note = "the question was not sent to the reranker, since it names a member and privacy.documents is reject"
        return list(found), False, [note]
    judged, candidates = list[dict[str, Any]](), list[Candidate]()
    for row in found[: settings.candidates]:
        chunk = described[row["chunk_id"]]
        title, text = (view.show(chunk["document_id"], str(chunk[name])) for name in ("title", "text"))
        if title is not None and text is not None:
            judged.append(row)
            candidates.append(Candidate(row["chunk_id"], title, cut_snippet(text, TEXT_CHARACTERS)))
    notes = [f"for the reranker, {note}" for note in view.list_notes()]
    if len(judged) < 2:
        return list(found), False, notes
    part = QueryChunk("question", cut_snippet(asked, QUERY_CHARACTERS))
    scores = np.array([[row["score"] for row in judged]])
    request = RerankRequest(digest([question], length=16), (part,), (part,), tuple(candidates), scores)
    key = {request.window_id: hash_request(reranker.id, request)}
    answer = workspace.judgements.get(key).get(request.window_id)
    if answer is None:
        [answer] = reranker.judge([request])
        if answer.note is None:
            workspace.judgements.put({request.window_id: (key[request.window_id], answer)})
    if answer.note is not None:
        kept = f"the reranker's answer was {answer.note}; the hits stay in the order of the search"
        return list(found), False, [kept, *notes]
    values = np.nan_to_num(answer.values, nan=0.0).max(axis=0)
    order = np.argsort(-values, kind="stable").tolist()
    # What was not judged keeps its place.
    ids = {row["chunk_id"] for row in judged}
    ordered = iter([judged[place] for place in order])
    return [next(ordered) if row["chunk_id"] in ids else row for row in found], True, notes
