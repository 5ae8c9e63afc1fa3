"""The files in a folder of chats or documents, and the members of archives: which may be read, and why others not.

Archives are checked before anything in them is unpacked: members, sizes, names, links and passwords. Nothing is ever
unpacked to the disk.
"""

from __future__ import annotations

import lzma
import os
import stat
import struct
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Final, TypeAlias

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import LEAVING, open_inside, state_of

MAGIC: Final = b"PK\x03\x04"
CHANGED: Final = "changed_file"
"""Code of a member of an archive that was written after it was listed."""
MOST_MEMBERS: Final = 10_000
MOST_BYTES: Final = 1 << 30
"""Limits of an archive of documents: the number of its members, and the size of all of them, unpacked."""
_MOST_RATIO: Final = 200
"""How many times its packed size a member of more than 1 MiB may have; tables of equal rows reach 100."""
DAMAGED: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, NotImplementedError, ValueError,
    OverflowError, RuntimeError,
)  # fmt: skip
"""Errors that the standard library raises for archives that are damaged, or packed in an unknown way."""
_BYTES_OF_MEMBER: Final = 400
"""Most bytes that the listing of an archive needs for each member, unless its names are an attack."""
_END_BYTES: Final = 22
_PROTECTED: Final = (
    "this is protected by a password; unpack the archive with it, or save the file without one"
)
Rule: TypeAlias = tuple[str, str]
"""The status of an entry that is left out, as in the table ``sources``, and the reason."""


def is_archive(name: str) -> bool:
    """Return whether a file is an archive by its name."""
    return PurePosixPath(name).suffix.lower() == ".zip"


def open_zip(file: IO[bytes], most_members: int = 1_000_000, most_bytes: int = 1 << 50) -> zipfile.ZipFile:
    """Open an archive; raise ``ReadError`` if it is damaged or exceeds a limit.

    The limits of chats are wide: they are read as streams within the limit of time, and their media not at all.
    """
    size = file.seek(0, 2)
    with _naming_damage():
        archive = None if _lists_too_much(file, size, most_members) else zipfile.ZipFile(file)
    if archive is None or len(archive.infolist()) > most_members:
        raise ReadError(f"the archive has more than {most_members:,} members; unpack it")
    members = archive.infolist()
    if sum(member.file_size for member in members) > most_bytes:
        raise ReadError(
            f"the members of the archive have more than {most_bytes >> 20:,} MiB; unpack it", code="too_large"
        )
    if sum(member.compress_size for member in members) > size:
        raise ReadError("the members of the archive overlap; the archive may be harmful, so do not use it")
    return archive


def _lists_too_much(file: IO[bytes], size: int, most_members: int) -> bool:
    """Return whether the listing of an archive would take too much memory, by the sizes of it that its end states."""
    file.seek(max(size - _END_BYTES - (1 << 16), 0))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06", 0, len(tail) - _END_BYTES + 4)
    sizes = [tail[end + 12 : end + 16]]
    if tail[end - 20 : end - 16] == b"PK\x06\x07":  # a second end, with numbers of 64 bits
        sizes.append(tail[end - 36 : end - 28])
    return end >= 0 and max(int.from_bytes(one, "little") for one in sizes) > most_members * _BYTES_OF_MEMBER


@contextmanager
def _naming_damage() -> Iterator[None]:
    """Raise a ``ReadError`` in place of what the standard library raises for a damaged archive."""
    try:
        yield
    except ReadError:
        raise
    except DAMAGED as error:
        problem = f"the ZIP archive is damaged or not complete, or Backstory cannot unpack it ({error})"
        raise ReadError(f"{problem}; copy or export it again", code="damaged_file") from error


def list_members(archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo, str | None]]:
    """List the members that are files, by their paths, and why one must not be read; those of one name once."""
    members = {info: info.filename.replace("\\", "/") for info in archive.infolist() if not info.is_dir()}
    counts = Counter(members.values())
    for info, name in members.items():
        if (count := counts.pop(name, 0)) > 1:
            yield name, info, "several members of the archive have this name; unpack the archive"
        elif count:
            yield name, info, _find_problem(name, info)


def leads_out(name: str) -> bool:
    """Return whether a member's name means a place outside of its archive, or cannot be shown."""
    parts = PurePosixPath(name).parts
    return not parts or name.startswith("/") or ".." in parts or ":" in parts[0] or not name.isprintable()


def _find_problem(name: str, info: zipfile.ZipInfo) -> str | None:
    if leads_out(name):
        return "its name points outside the archive or cannot be displayed; rename it"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "this is a link, and Backstory follows no links in archives; pack the file itself"
    if info.flag_bits & 1:
        return _PROTECTED
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others are unpacked as a whole
        return "this is packed in an unusual way; pack it again by the usual method (deflate)"
    if info.file_size > 1 << 20 and info.file_size > _MOST_RATIO * info.compress_size:
        return f"this would grow to more than {_MOST_RATIO} times its packed size; unpack it if you trust it"
    return None


@contextmanager
def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """Open a member; raise ``ReadError`` if it has a password, or is found to be damaged while it is read."""
    if info.flag_bits & 1:
        raise ReadError(_PROTECTED, code="protected")
    with _naming_damage(), archive.open(info) as member:
        yield member


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, size: int = -1) -> bytes:
    """Read a member, or its first bytes; no more is unpacked than the archive says, whatever its data would give."""
    with open_member(archive, info) as member:
        return member.read(size if size >= 0 else info.file_size)


class Archive:
    """An archive of documents, whose members are read from the file that was listed.

    It is open only while a member is read, so that no listing needs more descriptors than a process may have.
    """

    def __init__(self, root: Path, path: Path) -> None:
        """List an archive; raise ``ReadError`` if it cannot be read or exceeds the limits."""
        self._root, self._path, self._reading = root, path, threading.Lock()
        with open_inside(root, path) as file:
            self._listed = state_of(file)
            self.zip = open_zip(file, MOST_MEMBERS, MOST_BYTES)

    def read(self, info: zipfile.ZipInfo, size: int = -1) -> bytes:
        """Read a member; raise ``ReadError`` if it is damaged, or its archive is another one now."""
        with self._reading, open_inside(self._root, self._path) as file:
            self.require_same(file)
            self.zip.fp = file
            return read_member(self.zip, info, size)

    def require_same(self, file: BufferedReader) -> None:
        """Raise ``ReadError`` if an open file is not the one that was listed, or was written since."""
        if state_of(file) != self._listed:
            raise ReadError("the archive was written while it was read; run again", code=CHANGED)


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
    member: zipfile.ZipInfo | None = field(default=None, compare=False)

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
