"""The exceptions of Backstory, and how errors of the system become one of them.

Each is also the builtin exception that a caller would expect. Every message says what is wrong, where, and what to do.
A program reads the code instead.
"""

from __future__ import annotations

import errno
import os
import random
import re
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

_LONGEST_SECONDS: Final = 60.0

Result = TypeVar("Result")

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space; the quota of the user; a limit of the size of files."""
_CLOSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
_MANY_FILES: Final = (errno.EMFILE, errno.ENFILE)
_WRITERS: Final = frozenset({"_duckdb", "duckdb", "polars", "pyo3_runtime", "sqlite3"})
"""Packages that report what they cannot write by errors of their own, without the number of the system's error."""
_PANIC: Final = "PanicException"
"""What Polars raises where it can do nothing, as without a file descriptor; it is no ``Exception``."""
_LEAST_BYTES: Final = 1 << 20
"""What these need at least to write anything."""


class BackstoryError(Exception):
    """Base class of all exceptions that the library raises on purpose.

    Attributes:
        code: Name of the cause, in snake case: that of the class without "Error", or a narrower one. It stays the same
            when the message changes.
        status: Status of HTTP that the service answers with: below 500 where the caller can mend it.
    """

    code: str = "backstory"
    status: int = 500

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.code = _WORD_START.sub("_", cls.__name__.lstrip("_").removesuffix("Error")).lower()

    def __init__(self, *message: object, code: str | None = None) -> None:
        super().__init__(*message)
        if code is not None:
            self.code = code


class MissingExtraError(BackstoryError, ImportError):
    """A feature needs packages that are not installed; the message names the extra to install."""


class SettingsError(BackstoryError, ValueError):
    """A setting is unknown, missing or invalid; the message names the file and the line."""


class WorkspaceError(BackstoryError, FileNotFoundError):
    """A workspace, or a file that it must hold, is absent or not usable."""


class RemovalError(BackstoryError):
    """A run would drop messages or documents that earlier runs read; the message says which, and how to go on."""


class InputError(BackstoryError, ValueError):
    """An argument or an input file does not have the required form."""

    status = 400


class ReadError(InputError):
    """A file, or a source of files, cannot be read or fetched; the message never holds a whole address.

    The code ``empty_document`` means that a file holds no text, ``needs_ocr`` that all of it is in images.

    Attributes:
        authors: Names as written in an export that can be read with a further setting, which the message names; None of
            any other file. Tables must not show them, even though the messages are not read.
    """

    def __init__(
        self, message: str, authors: frozenset[str] | None = None, *, code: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.authors = authors


class ContractError(BackstoryError, ValueError):
    """A table breaks its contract (schema, uniqueness, a reference to another table), or its file is not as written.

    The code ``damaged_table`` means that a file is absent or another one, ``privacy`` that a row holds a real name.
    """


class ConflictError(BackstoryError, RuntimeError):
    """Another run has replaced what this one was about to replace; the same command makes it from what is there now."""

    status = 409


class StateError(BackstoryError, RuntimeError):
    """What a workspace or the service keeps cannot be used: a database, the store, a disk, a file of keys.

    It is damaged, busy, full, closed or cannot be reached; the message names its place and what to do.
    """


class ModelError(BackstoryError, RuntimeError):
    """A model, on this machine or behind an API, failed or gave an unusable answer.

    Attributes:
        blames_content: Whether a service refused what the request holds, so that a part of it may be accepted.
        text: The text that a service refuses to embed while it takes others.
        hits: What the search had found for a question, :class:`backstory.retrieval.found.Hit`, best first.
    """

    status = 503
    blames_content = False
    text: str | None = None
    hits: Sequence[Any] = ()


class ModelSetupError(ModelError):
    """No call of a model can succeed: its key is absent or refused, or its files are absent, damaged or unusable."""


class TransientError(ModelError):
    """A call of a service failed, and a retry may succeed.

    Attributes:
        delay: Seconds that the server requests to wait before a retry, or None.
    """

    def __init__(self, message: str, delay: float | None = None, *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.delay = delay


def retry(
    call: Callable[[], Result],
    attempts: int,
    *,
    wait: Callable[[float], None] = time.sleep,
    report: Callable[[TransientError, int, float], None] | None = None,
) -> Result:
    """Call until no :class:`TransientError` is raised; the error of the last attempt is raised.

    It waits as long as the service asks, else ever longer, after it reported the error, the attempt from 1, and the
    wait.
    """
    for attempt in range(1, attempts):
        try:
            return call()
        except TransientError as error:
            growing = min(_LONGEST_SECONDS, 2.0 ** (attempt - 1) + random.uniform(0, 1))
            delay = error.delay or growing
            if report is not None:
                report(error, attempt, delay)
        wait(delay)
    return call()


class SearchIndexError(BackstoryError, RuntimeError):
    """A search index, here or on a server, cannot be built, opened or searched."""


class NoIndexError(SearchIndexError, FileNotFoundError):
    """No snapshot of the search index has been published yet."""

    status = 409


class StoppedError(BackstoryError):
    """A run stopped before its end because a limit of the settings was reached; finished work is kept."""


class BudgetExhaustedError(StoppedError):
    """The next call of a service would exceed a budget, or its quota or credit for a longer time is used up."""

    status = 503


@contextmanager
def naming_faults_of_system(folder: Path | None = None) -> Iterator[None]:
    """Raise a :class:`StateError` in place of an error that the system caused, whatever library reports it.

    The disk of the folder, else of the current one, is full (code ``disk_full``), a file or folder may not be used
    (``unwritable``), too many files are open (``too_many_files``), or memory is at an end (``out_of_memory``). Every
    other error is raised as it is.
    """
    try:
        yield
    except BackstoryError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        number, disk = _find_number(error), folder or Path.cwd()
        name = getattr(error, "filename", None)
        path = os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else ""
        if _is_of_full_disk(error, number, disk):
            where = f" while writing {path}" if path else ""
            raise StateError(
                f"the disk of {disk} is full{where}: {_count_free(disk) / 1e6:,.1f} MB are free (or a quota or a limit "
                "of file sizes is reached). Finished work is kept, and no file is left half written. Free some space, "
                "and run the same command again to resume",
                code="disk_full",
            ) from error
        if number in _CLOSED and path:
            raise StateError(
                f"{path} cannot be used ({os.strerror(number or 0)}); correct the owner or the mode of it and its "
                "folder, or copy the workspace to where this user may write",
                code="unwritable",
            ) from error
        if number in _MANY_FILES:
            raise StateError(
                f"too many files are open ({error}). Finished work is kept. Allow the process 256 of them "
                "(`ulimit -n 256`), and run the same command again",
                code="too_many_files",
            ) from error
        # Python has no class for the second.
        if isinstance(error, MemoryError) or str(error) == "can't start new thread":
            raise StateError(
                f"there is not enough memory ({error or 'an allocation failed'}). Finished work is kept. Give the "
                "process more memory (`ulimit -v`, the limit of its container), or lower `partitions.rows_at_once`, "
                "and run the same command again",
                code="out_of_memory",
            ) from error
        raise


def _find_number(error: BaseException) -> int | None:
    """Find the number of the system's error; DuckDB and Polars give only its words, which are those of the system."""
    while type(error).__name__ == _PANIC and error.__context__ is not None:
        error = error.__context__  # after the first panic, Polars says only that there was one
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    if not _is_of_writer(error):
        return None
    return next((number for number in (*_FULL, *_MANY_FILES) if os.strerror(number) in str(error)), None)


def _is_of_writer(error: BaseException) -> bool:
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _WRITERS


def _is_of_full_disk(error: BaseException, number: int | None, folder: Path) -> bool:
    if number is not None:
        return number in _FULL
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
        return True
    if not _is_of_writer(error):
        return False
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    free = _count_free(folder)
    return (free if limit == resource.RLIM_INFINITY else min(free, limit)) < _LEAST_BYTES


def _count_free(folder: Path) -> int:
    status = os.statvfs(next(place for place in (folder, *folder.parents) if place.exists()))
    return status.f_bavail * status.f_frsize
