"""How many passages a question is answered from, by its class: the one policy of depth of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from backstory.writing.answers.answer import Kind


@dataclass(frozen=True)
class AnswerDepth:
    """Numbers of passages.

    Attributes:
        of_part: Hits of each part of a question that has several.
        merged: Hits of all parts together, which the reranker orders where there is one.
        kept: Passages from which the answer is made.
    """

    of_part: int
    merged: int
    kept: int


LOOKUP: Final = AnswerDepth(of_part=6, merged=10, kept=6)
LIST: Final = AnswerDepth(of_part=24, merged=30, kept=24)
COMPARE: Final = AnswerDepth(of_part=6, merged=12, kept=10)
DEPTHS: Final[Mapping[Kind, AnswerDepth]] = {
    "lookup": LOOKUP,
    "list": LIST,
    "summarize": LIST,
    "compare": COMPARE,
}
"""A list and a summary look at more than a lookup; small talk and what is outside search nothing."""
