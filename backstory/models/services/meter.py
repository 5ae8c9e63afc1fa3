"""Usage of a paid service, and the meter that counts calls and keeps them within a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True)
class Usage:
    """Usage of calls.

    Attributes:
        calls: Number of calls, retries included.
        texts: Texts that were embedded, or windows that were reranked.
        tokens_in: Tokens that are sent.
        tokens_out: Tokens that the model writes, its thoughts included.
    """

    calls: int = 0
    texts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def tokens(self) -> int:
        """Tokens sent and written."""
        return self.tokens_in + self.tokens_out


Settle: TypeAlias = Callable[[Usage], None]
"""Replaces what was reserved for a call by what the call used."""


class CallMeter(Protocol):
    """Counts the calls of one model; shared by threads."""

    def require_room(self, needed: Usage) -> None:
        """Raise unless calls would be within the budgets now. Nothing is reserved.

        Args:
            needed: What the calls use at least.

        Raises:
            BudgetExhaustedError: They would exceed a budget.
        """
        ...

    def reserve(self, most: Usage, *, seconds: float) -> Settle:
        """Reserve what a call may use, before it is sent.

        Args:
            most: What the call uses at most.
            seconds: Longest duration of the call. A reservation that is not settled by then, as after a kill, counts
                as used in full.

        Returns:
            The function to call when the call has ended.

        Raises:
            BudgetExhaustedError: The call would exceed a budget.
        """
        ...


class Unmetered:
    """The meter of calls that belong to no workspace: it counts nothing and has no budget."""

    def require_room(self, needed: Usage) -> None:
        """Allow any calls."""

    def reserve(self, most: Usage, *, seconds: float) -> Settle:  # noqa: ARG002
        """Allow any call."""
        return lambda _used: None
