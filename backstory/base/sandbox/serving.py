"""The reading process: it sets its own limits, runs one task after another, and exits when it exceeds a limit."""

from __future__ import annotations

import importlib
import math
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

from backstory.base.sandbox.frames import receive_frame, send_frame

Task: TypeAlias = Callable[[bytes], bytes]

OUT_OF_MEMORY: Final = 77
"""Exit code when the memory limit is reached."""

BROKEN: Final = 78
"""Exit code when the reader raised an unexpected error."""

_RESERVED: Final = 4
_PAUSE_SECONDS: Final = 0.02
_KIBIBYTES_PER_MEGABYTE: Final = 1024
_BYTES_PER_KIBIBYTE: Final = 1024


def serve(megabytes: int) -> None:
    """Run the tasks from standard input until it is closed.

    Args:
        megabytes: Memory (MiB) that the process may use in addition to its code.
    """
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output printed by a library must not mix with the frames
    sys.excepthook = _die
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    first: int | None = None
    while True:
        try:
            header, content = receive_frame(incoming)
        except EOFError:
            return
        module, _, name = header["task"].partition(":")
        task: Task = getattr(importlib.import_module(module), name)
        # What earlier files left does not count: whether a file can be read must not depend on those before it.
        held = _held_kibibytes()
        first = held if first is None else first
        _limit_address_space(megabytes)
        _limit_processor(header["seconds"])
        send_frame(outgoing, {"is_started": True})
        with _watch_memory(held + megabytes * _KIBIBYTES_PER_MEGABYTE):
            result = task(content)
        # So that it does not pile up, and no earlier peak passes the limit of a later file.
        is_last = _peak_kibibytes() > first + megabytes * _KIBIBYTES_PER_MEGABYTE // 2
        send_frame(outgoing, {"is_last": is_last}, result)
        if is_last:
            return


def _die(kind: type[BaseException], _: BaseException, __: TracebackType | None) -> None:
    """Exit without a traceback, which could quote the file."""
    os._exit(OUT_OF_MEMORY if issubclass(kind, MemoryError) else BROKEN)


def _limit_processor(seconds: int) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(usage.ru_utime + usage.ru_stime) + seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(
        resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


def _limit_address_space(megabytes: int) -> None:
    """Make allocations fail before the machine runs out of memory; macOS does not enforce this limit."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        # Threads reserve address space that they never use. With this margin the memory watch below acts first.
        allowed = pages * resource.getpagesize() + _RESERVED * (megabytes << 20)
        soft = allowed if hard == resource.RLIM_INFINITY else min(allowed, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _peak_kibibytes() -> int:
    """Return the peak memory of the process."""
    if sys.platform == "linux":  # there, getrusage includes the parent process
        peak = _status_kibibytes("VmHWM:")
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _BYTES_PER_KIBIBYTE
    return peak


def _held_kibibytes() -> int:
    """Return the memory that the process holds now; macOS tells a process only its peak."""
    return _status_kibibytes("VmRSS:") if sys.platform == "linux" else _peak_kibibytes()


def _status_kibibytes(field: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition(field)[2].split(maxsplit=1)[0])


@contextmanager
def _watch_memory(most: int) -> Iterator[None]:
    """End the process if it uses more than ``most`` KiB while the block runs."""
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(_PAUSE_SECONDS):
            if _peak_kibibytes() > most:
                os._exit(OUT_OF_MEMORY)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    is_done.set()
    thread.join()
