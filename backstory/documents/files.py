"""The files of a folder of documents, and the skipped entries."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from backstory.errors import DocumentError

_DOCUMENT_SUFFIXES: Final = frozenset([".md", ".markdown"])
_FOLDER_NAMED_AS_FILE: Final = "a folder in spite of its name; its files are read by themselves"


@dataclass(frozen=True)
class DocumentFile:
    """One file that may be a document.

    Attributes:
        uri: Path relative to the folder, with ``/``; bytes that are not UTF-8 are escaped.
        path: Path for opening the file.
        folder: The folder, with symbolic links resolved.
    """

    uri: str
    path: Path
    folder: Path

    def read(self, size: int = -1, *, most_bytes: int | None = None) -> bytes:
        """Read the file.

        Args:
            size: Maximum number of bytes to read from the beginning; all if negative.
            most_bytes: Maximum size of the file, None for no limit.

        Raises:
            DocumentError: The file cannot or must not be read.
            FileNotFoundError: The file no longer exists.
        """
        if not _is_utf8(str(self.path.relative_to(self.folder))):
            raise DocumentError(f"{self.uri}: the file name is not UTF-8; rename the file")
        if not Path(os.path.realpath(self.path)).is_relative_to(self.folder):
            raise DocumentError(
                f"{self.uri}: this is a link that leaves the folder of documents; copy the file into it"
            )
        try:
            if not self.path.is_file():
                if not self.path.is_symlink() and not self.path.exists():
                    raise FileNotFoundError(self.path)
                raise DocumentError(
                    f"{self.uri}: this is not a file, or a link to none; replace or remove it"
                )
            if most_bytes is not None and self.path.stat().st_size > most_bytes:
                raise DocumentError(
                    f"{self.uri}: the file has more than {most_bytes:,} bytes, too many to read within the limit of "
                    "memory (`documents.read_megabytes`); split it, or raise the setting"
                )
            with self.path.open("rb") as file:
                return file.read(size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DocumentError(
                f"{self.uri}: the file cannot be read ({error.strerror}); permit it, or remove the file"
            ) from error


@dataclass(frozen=True)
class LeftOut:
    """A file or a folder that is skipped.

    Attributes:
        uri: Path relative to the folder; a folder's ends with ``/``, the folder itself is ``""``.
        status: ``ignored`` if a rule excludes it, ``failed`` if it cannot be opened.
        reason: Why it was skipped, and what to do.
    """

    uri: str
    status: Literal["ignored", "failed"]
    reason: str


@dataclass(frozen=True)
class FolderListing:
    """The entries in and below a folder of documents.

    Attributes:
        present: Whether the folder exists.
        files: The files that match the pattern, sorted by uri.
        left_out: All skipped entries, sorted by uri; the content of a skipped folder is not listed.
        unlisted: Uri prefixes of folders that cannot be listed, so that their files are unknown.
    """

    present: bool
    files: tuple[DocumentFile, ...]
    left_out: tuple[LeftOut, ...]
    unlisted: tuple[str, ...]


def list_files(folder: Path, pattern: str, apart: Collection[Path] = ()) -> FolderListing:
    """List a folder and its subfolders, except linked and hidden folders.

    Args:
        folder: The folder.
        pattern: Names with ``*``, ``?`` and ``[]``; a part ``**`` stands for any number of folders.
        apart: Files and folders with another purpose, which are skipped if they are in the folder.

    Returns:
        Every other file, either as its own entry or covered by a skipped folder above it.
    """
    root = folder.resolve()
    elsewhere = {path.resolve() for path in apart} - {root}
    wanted = PurePosixPath(pattern).parts
    refused: list[OSError] = []
    files: list[DocumentFile] = []
    left_out: list[LeftOut] = []
    for place, folders, names in os.walk(root, onerror=refused.append):
        here = Path(place)
        relative = here.relative_to(root)
        folders[:] = [name for name in folders if here / name not in elsewhere]
        closed = {name: rule for name in folders if (rule := _rule_for_folder(here / name, root))}
        left_out += [LeftOut(f"{_uri(relative / name)}/", *rule) for name, rule in closed.items()]
        left_out += [
            LeftOut(f"{_uri(relative / name)}/", "ignored", _FOLDER_NAMED_AS_FILE)
            for name in folders
            if name not in closed and PurePosixPath(name).suffix.lower() in _DOCUMENT_SUFFIXES
        ]
        folders[:] = [name for name in folders if name not in closed]
        for name in names:
            path = relative / name
            if root / path in elsewhere:
                continue
            reason = _rule_for_file(path, wanted, pattern)
            if reason is None:
                files.append(DocumentFile(_uri(path), root / path, root))
            else:
                left_out.append(LeftOut(_uri(path), "ignored", reason))
    failed = [_describe_refusal(error, root) for error in refused if not isinstance(error, FileNotFoundError)]
    return FolderListing(
        present=root.exists(),
        files=tuple(sorted(files, key=lambda file: file.uri)),
        left_out=tuple(sorted([*left_out, *failed], key=lambda entry: entry.uri)),
        unlisted=tuple(sorted(entry.uri for entry in failed)),
    )


def list_file(path: Path) -> FolderListing:
    """List a single file as if it were the only file in its folder.

    Returns:
        A listing with the file, or with a skipped entry if it is hidden.
    """
    root = path.parent.resolve()
    name = Path(path.name)
    reason = _rule_for_file(name, ("*",), "*")
    uri = _uri(name)
    return FolderListing(
        present=True,
        files=() if reason else (DocumentFile(uri, root / name, root),),
        left_out=(LeftOut(uri, "ignored", reason),) if reason else (),
        unlisted=(),
    )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _uri(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _rule_for_folder(path: Path, root: Path) -> tuple[Literal["ignored", "failed"], str] | None:
    if path.name.startswith("."):
        return "ignored", "hidden folder: its name begins with a dot"
    if not path.is_symlink():
        return None
    if Path(os.path.realpath(path)).is_relative_to(root):
        return "ignored", "link to a folder that is read where it lies"
    return (
        "failed",
        "this is a link to a folder elsewhere, which is not entered; copy the folder, or remove the link",
    )


def _rule_for_file(path: Path, wanted: Sequence[str], pattern: str) -> str | None:
    if path.name.startswith("."):
        return "hidden file: its name begins with a dot"
    return None if _matches(path.parts, wanted) else f"`documents: {{pattern: {pattern}}}` leaves it out"


def _describe_refusal(error: OSError, root: Path) -> LeftOut:
    path = Path(error.filename).relative_to(root)
    uri = "" if path == Path() else f"{_uri(path)}/"
    reason = f"this folder cannot be listed ({error.strerror}), so that nothing in it was read; permit it, or move it"
    return LeftOut(uri, "failed", reason)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        rest = pattern[1:] or ("*",)
        return any(_matches(parts[count:], rest) for count in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
