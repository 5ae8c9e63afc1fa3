"""The parent process: it starts the reading process, waits for its result, and kills it when it exceeds a limit."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from typing import IO, Final

from backstory.base.errors import ReadingLimitError
from backstory.base.sandbox.frames import receive_frame, send_frame
from backstory.base.sandbox.limits import ReadingLimits
from backstory.base.sandbox.serving import OUT_OF_MEMORY

_CODE: Final = "import sys; from backstory.base.sandbox.serving import serve; serve(int(sys.argv[1]))"


class _Worker:
    """One reading process with a fixed memory limit."""

    def __init__(self, megabytes: int) -> None:
        # Imported here: it loads the types of keys, which the started process, where this module is loaded, too, does
        # not need.
        from backstory.base.environment import reader_environment

        self.megabytes = megabytes
        self.parent = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-P", "-c", _CODE, str(megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=reader_environment(),
            start_new_session=True,  # a keyboard interrupt must reach the parent only
        )

    def run(self, task: str, content: bytes, limits: ReadingLimits, size: int) -> tuple[bytes, bool]:
        """Run a task; return its result, and whether the process can be reused.

        Raises:
            ReadingLimitError: The process exceeded a limit, or died.
        """
        incoming, outgoing = self._pipes()
        seconds = limits.processor_seconds(size)
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            self._kill()

        timer = threading.Timer(limits.wall_seconds(size), end)
        try:
            send_frame(outgoing, {"task": task, "seconds": seconds}, content)
            receive_frame(incoming)  # the code is loaded: the file's time limit starts now
            timer.start()
            header, result = receive_frame(incoming)
        except (BrokenPipeError, EOFError):
            raise self._explain(limits, seconds, is_late=is_late.is_set()) from None
        finally:
            timer.cancel()
        return result, not header["is_last"]

    def close(self) -> None:
        """Kill the process, and every program that it has started."""
        self._kill()
        for pipe in self._pipes():
            with suppress(BrokenPipeError):  # unsent data is no longer needed
                pipe.close()
        self._process.wait()

    def _kill(self) -> None:
        # If all have ended, Linux raises the first, and macOS the second.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        incoming, outgoing = self._process.stdout, self._process.stdin
        if incoming is None or outgoing is None:
            raise ReadingLimitError("the process that reads has no pipes")
        return incoming, outgoing

    def _explain(self, limits: ReadingLimits, seconds: int, *, is_late: bool) -> ReadingLimitError:
        code = self._process.wait()
        if is_late or code == -signal.SIGXCPU:
            return ReadingLimitError(
                f"reading it takes more than {seconds} seconds of processor time (`read_seconds` is "
                f"{limits.seconds}); split the file, or raise the setting if you trust it",
                code="too_slow",
                setting="read_seconds",
            )
        if code == OUT_OF_MEMORY or code == -signal.SIGABRT:
            return ReadingLimitError(
                f"reading it takes more than {limits.megabytes} MB of memory (`read_megabytes`), or breaks the "
                "reader; split the file, or raise the setting if you trust it",
                code="too_large",
                setting="read_megabytes",
            )
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return ReadingLimitError(
            f"the file breaks its reader ({how}): it is damaged, or made to do harm; write or export it again",
            code="broken_reader",
        )


_locks: Final[defaultdict[int, threading.Lock]] = defaultdict(threading.Lock)
_workers: Final[dict[int, _Worker]] = {}
"""By their memory limits, at most one process each: it is started for the first task that needs it, and reused."""


def run_limited(task: str, content: bytes, limits: ReadingLimits, *, size: int | None = None) -> bytes:
    """Run a task in another process that has limits of time and memory and no key in its environment.

    Args:
        task: ``module:function``; the function takes and returns bytes, and raises nothing.
        content: Argument of the function.
        limits: Time and memory that the task may use.
        size: Size of the file in bytes, if ``content`` only names it.

    Returns:
        Result of the function.

    Raises:
        ReadingLimitError: The task took too long, used too much memory, or crashed the process. The message is a
            sentence for the file's status, without the file's name and content.
    """
    with _locks[limits.megabytes]:
        worker = _take_worker(limits.megabytes)
        is_reusable = False
        try:
            result, is_reusable = worker.run(task, content, limits, len(content) if size is None else size)
        finally:
            if is_reusable:
                _workers[limits.megabytes] = worker
            else:
                worker.close()
        return result


def _take_worker(megabytes: int) -> _Worker:
    worker = _workers.pop(megabytes, None)
    # In a fork of this process, the worker belongs to the parent.
    return worker if worker is not None and worker.parent == os.getpid() else _Worker(megabytes)


@atexit.register
def _close_workers() -> None:
    while _workers:
        _, worker = _workers.popitem()
        if worker.parent == os.getpid():
            worker.close()
