"""Walking a folder of chats or documents: the files that may be read, and the skipped entries with the reasons."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from zipfile import ZipInfo

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import LEAVING, open_inside
from backstory.ingest.zips import Archive

Rule: TypeAlias = tuple[str, str]
"""The status of an entry that is left out, as in the table ``sources``, and the reason."""


@dataclass(frozen=True)
class ListedFile:
    """A file that may be read, or a folder that is read as one, whose uri ends with ``/``.

    ``uri`` is its path below the folder that was walked, escaped where it is not UTF-8; ``root`` is that folder with
    links resolved, of which nothing outside is opened. ``kind`` and ``tenant`` are those of a source of documents.
    ``is_vetted``: the settings let it be read though it may look like a secret. ``archive`` and ``member``: what it is
    in a ZIP file, which ``path`` leads to.
    """

    uri: str
    path: Path
    root: Path
    kind: str | None = None
    tenant: str | None = None
    is_vetted: bool = False
    archive: Archive | None = field(default=None, compare=False)
    member: ZipInfo | None = field(default=None, compare=False)

    def read(self, size: int = -1, *, most_bytes: int | None = None) -> bytes:
        """Read the file; raise ``ReadError`` if it cannot or must not be read, or has more bytes than the most."""
        if self.archive is not None and self.member is not None:
            require_size(self.member.file_size, most_bytes)
            return self.archive.read(self.member, size)
        with self.open() as file:
            require_size(os.fstat(file.fileno()).st_size, most_bytes)
            return file.read(size)

    def open(self) -> AbstractContextManager[BufferedReader]:
        """Open the file, or the archive that it is a member of; it raises as :meth:`read`."""
        return open_inside(self.root, self.path)


@dataclass(frozen=True)
class Skipped:
    """A file, or a folder whose files are not listed one by one, and why it is not read.

    A folder's uri ends with ``/``, the walked folder itself is ``""``. ``hides_files``: its files are unknown, so that
    what was read of them earlier is kept.
    """

    uri: str
    status: str
    reason: str
    hides_files: bool = False


@dataclass(frozen=True)
class Listing:
    """The files in and below a folder that may be read, and all skipped entries, both by uri."""

    present: bool
    files: tuple[ListedFile, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def unlisted(self) -> frozenset[str]:
        """The uris of folders and files that could not be looked into, so that it is not known what they hold."""
        return frozenset(entry.uri for entry in self.skipped if entry.hides_files)

    def put_below(self, prefix: str, kind: str | None = None, tenant: str | None = None) -> Listing:
        """Put a text before the uri of every entry, and give the files a kind and a tenant."""
        placed = (replace(file, uri=f"{prefix}{file.uri}", kind=kind, tenant=tenant) for file in self.files)
        skipped = (replace(entry, uri=f"{prefix}{entry.uri}") for entry in self.skipped)
        return Listing(self.present, tuple(placed), tuple(skipped))

    def __add__(self, other: Listing) -> Listing:
        """Add the files of another folder; the folders are present if one of them is."""
        return Listing(self.present or other.present, self.files + other.files, self.skipped + other.skipped)


class Folder:
    """Lists a folder and its subfolders once, except linked and hidden ones.

    Each file is an entry of its own, or is covered by a skipped folder above it. A subclass knows what is left out, and
    which folders are read as one file.
    """

    def __init__(self, folder: Path) -> None:
        """Name the folder."""
        self.root = folder.resolve()
        self.files: list[ListedFile] = []
        self.skipped: list[Skipped] = []

    def explain(self, uri: str) -> Rule | None:
        """Return the rule that leaves out a file or a folder; None if none does."""
        raise NotImplementedError

    def enter(self, here: Path, folders: list[str], names: list[str]) -> None:
        """Look at the names in a folder first, and drop those of what is no entry."""
        raise NotImplementedError

    def take(self, file: ListedFile) -> None:
        """Take a file that no rule leaves out."""
        self.files.append(file)

    def keep(self, file: ListedFile, rule: Rule | None) -> None:
        """Take a file, or skip it by a rule."""
        if rule is None:
            self.take(file)
        else:
            self.skipped.append(Skipped(file.uri, *rule))

    def name(self, path: Path, end: str = "") -> str:
        """Return the uri of what lies below the folder, which itself has none."""
        return "" if path == self.root else f"{escape(path.relative_to(self.root))}{end}"

    def list_all(self, apart: Collection[Path] = ()) -> Listing:
        """List the folder without the files and folders that are read apart; one that is absent has no files."""
        elsewhere = {path.resolve() for path in apart} - {self.root}
        refused: list[OSError] = []
        for place, folders, names in os.walk(self.root, onerror=refused.append):
            here = Path(place)
            self.enter(here, folders, names)
            folders[:] = [
                name for name in folders if here / name not in elsewhere and self._is_open(here / name)
            ]
            for path in map(here.joinpath, names):
                if path not in elsewhere:
                    self._add(path)
        for error in refused:
            if not isinstance(error, FileNotFoundError):
                why = f"Backstory cannot list this folder ({error.strerror}) and reads nothing in it; make it readable"
                uri = self.name(Path(error.filename), "/")
                self.skipped.append(Skipped(uri, "failed", f"{why}, or move it", hides_files=True))
        return self._list_found()

    def list_named(self, names: Iterable[str]) -> Listing:
        """List files of the folder as if it held no others."""
        for name in names:
            self._add(self.root / name)
        return self._list_found()

    def _list_found(self) -> Listing:
        self.files.sort(key=lambda file: file.uri)
        self.skipped.sort(key=lambda entry: entry.uri)
        return Listing(self.root.exists(), tuple(self.files), tuple(self.skipped))

    def _is_open(self, folder: Path) -> bool:
        """Return whether a folder is to be walked."""
        uri = self.name(folder, "/")
        rule = self.explain(uri)
        if rule is None and folder.is_symlink():
            rule = "failed", LEAVING
            if Path(os.path.realpath(folder)).is_relative_to(self.root):
                rule = "ignored", "link to a folder that is read at its own place"
        if rule is not None:
            self.skipped.append(Skipped(uri, *rule))
        return rule is None

    def _add(self, path: Path) -> None:
        uri = self.name(path)
        rule = self.explain(uri)
        if rule is None and uri != str(path.relative_to(self.root)):
            rule = "failed", "the file name is not UTF-8; rename the file, or its folder"
        self.keep(ListedFile(uri, path, self.root), rule)


def escape(path: Path | str) -> str:
    """Write a path with escapes for what is not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def explain_hidden(uri: str) -> str | None:
    """Return why a hidden file or folder is left out; None for any other."""
    if not PurePosixPath(uri).name.startswith("."):
        return None
    return f"hidden {'folder' if uri.endswith('/') else 'file'}: its name begins with a dot"


def require_size(size: int, most_bytes: int | None) -> None:
    """Raise ``ReadError`` if a file has more bytes than can be read."""
    if most_bytes is not None and size > most_bytes:
        raise ReadError(
            f"the file has more than {most_bytes:,} bytes, too many to read within the limit of memory "
            "(`read_megabytes`); split it, or raise the setting",
            code="too_large",
        )
