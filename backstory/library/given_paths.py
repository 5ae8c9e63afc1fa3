"""Paths as a person or a program gives them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from backstory.errors import InputError

_SHOWN: Final = 80


def resolve_path(path: str | Path, base: Path = Path()) -> Path:
    """Give the absolute path of a file or folder, which need not be there, with links resolved.

    Args:
        path: The path, absolute or relative to ``base``; ``~`` is the home folder.
        base: Folder of relative paths; the current folder by default.

    Raises:
        InputError: No file can have this path, or it cannot be looked at.
    """
    if not str(path).strip():
        raise InputError("the path is blank; name a file or a folder")
    try:
        found = (base / Path(path).expanduser()).resolve()
        with suppress(FileNotFoundError, NotADirectoryError):
            found.lstat()  # finds names that are too long, and folders that may not be entered
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(
            f"{str(path)[:_SHOWN]!r} is no path that can be used ({reason}); name a file or a folder"
        ) from error
    return found
