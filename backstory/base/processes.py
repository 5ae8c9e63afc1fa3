"""Names processes so that others of the same machine can tell whether one has ended, whatever its number is now."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_STATE, _THREADS, _STARTED = 0, 17, 19
"""Places in what follows the name of the program in ``/proc/PID/stat``."""
_ENDED: Final = frozenset("ZX")
"""States of a process that has ended, and that its parent has not asked for yet."""


def name_process() -> str:
    """Name this process: its machine since it was started, its namespace of numbers, its number and its start.

    Returns:
        The name; empty where the system does not tell all of it.
    """
    number = os.getpid()
    place, status = _name_place(number), _read_status(number)
    return f"{place} {number} {status[_STARTED]}" if place and status else ""


def has_ended(name: str) -> bool:
    """Return whether a process has ended for certain: it was one of this machine and this namespace of numbers.

    A number that another process has now is told by its start. Machines that were restored from one image of the memory
    pass for one and the same if they have one name, too.

    Args:
        name: What :func:`name_process` gave there.
    """
    place, _, rest = name.rpartition(" ")[0].rpartition(" ")
    if not place or place != _name_place(os.getpid()):
        return False
    number, started = int(rest), name.rpartition(" ")[2]
    try:
        os.kill(number, 0)  # /proc may hide the processes of other users
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    status = _read_status(number)
    if not status:
        return False
    is_over = status[_STATE] in _ENDED and int(status[_THREADS]) <= 1
    return is_over or status[_STARTED] != started


def _name_place(number: int) -> str:
    """Name the machine, since when it runs, and the namespace in which its processes have numbers."""
    try:
        if (_PROC / "self").readlink() != Path(str(number)):
            return ""  # /proc shows the numbers of another namespace
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{socket.gethostname()} {boot} {namespace}"


def _read_status(number: int) -> list[str]:
    """Read what the system tells of a process, from its state on; nothing if it does not."""
    try:
        status = (_PROC / str(number) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return status.rpartition(")")[2].split()
