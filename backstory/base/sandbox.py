"""Reading untrusted files in another process, which has limits of time and memory, and no key.

The parent starts the process for the first task that needs it, sends it one task after another, and kills it when a
limit is exceeded. The two speak in frames: a line of JSON with the number of bytes that follow, then these bytes.
"""

from __future__ import annotations

import atexit
import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from backstory.base.errors import ReadError

_OUT_OF_MEMORY: Final = 77
"""Exit code of the process when the memory limit is reached."""
_BROKEN: Final = 78
"""Exit code when the reader raised an unexpected error."""

_WAITS: Final = 5
_MEGABYTE: Final = 1 << 20
_RESERVED: Final = 4
_PAUSE_SECONDS: Final = 0.02
_NOW, _PEAK = "VmRSS:", "VmHWM:"
_CODE: Final = "import sys; from backstory.base.sandbox import serve; serve(int(sys.argv[1]))"


@dataclass(frozen=True)
class ReadingLimits:
    """Limits of one file."""

    seconds: int = 60
    """CPU time in seconds for a small file; each megabyte of the file adds one second."""
    megabytes: int = 2048
    """Memory (MiB) that the reader may use in addition to its code."""

    @property
    def most_bytes(self) -> int:
        """Maximum size of a file that is opened; parsing it takes several times as much memory."""
        return self.megabytes * _MEGABYTE // 4

    def processor_seconds(self, size: int) -> int:
        """Return the CPU time that a file of this size may take."""
        return self.seconds + size // _MEGABYTE

    def wall_seconds(self, size: int) -> float:
        """Return the wall time that a file of this size may take on a busy machine."""
        return float(_WAITS * self.processor_seconds(size))


def run_limited(task: str, content: bytes, limits: ReadingLimits, *, size: int | None = None) -> bytes:
    """Run a task, ``module:function`` from bytes to bytes, in another process with limits and without keys.

    ``size`` is that of the file in bytes, if ``content`` only names it. A :class:`ReadError` means that the task took
    too long, used too much memory, or crashed; its message is a sentence without the file's name and content.
    """
    with _locks[limits.megabytes]:
        worker = _workers.pop(limits.megabytes, None)
        if worker is None or worker.parent != os.getpid():  # in a fork, it belongs to the parent
            worker = _Worker(limits.megabytes)
        is_reusable = False
        try:
            result, is_reusable = worker.run(task, content, limits, len(content) if size is None else size)
        finally:
            if is_reusable:
                _workers[limits.megabytes] = worker
            else:
                worker.close()
        return result


class _Worker:
    """One reading process with a fixed memory limit, as its parent sees it."""

    def __init__(self, megabytes: int) -> None:
        # Imported here: it loads the types of keys, which the started process does not need.
        from backstory.base.environment import reader_environment

        self.parent = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-P", "-c", _CODE, str(megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=reader_environment(),
            start_new_session=True,  # a keyboard interrupt must reach the parent only
        )
        assert self._process.stdout is not None and self._process.stdin is not None  # noqa: S101, PT018
        self._incoming, self._outgoing = self._process.stdout, self._process.stdin

    def run(self, task: str, content: bytes, limits: ReadingLimits, size: int) -> tuple[bytes, bool]:
        """Run a task; return its result, and whether the process can be reused."""
        seconds = limits.processor_seconds(size)
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            self._kill()

        timer = threading.Timer(limits.wall_seconds(size), end)
        try:
            _send_frame(self._outgoing, {"task": task, "seconds": seconds}, content)
            _receive_frame(self._incoming)  # the code is loaded: the file's time limit starts now
            timer.start()
            header, result = _receive_frame(self._incoming)
        except (BrokenPipeError, EOFError):
            raise self._explain(limits, seconds, is_late=is_late.is_set()) from None
        finally:
            timer.cancel()
        return result, not header["is_last"]

    def close(self) -> None:
        """Kill the process, and every program that it has started."""
        self._kill()
        for pipe in (self._incoming, self._outgoing):
            with suppress(BrokenPipeError):  # unsent data is no longer needed
                pipe.close()
        self._process.wait()

    def _kill(self) -> None:
        # If all have ended, Linux raises the first, and macOS the second.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _explain(self, limits: ReadingLimits, seconds: int, *, is_late: bool) -> ReadError:
        code = self._process.wait()
        if is_late or code == -signal.SIGXCPU:
            return ReadError(
                f"reading it takes more than {seconds} seconds of processor time (`read_seconds` is "
                f"{limits.seconds}); split the file, or raise the setting if you trust it",
                code="too_slow",
            )
        if code in (_OUT_OF_MEMORY, -signal.SIGABRT):
            return ReadError(
                f"reading it takes more than {limits.megabytes} MB of memory (`read_megabytes`), or breaks the "
                "reader; split the file, or raise the setting if you trust it",
                code="too_large",
            )
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return ReadError(
            f"the file breaks its reader ({how}): it is damaged, or made to do harm; write or export it again",
            code="broken_reader",
        )


_locks: Final[defaultdict[int, threading.Lock]] = defaultdict(threading.Lock)
_workers: Final[dict[int, _Worker]] = {}
"""By their memory limits, at most one process each."""


@atexit.register
def _close_workers() -> None:
    while _workers:
        _, worker = _workers.popitem()
        if worker.parent == os.getpid():
            worker.close()


def serve(megabytes: int) -> None:
    """Run the tasks from standard input until it is closed, as the process that reads.

    Each may use so much memory (MiB) in addition to the code.
    """
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output printed by a library must not mix with the frames
    sys.excepthook = _die
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    first: int | None = None
    while True:
        try:
            header, content = _receive_frame(incoming)
        except EOFError:
            return
        module, _, name = header["task"].partition(":")
        task = getattr(importlib.import_module(module), name)
        # What earlier files left does not count: whether a file can be read must not depend on those before it.
        held = _read_kibibytes(_NOW)
        first = held if first is None else first
        _limit_address_space(megabytes)
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + header["seconds"])
        _send_frame(outgoing, {"is_started": True})
        with _watch_memory(held + megabytes * 1024):
            result = task(content)
        # So that it does not pile up, and no earlier peak passes the limit of a later file.
        is_last = _read_kibibytes(_PEAK) > first + megabytes * 1024 // 2
        _send_frame(outgoing, {"is_last": is_last}, result)
        if is_last:
            return


def _die(kind: type[BaseException], _: BaseException, __: TracebackType | None) -> None:
    """Exit without a traceback, which could quote the file."""
    os._exit(_OUT_OF_MEMORY if issubclass(kind, MemoryError) else _BROKEN)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _limit_address_space(megabytes: int) -> None:
    """Make allocations fail before the machine runs out of memory; macOS does not enforce this limit."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        # Threads reserve address space that they never use. With this margin the memory watch below acts first.
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + _RESERVED * megabytes * _MEGABYTE)


def _read_kibibytes(field: str) -> int:
    """Return the memory that the process holds now, or held at its peak; macOS tells a process only its peak."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # on Linux that includes the parent
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition(field)[2].split(maxsplit=1)[0])


@contextmanager
def _watch_memory(most: int) -> Iterator[None]:
    """End the process if it uses more than ``most`` KiB while the block runs."""
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(_PAUSE_SECONDS):
            if _read_kibibytes(_PEAK) > most:
                os._exit(_OUT_OF_MEMORY)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    is_done.set()
    thread.join()


def _send_frame(stream: IO[bytes], header: dict[str, Any], content: bytes = b"") -> None:
    stream.write(json.dumps(header | {"size": len(content)}).encode() + b"\n")
    stream.write(content)
    stream.flush()


def _receive_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """Wait for one frame; raise ``EOFError`` if the other process has ended, possibly in the middle of one."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    header: dict[str, Any] = json.loads(line)
    content = stream.read(header["size"])
    if len(content) < header["size"]:
        raise EOFError
    return header, content
