"""How many chunks a search gives where nobody says: more of a larger corpus, within a cap of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backstory.chunking.tokens import estimate_tokens
from backstory.errors import InputError


@dataclass(frozen=True)
class Depth:
    """The policy of depth.

    Attributes:
        steps: Pairs of a number of chunks that the filters admit, and of the hits up to it, ascending.
        beyond: Hits of a larger corpus.
        max_tokens: Most estimated tokens of the texts of all hits; the best hit is always given. None for no cap.

    Raises:
        InputError: A number is below 1, or the steps do not ascend.
    """

    steps: tuple[tuple[int, int], ...] = ((50, 5), (100, 10), (200, 20))
    beyond: int = 25
    max_tokens: int | None = 16_000

    def __post_init__(self) -> None:
        numbers = [*(number for step in self.steps for number in step), self.beyond]
        if min(numbers) < 1 or (self.max_tokens is not None and self.max_tokens < 1):
            raise InputError(f"every number of a depth must be at least 1; got {self}")
        if any(first >= second for (first, _), (second, _) in zip(self.steps, self.steps[1:], strict=False)):
            raise InputError(f"the steps of a depth must ascend; got {self.steps}")

    def count_hits(self, chunks: int) -> int:
        """Give the number of hits for a corpus.

        Args:
            chunks: Chunks that the filters admit.
        """
        return next((hits for most, hits in self.steps if chunks <= most), self.beyond)

    def count_within(self, texts: Sequence[str]) -> int:
        """Give the number of leading texts that fit under the cap of tokens, at least one if there is one."""
        if self.max_tokens is None or not texts:
            return len(texts)
        total = 0
        for place, tokens in enumerate(estimate_tokens(texts).tolist()):
            total += tokens
            if total > self.max_tokens:
                return max(1, place)
        return len(texts)
