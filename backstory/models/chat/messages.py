"""The messages of one call of a chat model."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.text.chunking.tokens import estimate_tokens


@dataclass(frozen=True)
class Messages:
    """What is sent to a model.

    Attributes:
        system: Instructions; may be empty.
        user: The material.
    """

    system: str
    user: str

    def estimate_tokens(self) -> int:
        """Estimate the tokens of both messages; the estimate errs upwards."""
        return int(estimate_tokens([self.system, self.user]).sum())
