"""The reranker of the settings as a judge of claims in other words than the sentences that they cite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from backstory.base.errors import BudgetExhaustedError, ModelError
from backstory.base.ids import digest
from backstory.base.wording import inflect
from backstory.models.reranker import (
    QUERY_CHARACTERS,
    TEXT_CHARACTERS,
    Candidate,
    Judgements,
    QueryChunk,
    Reranker,
    RerankRequest,
)
from backstory.text.prompts.entries import cut_line, cut_snippet
from backstory.writing.answers.support import Evidence

TELLS_FROM: Final = 0.8
"""Least judgement with which cited sentences tell a claim, as a share of the largest value of the scale: a rating of 4
of 5, or a probability of .8. It stands above that of a hit, since a hit need only help."""
_SHOWN_REASON: Final = 300


class ClaimJudge:
    """Judges the claims of one answer, and keeps what a reader must know of it.

    Attributes:
        notes: How many claims rest on the reranker alone, and why some were not judged, a sentence each.
    """

    def __init__(self, reranker: Reranker) -> None:
        """Set the reranker."""
        self._reranker = reranker
        self.notes: list[str] = []

    def judge(self, claims: Sequence[tuple[str, Sequence[Evidence]]]) -> list[bool]:
        """Judge whether cited sentences tell each claim.

        Args:
            claims: The claims, each with what it cites, at least one.

        Returns:
            One per claim; False also where the reranker gave no judgement, and a note says why.
        """
        if not claims:
            return []
        requests = [_write_request(text, evidence) for text, evidence in claims]
        try:
            judged = self._reranker.judge(requests)
        except (ModelError, BudgetExhaustedError) as error:
            self._note_unjudged(len(claims), str(error))
            return [False] * len(claims)
        for reason in dict.fromkeys(each.note for each in judged if each.note is not None):
            self._note_unjudged(sum(each.note == reason for each in judged), reason)
        told = [_tells(each) for each in judged]
        if sum(told):
            statements = inflect(sum(told), "statement")
            self.notes.append(
                f"{sum(told)} {statements} in other words than the documents: "
                f"{inflect(sum(told), 'it rests', 'they rest')} on the reranker's judgement."
            )
        return told

    def _note_unjudged(self, claims: int, reason: str) -> None:
        self.notes.append(
            f"{claims} {inflect(claims, 'statement')} in other words than the documents could not be judged: "
            f"{cut_line(reason, _SHOWN_REASON)}."
        )


def _write_request(claim: str, evidence: Sequence[Evidence]) -> RerankRequest:
    part = QueryChunk("claim", cut_snippet(claim, QUERY_CHARACTERS))
    candidates = tuple(
        Candidate(f"cited-{place}", each.title, cut_snippet(each.said, TEXT_CHARACTERS))
        for place, each in enumerate(evidence, start=1)
    )
    window_id = digest([claim, *(each.said for each in evidence)], length=16)
    return RerankRequest(window_id, (part,), (part,), candidates, np.ones((1, len(candidates))))


def _tells(judged: Judgements) -> bool:
    """Return whether every topic that the reranker sees in a claim is told by something that it cites."""
    if judged.note is not None or not judged.evidence.size:
        return False
    return bool(judged.evidence.max(axis=1).min() >= TELLS_FROM)
