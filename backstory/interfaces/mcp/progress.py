"""Long work of tools: in a thread, with notifications of progress, and stopped when the call is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.server.mcpserver import Context

from backstory.base.errors import StoppedError
from backstory.base.progress import listening
from backstory.interfaces.library.indexing import IndexingPlace

_T = TypeVar("_T")


class _Listener:
    """Reports the progress of an indexing to a client, and stops it between two steps."""

    def __init__(self, context: Context[Any, Any]) -> None:
        self.is_cancelled = threading.Event()
        self._context = context
        self._place = IndexingPlace()

    def __call__(self, label: str, done: int, total: int) -> None:
        if self.is_cancelled.is_set():
            raise StoppedError("the call was cancelled; what was made is kept, and the same call resumes")
        if self._place.move(label, done, total):
            place = self._place
            tell = partial(
                self._context.report_progress, place.done, place.total, f"{label}: {done} of {total}"
            )
            anyio.from_thread.run(tell)


async def work(context: Context[Any, Any], function: Callable[[], _T]) -> _T:
    """Call a function in a thread.

    Args:
        context: The call of the client, who is told of progress.
        function: Long work, which announces its progress by :mod:`backstory.base.progress`.

    Returns:
        What the function returns. Where the call is cancelled, the function is left at its next step.
    """
    listener = _Listener(context)

    def run() -> _T:
        with listening(listener):
            return function()

    try:
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        listener.is_cancelled.set()
        raise
