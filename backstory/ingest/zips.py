"""ZIP archives, checked before anything in them is unpacked: members, sizes, names, links and passwords.

Nothing is ever unpacked to the disk.
"""

from __future__ import annotations

import lzma
import stat
import struct
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Final

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import open_inside, state_of

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
