"""How many chunks a question looks at: the one policy of searches, tools and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Final

from backstory.base.errors import InputError
from backstory.text.chunking.units import estimate_tokens


@dataclass(frozen=True)
class AnswerDepth:
    """Numbers of passages of an answer.

    Attributes:
        of_part: Hits of each part of a question that has several.
        merged: Hits of all parts together, which the reranker orders where there is one.
        kept: Passages from which the answer is made.
    """

    of_part: int
    merged: int
    kept: int


@dataclass(frozen=True)
class Depth:
    """How many chunks a question looks at, whoever asks: a search, a tool of an agent, or an answer.

    Vectors and keywords have no depth of their own: both score every chunk, and the sum of the scores decides.

    Attributes:
        steps: Pairs of a number of chunks that the filters admit, and of the hits up to it, ascending.
        beyond: Hits of a larger corpus.
        max_tokens: Most estimated tokens of the texts of all hits; the best hit is always given. None for no cap.
        lookup: Passages of an answer to one question for one thing.
        several: Those of a comparison, and of a question of several parts.
        wide: Those of a list and of a summary.

    Raises:
        InputError: A number is below 1, or the steps do not ascend.
    """

    steps: tuple[tuple[int, int], ...] = ((50, 5), (100, 10), (200, 20))
    beyond: int = 25
    max_tokens: int | None = 16_000
    lookup: AnswerDepth = AnswerDepth(of_part=6, merged=10, kept=6)
    several: AnswerDepth = AnswerDepth(of_part=6, merged=12, kept=10)
    wide: AnswerDepth = AnswerDepth(of_part=24, merged=30, kept=24)

    def __post_init__(self) -> None:
        answers = [number for each in (self.lookup, self.several, self.wide) for number in astuple(each)]
        numbers = [*(number for step in self.steps for number in step), self.beyond, *answers]
        if min(numbers) < 1 or (self.max_tokens is not None and self.max_tokens < 1):
            raise InputError(f"every number of a depth must be at least 1; got {self}", code="out_of_range")
        if any(first >= second for (first, _), (second, _) in zip(self.steps, self.steps[1:], strict=False)):
            raise InputError(f"the steps of a depth must ascend; got {self.steps}", code="unordered_steps")

    def count_hits(self, chunks: int) -> int:
        """Return the number of hits for a corpus.

        Args:
            chunks: Chunks that the filters admit.
        """
        return next((hits for most, hits in self.steps if chunks <= most), self.beyond)

    def count_within(self, texts: Sequence[str]) -> int:
        """Return the number of leading texts that fit under the cap of tokens, at least one if there is one."""
        if self.max_tokens is None or not texts:
            return len(texts)
        total = 0
        for place, tokens in enumerate(estimate_tokens(texts).tolist()):
            total += tokens
            if total > self.max_tokens:
                return max(1, place)
        return len(texts)

    def of_answer(self, *, parts: int, is_wide: bool) -> AnswerDepth:
        """Return the numbers of passages of an answer.

        Args:
            parts: Parts of the question, at least 1; a comparison has at least two.
            is_wide: Whether a list or a summary is asked for.
        """
        if is_wide:
            return self.wide
        return self.several if parts > 1 else self.lookup


DEPTH: Final = Depth()
"""The policy of every search and answer that is given no other."""
