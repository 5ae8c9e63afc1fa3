"""ZIP archives, checked before anything in them is unpacked: members, sizes, names, links and passwords.

Nothing is ever unpacked to the disk.
"""

from __future__ import annotations

import lzma
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Final

from backstory.base.errors import ReadError

MAGIC: Final = b"PK\x03\x04"
MOST_RATIO: Final = 200
"""How many times its packed size a member of more than 1 MiB may have; tables of equal rows reach 100."""
DAMAGED: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, NotImplementedError, ValueError,
    OverflowError, RuntimeError,
)  # fmt: skip
"""Errors that the standard library raises for archives that are damaged, or packed in an unknown way."""
_SMALL: Final = 1 << 20
_BYTES_OF_MEMBER: Final = 400
"""What the listing of an archive has for each member at most, where names are no attack."""
_END: Final = struct.Struct("<4s4H2IH")
_END_MARK: Final = b"PK\x05\x06"
_MOST_COMMENT: Final = 1 << 16
_ENCRYPTED: Final = 0x1


@dataclass(frozen=True)
class ZipLimits:
    """Limits of one archive: the number of its members, and the bytes of all of them, unpacked."""

    members: int
    bytes: int


def open_zip(file: IO[bytes], limits: ZipLimits) -> zipfile.ZipFile:
    """Open an archive; raise ``ReadError`` if it is damaged or exceeds a limit."""
    too_many = ReadError(f"the archive has more than {limits.members:,} members; unpack it")
    size = file.seek(0, 2)
    file.seek(max(size - _END.size - _MOST_COMMENT, 0))
    tail = file.read()
    place = tail.rfind(_END_MARK)
    if place < 0 or len(tail) - place < _END.size:
        raise make_damaged_error("its end is missing")
    # The listing is looked at before it is read, since its size decides how much memory that takes.
    count, listing = (_END.unpack_from(tail, place)[index] for index in (4, 5))
    if count > limits.members or listing > limits.members * _BYTES_OF_MEMBER:
        raise too_many
    with naming_damage():
        archive = zipfile.ZipFile(file)
    members = archive.infolist()
    if len(members) > limits.members:
        raise too_many
    if sum(member.file_size for member in members) > limits.bytes:
        raise ReadError(
            f"the members of the archive have more than {limits.bytes >> 20:,} MiB; unpack it",
            code="too_large",
        )
    if sum(member.compress_size for member in members) > size:
        raise ReadError("the members of the archive overlap; the archive may be harmful, so do not use it")
    return archive


def make_damaged_error(problem: str) -> ReadError:
    """Make the error of an archive that cannot be unpacked."""
    return ReadError(
        f"the ZIP archive is damaged or not complete, or Backstory cannot unpack it ({problem}); copy or export it "
        "again",
        code="damaged_file",
    )


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


def is_encrypted(info: zipfile.ZipInfo) -> bool:
    """Return whether a member is protected by a password."""
    return bool(info.flag_bits & _ENCRYPTED)


def _find_problem(name: str, info: zipfile.ZipInfo) -> str | None:
    if leads_out(name):
        return "its name points outside the archive or cannot be displayed; rename it"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "this is a link, and Backstory follows no links in archives; pack the file itself"
    if is_encrypted(info):
        return "this is protected by a password; unpack the archive with it, or save the file without one"
    if info.file_size > _SMALL and info.file_size > MOST_RATIO * info.compress_size:
        return f"this would grow to more than {MOST_RATIO} times its packed size; unpack it if you trust it"
    return None


@contextmanager
def naming_damage() -> Iterator[None]:
    """Raise a ``ReadError`` in place of what the standard library raises for a damaged archive."""
    try:
        yield
    except ReadError:
        raise
    except DAMAGED as error:
        raise make_damaged_error(str(error)) from error


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, size: int = -1) -> bytes:
    """Read a member, or its first bytes; no more is unpacked than the archive says, whatever its data would give."""
    with naming_damage(), archive.open(info) as member:
        content = member.read(size if size >= 0 else info.file_size)
    if size < 0 and len(content) < info.file_size:
        raise make_damaged_error("a member is cut off")
    return content
