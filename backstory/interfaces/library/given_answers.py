"""What the library answers to labelled questions, as evaluation compares it with their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from backstory.interfaces.library.library import Library
from backstory.operations.evaluation.answers import GivenAnswer, GivenCitation
from backstory.operations.evaluation.question_set import LabelledQuestion
from backstory.writing.answers.answer import Turn


def give_answers(library: Library, questions: Iterable[LabelledQuestion]) -> Iterator[GivenAnswer]:
    """Answer questions one after the other, each from the index as it is; their labels are not shown to the library."""
    for question in questions:
        history = [Turn(turn.question, turn.answer) for turn in question.history]
        answer = library.answer(question.question, history=history)
        timings = answer.timings
        yield GivenAnswer(
            kind=answer.kind,
            refused=answer.refused,
            confidence=answer.confidence,
            text="\n".join(claim.text for claim in answer.claims),
            citations=tuple(
                GivenCitation(place.uri, place.quote) for claim in answer.claims for place in claim.citations
            ),
            found=tuple(hit.uri for hit in answer.hits),
            probability=max((hit.probability for hit in answer.hits), default=0.0),
            listed=tuple(entry.uri for entry in answer.documents),
            not_found=answer.not_found,
            seconds=timings.routing + timings.searching + timings.answering,
            tokens=answer.tokens,
            embedded_tokens=answer.embedded_tokens,
        )
