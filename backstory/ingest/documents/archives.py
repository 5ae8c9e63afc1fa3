"""ZIP archives as folders of documents: their members are read in place, and nothing is unpacked to the disk."""

from __future__ import annotations

import os
import stat
import struct
import weakref
import zipfile
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from posixpath import splitext
from typing import IO, Final

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import ChangedFileError, hash_unchanged, require_unchanged, state_of
from backstory.ingest.documents.opening import open_inside

ARCHIVE_SUFFIX: Final = ".zip"

MOST_MEMBERS: Final = 10_000
MOST_BYTES: Final = 1 << 30
"""Maximum size of all members of an archive, unpacked."""
MOST_RATIO: Final = 200
"""How many times its packed size a member of more than 1 MiB may have."""

_SMALL: Final = 1 << 20
_MOST_DIRECTORY_BYTES: Final = 4 << 20
_END: Final = struct.Struct("<4s4H2IH")
_END_MARK: Final = b"PK\x05\x06"
_ABOVE_4_GB_MARK: Final = b"PK\x06\x07"
_ABOVE_4_GB_BYTES: Final = 20
_LONGEST_COMMENT: Final = 1 << 16
_ENCRYPTED: Final = 0x1
_SEVERAL: Final = "several members of the archive have this name; unpack the archive"


_MOST_OPEN: Final = 64
"""Fewer than the files that a process may have open; 256 on macOS."""

_opened: Final[deque[weakref.ReferenceType[Archive]]] = deque()


class Archive:
    """An open archive within the limits, whose members are read from the file that was listed.

    Attributes:
        uri: What errors call the archive.
        state: Size, times and number of its file when it was opened.
    """

    def __init__(self, root: Path, path: Path, uri: str) -> None:
        """Open an archive; it is closed with the last reference to it.

        It raises ``ReadError`` if it cannot be read, or exceeds the limits. It raises ``FileNotFoundError`` if it is
        gone.
        """
        self.uri = uri
        self._place = root, path
        self._open()

    def _open(self) -> None:
        root, path = self._place
        with ExitStack() as stack:
            file = stack.enter_context(open_inside(root, path, self.uri))
            self.state = os.fstat(file.fileno())
            self._file = file
            self._before = state_of(file)
            size = file.seek(0, 2)
            _require_small_directory(file, size, self.uri)
            try:
                self._zip = zipfile.ZipFile(file)
            except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OSError) as error:
                raise ReadError(
                    f"{self.uri}: the ZIP archive is not complete ({error}); copy it again"
                ) from error
            _require_limits(self._zip.infolist(), size, self.uri)
            self._closing = weakref.finalize(self, stack.pop_all().close)
        _opened.append(weakref.ref(self))
        if len(_opened) > _MOST_OPEN and (oldest := _opened.popleft()()) is not None:
            oldest.close()

    def _open_again(self) -> None:
        """Open the archive if it was closed for others, or raise ``ChangedFileError`` if it is another one now."""
        if self._file.closed:
            before, state = self._before, self.state
            self._open()
            try:
                require_unchanged(self._file, before)
            except ChangedFileError:
                self.close()
                self._before, self.state = before, state  # so that it stays another one
                raise

    def close(self) -> None:
        """Close the file until a member is read again."""
        self._closing()

    def sha256(self) -> str:
        """Return the hash of the archive that all members were read from, in hexadecimal digits.

        It raises ``ChangedFileError`` if it was written meanwhile. It raises ``OSError`` if it cannot be read.
        """
        self._open_again()
        return hash_unchanged(self._file, self._before)

    def list_members(self) -> Iterator[tuple[str, zipfile.ZipInfo, str | None]]:
        """List the members that are files; those of one name once, of which none may be read.

        It yields the path in the archive, the member, and why it must not be read; None if it may be.
        """
        members = [info for info in self._zip.infolist() if not info.is_dir()]
        names = Counter(map(_name_member, members))
        for info in members:
            name = _name_member(info)
            count = names.pop(name, 0)
            if count:
                yield name, info, _SEVERAL if count > 1 else _find_problem(name, info)

    def read(
        self, info: zipfile.ZipInfo, uri: str, size: int = -1, *, most_bytes: int | None = None
    ) -> bytes:
        """Read a member.

        It raises ``ReadError`` if the member is damaged, packed in an unknown way, or too large.
        """
        if most_bytes is not None and info.file_size > most_bytes:
            raise ReadError(
                f"{uri}: the file has more than {most_bytes:,} bytes, too many to read within the limit of memory "
                "(`documents.read_megabytes`); split it, or raise the setting",
                code="too_large",
            )
        try:
            self._open_again()
            with self._zip.open(info) as member:
                # No more is unpacked than the archive says, whatever its data would give.
                content = member.read(size if size >= 0 else info.file_size)
            require_unchanged(self._file, self._before)
        except ChangedFileError as error:
            raise ReadError(f"{uri}: the archive was written while it was read; run again") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
            raise ReadError(
                f"{uri}: the member of the archive is damaged ({error}); copy the archive again"
            ) from error
        except (NotImplementedError, RuntimeError) as error:
            raise ReadError(
                f"{uri}: Backstory cannot unpack the member ({error}); unpack the archive"
            ) from error
        if size < 0 and len(content) < info.file_size:
            raise ReadError(f"{uri}: the member of the archive is cut off; copy the archive again")
        return content


def _name_member(info: zipfile.ZipInfo) -> str:
    return info.filename.replace("\\", "/")


def is_archive(name: str) -> bool:
    """Return whether a file is an archive by its name."""
    return splitext(name)[1].lower() == ARCHIVE_SUFFIX


def _require_small_directory(file: IO[bytes], size: int, uri: str) -> None:
    """Raise unless the listing of an archive is small enough to be read, by the record at the archive's end."""
    file.seek(max(size - _END.size - _LONGEST_COMMENT - _ABOVE_4_GB_BYTES, 0))
    tail = file.read()
    place = len(tail) - _END.size
    if place < 0 or not (tail[place:].startswith(_END_MARK) and tail.endswith(b"\0\0")):
        place = tail.rfind(_END_MARK)
    if place < 0 or len(tail) - place < _END.size:
        raise ReadError(f"{uri}: the ZIP archive is not complete (its end is missing); copy it again")
    members, directory = (_END.unpack_from(tail, place)[index] for index in (4, 5))
    is_above = tail[max(place - _ABOVE_4_GB_BYTES, 0) :].startswith(_ABOVE_4_GB_MARK)
    if is_above or members > MOST_MEMBERS or directory > _MOST_DIRECTORY_BYTES:
        raise _too_many(uri)


def _too_many(uri: str) -> ReadError:
    return ReadError(f"{uri}: the archive has more than {MOST_MEMBERS:,} members; unpack it")


def _require_limits(members: list[zipfile.ZipInfo], size: int, uri: str) -> None:
    if len(members) > MOST_MEMBERS:
        raise _too_many(uri)
    if sum(member.file_size for member in members) > MOST_BYTES:
        raise ReadError(
            f"{uri}: the members of the archive have more than {MOST_BYTES >> 20:,} MiB; unpack it",
            code="too_large",
        )
    if sum(member.compress_size for member in members) > size:
        raise ReadError(
            f"{uri}: the members of the archive overlap; the archive may be harmful, so do not use it"
        )


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
        return "this is encrypted; unpack the archive with its password"
    if info.file_size > _SMALL and info.file_size > MOST_RATIO * info.compress_size:
        return f"this would grow to more than {MOST_RATIO} times its packed size; unpack it if you trust it"
    return None
