"""Calls of a run's writer: their number, and when they stop because a budget is used up or a service is down."""

from __future__ import annotations

import threading
from typing import Final

from backstory.base.errors import BudgetExhaustedError, ModelError, TransientError

_MOST_UNANSWERED: Final = 3


class WriterCalls:
    """Thread-safe counter of writer calls; tells when a budget, quota or outage ends the run.

    A request that a service refuses stops nothing, since it says nothing about the next window.
    """

    def __init__(self) -> None:
        self._counts = {"writing_asked": 0, "writing_found": 0}
        self._limit: str | None = None
        self._silence: str | None = None
        self._unanswered = 0
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        """Drafts that were requested, and windows whose drafts were cached."""
        with self._lock:
            return dict(self._counts)

    @property
    def limit(self) -> str | None:
        """Which budget or quota is used up; None if none is."""
        return self._limit

    @property
    def end(self) -> str | None:
        """Reason why the run calls the writer no more; None while it continues."""
        return self._limit or self._silence

    def note_found(self) -> None:
        """Note that a draft of a window was cached."""
        with self._lock:
            self._counts["writing_found"] += 1

    def note_answer(self) -> None:
        """Note that a window was answered."""
        with self._lock:
            self._counts["writing_asked"] += 1
            self._unanswered = 0

    def note_failure(self, error: ModelError | BudgetExhaustedError) -> None:
        """Note why a window was not answered. A call beyond a budget was never sent."""
        with self._lock:
            self._counts["writing_asked"] += not isinstance(error, BudgetExhaustedError)
            self._unanswered += isinstance(error.__cause__, TransientError)
            if isinstance(error, BudgetExhaustedError):
                self._limit = self._limit or str(error)
            elif self._unanswered >= _MOST_UNANSWERED:
                windows = f"{self._unanswered} windows in a row"
                self._silence = (
                    self._silence or f"not asked, since {windows} were not answered; the next run asks"
                )
