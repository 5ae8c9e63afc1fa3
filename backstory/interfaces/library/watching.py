"""Watch the files and keep the index in sync with them while a process runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self, TypeAlias

from backstory.base.errors import BackstoryError
from backstory.interfaces.library.results import IndexReport

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 0.5

_EXPECTED: Final = (BackstoryError, OSError)

Fingerprint: TypeAlias = Callable[[], str]
"""Returns a text that changes when a file is added, removed, renamed or changed."""


class Watcher:
    """A thread that indexes changed files, after a burst of changes has ended.

    If a check or an indexing fails, the watcher reports the reason and continues at the next change.

    Attributes:
        busy: Whether it is indexing now.
        error: Why the last indexing failed; None if it did not.
        last_sync: When the index last matched the files; None before the first time.
    """

    def __init__(
        self,
        fingerprint: Fingerprint,
        index: Callable[[], IndexReport],
        *,
        poll_seconds: float = POLL_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        """Prepare the thread; :meth:`start` starts it.

        Args:
            fingerprint: Returns the state of the files.
            index: Indexes their changes.
            poll_seconds: Seconds between two checks of the files.
            settle_seconds: Seconds without a change before indexing.
        """
        self.busy = False
        self.error: str | None = None
        self.last_sync: datetime | None = None
        self._fingerprint = fingerprint
        self._index = index
        self._poll_seconds = poll_seconds
        self._settle_seconds = settle_seconds
        self._stopping = threading.Event()
        self._synced = threading.Condition()
        self._state: str | None = None
        self._thread = threading.Thread(target=self._watch, name="library-watcher", daemon=True)

    def start(self) -> None:
        """Start watching. The first check indexes every pending change."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after an indexing that is under way."""
        self._stopping.set()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the watcher is running."""
        return self._thread.is_alive()

    def wait_for(self, is_reached: Callable[[], bool], timeout: float) -> bool:
        """Wait until a condition holds after an indexing.

        Args:
            is_reached: The condition, evaluated now and after every indexing.
            timeout: Most seconds to wait.
        """
        with self._synced:
            return self._synced.wait_for(is_reached, timeout)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            state = self._look()
            if state is not None and state != self._state and self._settle(state):
                self._sync(state)
            self._stopping.wait(self._poll_seconds)

    def _look(self) -> str | None:
        state = None
        with _Attempt() as attempt:
            state = self._fingerprint()
        if attempt.failure is not None:
            self._report(_describe(attempt.failure), attempt.failure)
        return state

    def _settle(self, state: str) -> bool:
        """Wait until the files stay as they are; False if the watcher stops or they change again."""
        return not self._stopping.wait(self._settle_seconds) and self._look() == state

    def _sync(self, state: str) -> None:
        self.busy = True
        error = None
        with _Attempt() as attempt:
            error = "; ".join(self._index().failures) or None
        if attempt.failure is not None:
            error = _describe(attempt.failure)
        self.busy = False
        # After a failure, the watcher retries the same files when one of them changes.
        self._state = state
        if error is None:
            self.last_sync = datetime.now(UTC)
        self._report(error, attempt.failure)

    def _report(self, error: str | None, failure: Exception | None = None) -> None:
        if error is not None and error != self.error:
            # An unexpected failure is a bug, so the log needs its traceback.
            place = None if isinstance(failure, _EXPECTED) else failure
            logger.warning("the watched documents could not be indexed: %s", error, exc_info=place)
        with self._synced:
            self.error = error
            self._synced.notify_all()


class _Attempt:
    """Catches the failure of a block, whatever its class: nobody would see why a thread ended.

    Attributes:
        failure: What the block raised; None if it ended well.
    """

    failure: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.failure = error
        return self.failure is not None


def _describe(failure: Exception) -> str:
    return str(failure) if isinstance(failure, _EXPECTED) else f"{type(failure).__name__}: {failure}"
