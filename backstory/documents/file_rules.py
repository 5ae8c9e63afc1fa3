"""Which files of a folder are left out: by patterns of the settings, and by files ``.backstoryignore``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from backstory.documents.opening import open_inside
from backstory.errors import DocumentError
from backstory.path_patterns import Patterns, compile_patterns

IGNORE_FILE: Final = ".backstoryignore"
"""File of patterns, in any folder, that leaves files out of the folder and those below it."""

_MOST_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class FileRules:
    """What the settings leave out of a folder.

    Attributes:
        include: Files to read; without patterns, all.
        exclude: Files and folders to leave out.
        name: Where the patterns stand, such as ``source notes``, for the reasons.
    """

    include: Patterns = field(default_factory=Patterns)
    exclude: Patterns = field(default_factory=Patterns)
    name: str = "documents"

    def explain_folder(self, path: str) -> str | None:
        """Say which pattern leaves a folder out; None if none does. Its path ends with ``/``."""
        found = self.exclude.find(path)
        return f"`exclude: {found[1]}` of {self.name} leaves it out" if found and found[0] else None

    def explain_file(self, path: str) -> str | None:
        """Say which pattern leaves a file out; None if none does."""
        reason = self.explain_folder(path)
        if reason is None and self.include.lines:
            found = self.include.find(path)
            if found is None or not found[0]:
                reason = f"no pattern of `include` of {self.name} names it"
        return reason


def read_ignore_file(folder: Path, root: Path) -> Patterns | None:
    """Read the patterns of a folder; None if it has no file of them.

    Raises:
        DocumentError: The file is there and cannot be used, so that it is not known what must not be read.
    """
    path = folder / IGNORE_FILE
    if not path.is_symlink() and not path.exists():
        return None
    name = str(PurePosixPath(path.relative_to(root)))
    try:
        with open_inside(root, path, name, most_bytes=_MOST_BYTES) as file:
            text = file.read().decode("utf-8-sig")
        patterns = Patterns(tuple(text.splitlines()))
        compile_patterns(patterns.lines)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise DocumentError(f"{name} is not UTF-8 text; save it as such") from error
    except ValueError as error:
        raise DocumentError(f"{name}: {error}") from error
    return patterns


def explain_ignored(path: str, by_folder: Mapping[str, Patterns]) -> str | None:
    """Say which file of patterns leaves a path out; None if none does. The file nearest to it decides.

    Args:
        path: Relative to the root, with ``/``; that of a folder ends with one.
        by_folder: The patterns of each folder that has some, by its path, which is empty or ends with ``/``.
    """
    for folder in _list_around(path):
        patterns = by_folder.get(folder)
        found = patterns.find(path[len(folder) :]) if patterns else None
        if found is not None:
            return f"`{found[1]}` in {folder}{IGNORE_FILE} leaves it out" if found[0] else None
    return None


def _list_around(path: str) -> Iterable[str]:
    """List the folders around a path, the nearest first."""
    place = path.rstrip("/").rpartition("/")[0]
    while place:
        yield f"{place}/"
        place = place.rpartition("/")[0]
    yield ""
