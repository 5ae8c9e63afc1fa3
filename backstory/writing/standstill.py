"""When a run stops asking: a budget or quota is used up, or a service is down."""

from __future__ import annotations

import threading
from typing import Final

from backstory.errors import BudgetExhaustedError, ModelError, QuotaExhaustedError
from backstory.providers.failures import TransientError

_MOST_UNANSWERED: Final = 3


class Standstill:
    """Says, for all threads of a run, whether asking goes on.

    A request that a service refuses stops nothing, since it says nothing about the next window.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._unanswered = 0
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Why no further window is asked about; None as long as asking goes on."""
        return self._reason

    def note_answer(self) -> None:
        """Note that a window was answered."""
        with self._lock:
            self._unanswered = 0

    def note_failure(self, error: ModelError | BudgetExhaustedError) -> None:
        """Note why a window was not answered."""
        with self._lock:
            self._unanswered += isinstance(error.__cause__, TransientError)
            if isinstance(error, (BudgetExhaustedError, QuotaExhaustedError)):
                self._reason = self._reason or str(error)
            elif self._unanswered >= _MOST_UNANSWERED:
                windows = f"{self._unanswered} windows in a row"
                self._reason = (
                    self._reason or f"not asked, since {windows} were not answered; the next run asks"
                )
