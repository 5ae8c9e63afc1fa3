"""Atomic replacement of files: one writer at a time writes a temporary file, flushes it to disk, and renames it.

Locks and flushing of all other shared files are here as well. The module relies on POSIX: an open file can be
renamed and removed, and a lock ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import IO, Final

from backstory.base.environment import CACHE_VARIABLE
from backstory.base.errors import ModelSetupError
from backstory.base.telemetry import log_event

logger = logging.getLogger(__name__)

_MOST_BYTES: Final = 255
"""Length of the longest name that common file systems allow."""


def temporary_path(path: Path) -> Path:
    """Return the hidden path, in the same folder, to which a file's next content is written.

    Of a file whose name is nearly as long as names may be, it is named by a hash.
    """
    name = os.fsencode(path.name)
    is_short = len(name) <= _MOST_BYTES - len("..tmp")
    return path.with_name(f".{path.name if is_short else hashlib.sha256(name).hexdigest()}.tmp")


@contextmanager
def exclusive_temporary(path: Path) -> Iterator[BufferedRandom]:
    """Open the temporary file of a path, empty and locked against all other threads and processes; make its folder.

    The name is fixed, so the next writer overwrites what a killed one left. The file is deleted at the end unless
    :func:`publish` renamed it.
    """
    temporary = temporary_path(path)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        lock(file)
        if is_named(file, temporary):
            break
        file.close()  # the previous writer has renamed or deleted this file
    with file:
        file.truncate(0)
        try:
            yield file
        finally:
            if is_named(file, temporary):
                temporary.unlink()


def write_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace a file as a whole, so that whoever reads it finds one content or the other, also after a crash.

    Its folder is made if it is absent. ``mode`` is its permissions; None gives those of any new file.
    """
    with exclusive_temporary(path) as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        publish(temporary_path(path), path)


def require_built_file(path: Path, build: Callable[[], bytes]) -> None:
    """Build a file of the cache folder, such as the graph of a model, unless it is there, or raise ``ModelSetupError``.

    If several processes need it at once, one builds it and the rest wait.
    """
    if path.exists():
        return
    started = time.perf_counter()
    try:
        with exclusive_temporary(path) as file:
            if path.exists():
                return
            file.write(build())
            file.flush()
            publish(temporary_path(path), path)
    except OSError as error:
        raise ModelSetupError(
            f"what a model needs cannot be written to {path} ({error}); make room there, or set "
            f"{CACHE_VARIABLE} to a folder that can be written to",
            code="unwritable_folder",
        ) from error
    log_event(logger, "built", path=path, bytes=path.stat().st_size, seconds=time.perf_counter() - started)


def lock(file: int | IO[bytes] | IO[str], *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file against every other opening of it, in this process or another; return whether it was free.

    Others may hold shared locks at the same time. The lock ends when the file is closed, at the latest with the
    process.
    """
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(file, operation)
    except BlockingIOError:
        return False
    return True


def publish(temporary: Path, path: Path) -> None:
    """Rename a finished file to its final name, and wait until both are on disk."""
    flush(temporary)
    temporary.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_named(file: IO[bytes], path: Path) -> bool:
    """Return whether an open file is the one that a path names."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
