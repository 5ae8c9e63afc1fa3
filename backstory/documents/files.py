"""The files of a folder of documents."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NoReturn

from backstory.errors import DocumentError, WorkspaceError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DocumentFile:
    """One file that may be a document.

    Attributes:
        uri: Its path relative to the folder, with ``/``; bytes that are not UTF-8 are escaped.
        path: Where it is.
        folder: The folder, without symbolic links.
    """

    uri: str
    path: Path
    folder: Path

    def read(self) -> bytes:
        """Read the file.

        Raises:
            DocumentError: It cannot or must not be read.
            FileNotFoundError: It is gone.
        """
        if os.fsencode(self.path.relative_to(self.folder)) != self.uri.encode():
            raise DocumentError(f"{self.uri}: the file name is not UTF-8; rename the file")
        if not Path(os.path.realpath(self.path)).is_relative_to(self.folder):
            raise DocumentError(
                f"{self.uri}: this is a link that leaves the folder of documents; copy the file into it"
            )
        if not self.path.is_file():
            if not self.path.is_symlink() and not self.path.exists():
                raise FileNotFoundError(self.path)
            raise DocumentError(f"{self.uri}: this is not a file, or a link to none; replace or remove it")
        try:
            return self.path.read_bytes()
        except PermissionError as error:
            raise DocumentError(
                f"{self.uri}: the file cannot be read ({error.strerror}); permit it"
            ) from error


def find_files(folder: Path, pattern: str) -> Iterator[DocumentFile]:
    """Find the files of a folder that match a pattern; hidden files and folders are passed over.

    Args:
        folder: The folder.
        pattern: Names with ``*``, ``?`` and ``[]``; a part ``**`` stands for any number of folders.

    Yields:
        The files, in no particular order. Linked folders are not entered.

    Raises:
        WorkspaceError: The folder, or one in it, is not there or cannot be listed; otherwise its documents
            would count as deleted.
    """
    root = folder.resolve()
    wanted = PurePosixPath(pattern).parts
    for place, folders, names in os.walk(root, onerror=_refuse):
        relative = Path(place).relative_to(root)
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            target = Path(os.path.realpath(Path(place) / name))
            if not target.is_relative_to(root):
                logger.warning(
                    "linked folder is not entered, since it leaves the documents: %s", relative / name
                )
        for name in names:
            path = relative / name
            if not name.startswith(".") and _matches(path.parts, wanted):
                uri = os.fsencode(path).decode("utf-8", "backslashreplace")
                yield DocumentFile(uri, root / path, root)


def _refuse(error: OSError) -> NoReturn:
    raise WorkspaceError(
        f"{error.filename} cannot be listed ({error.strerror}); make it, or set `documents: folder`"
    ) from error


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        rest = pattern[1:] or ("*",)
        return any(_matches(parts[count:], rest) for count in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
