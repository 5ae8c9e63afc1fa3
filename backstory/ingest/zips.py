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
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, ClassVar, Final

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
_END: Final = struct.Struct("<4s8xII2x")
_END_MARK: Final = b"PK\x05\x06"
_MOST_COMMENT: Final = 1 << 16
_ENCRYPTED: Final = 0x1
_PROTECTED: Final = (
    "this is protected by a password; unpack the archive with it, or save the file without one"
)
_reading: Final = threading.RLock()


def is_archive(name: str) -> bool:
    """Return whether a file is an archive by its name."""
    return PurePosixPath(name).suffix.lower() == ".zip"


def open_zip(file: IO[bytes], most_members: int, most_bytes: int) -> zipfile.ZipFile:
    """Open an archive; raise ``ReadError`` if it is damaged or exceeds a limit."""
    size = file.seek(0, 2)
    file.seek(max(size - _END.size - _MOST_COMMENT, 0))
    tail = file.read()
    place = tail.rfind(_END_MARK)
    if place < 0 or len(tail) - place < _END.size:
        raise _name_damage("its end is missing")
    # The size of the listing decides how much memory it takes to read it.
    is_long = _END.unpack_from(tail, place)[1] > most_members * _BYTES_OF_MEMBER
    with _naming_damage():
        archive = None if is_long else zipfile.ZipFile(file)
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


def _name_damage(problem: str) -> ReadError:
    return ReadError(
        f"the ZIP archive is damaged or not complete, or Backstory cannot unpack it ({problem}); copy or export it "
        "again",
        code="damaged_file",
    )


@contextmanager
def _naming_damage() -> Iterator[None]:
    """Raise a ``ReadError`` in place of what the standard library raises for a damaged archive."""
    try:
        yield
    except ReadError:
        raise
    except DAMAGED as error:
        raise _name_damage(str(error)) from error


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
    if info.flag_bits & _ENCRYPTED:
        return _PROTECTED
    if info.file_size > 1 << 20 and info.file_size > _MOST_RATIO * info.compress_size:
        return f"this would grow to more than {_MOST_RATIO} times its packed size; unpack it if you trust it"
    return None


@contextmanager
def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """Open a member; raise ``ReadError`` if it has a password, or is found to be damaged while it is read."""
    if info.flag_bits & _ENCRYPTED:
        raise ReadError(_PROTECTED, code="protected")
    with _naming_damage(), archive.open(info) as member:
        yield member


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, size: int = -1) -> bytes:
    """Read a member, or its first bytes; no more is unpacked than the archive says, whatever its data would give."""
    with open_member(archive, info) as member:
        content = member.read(size if size >= 0 else info.file_size)
    if size < 0 and len(content) < info.file_size:
        raise _name_damage("a member is cut off")
    return content


class Archive:
    """An archive of documents, whose members are read from the file that was listed.

    One archive at a time is held open, so that no listing needs more descriptors than a process may have.
    """

    _held: ClassVar[ExitStack] = ExitStack()

    def __init__(self, root: Path, path: Path) -> None:
        """Open an archive; raise ``ReadError`` if it cannot be read or exceeds the limits."""
        self._root, self._path = root, path
        with _reading:
            self._open()
            self._listed = state_of(self._file)

    def _open(self) -> None:
        Archive._held.close()
        with ExitStack() as stack:
            self._file: BufferedReader = stack.enter_context(open_inside(self._root, self._path))
            self.zip = open_zip(self._file, MOST_MEMBERS, MOST_BYTES)
            Archive._held = stack.pop_all()

    def read(self, info: zipfile.ZipInfo, size: int = -1) -> bytes:
        """Read a member; raise ``ReadError`` if it is damaged, or its archive is another one now."""
        with _reading:
            if self._file.closed:
                self._open()
            self.require_same(self._file)
            return read_member(self.zip, info, size)

    def require_same(self, file: BufferedReader) -> None:
        """Raise ``ReadError`` if an open file is not the one that was listed, or was written since."""
        if state_of(file) != self._listed:
            raise ReadError("the archive was written while it was read; run again", code=CHANGED)
