"""The files that one export consists of: a single file, the members of a ZIP archive, or a folder."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from backstory.errors import ExportError

MAX_UNPACKED_BYTES: Final = 8 << 30
"""Maximum size of all parts in an archive. It is read as a stream, so that this limits time and not memory."""

ZIP_MAGIC: Final = b"PK\x03\x04"

_SLACK_PEOPLE: Final = "users.json"
_SLACK_CHATS: Final = frozenset(["channels.json", "groups.json", "dms.json", "mpims.json"])


@dataclass(frozen=True)
class ExportParts:
    """The files of one export.

    Attributes:
        names: Paths relative to the export, with ``/``, sorted: JSON files and mailboxes. A single file has its own
            name, whatever it is.
        open: Opens a part by its name, for reading bytes. It raises :class:`backstory.errors.ExportError` if the part
            has a password.
        is_single: Whether the export is one file, which may have any name.
        source: Path of the export relative to the folder of exports.
    """

    names: Sequence[str]
    open: Callable[[str], AbstractContextManager[IO[bytes]]]
    is_single: bool = False
    source: str = ""

    @property
    def conversation(self) -> str:
        """Name of its conversation, if its chats have no names."""
        return conversation_of(self.source)


def conversation_of(source: str) -> str:
    """Return the name of an export's conversation, by its path in the folder of exports, if its chats have no names."""
    folder, _, name = source.rpartition("/")
    return folder or Path(name).stem


@contextmanager
def open_parts(opened: IO[bytes], source: str) -> Iterator[ExportParts]:
    """Give the parts of a file: the JSON files and mailboxes of a ZIP archive, else the file itself.

    Args:
        opened: The file, at its beginning; it stays open.
        source: Path relative to the folder of exports.

    Raises:
        zipfile.BadZipFile: The archive is damaged. Reading its directory may raise any error of
            :data:`backstory.messages.file_kinds.DAMAGED_ARCHIVE`.
    """
    magic = opened.read(len(ZIP_MAGIC))
    opened.seek(0)
    if magic != ZIP_MAGIC:

        def reopen(_: str) -> AbstractContextManager[IO[bytes]]:
            opened.seek(0)
            return nullcontext(opened)

        yield ExportParts([PurePosixPath(source).name], reopen, is_single=True, source=source)
        return
    with zipfile.ZipFile(opened) as archive:
        members = {
            entry.filename: entry
            for entry in archive.infolist()
            if _has_suffix(PurePosixPath(entry.filename), (".json", ".mbox"))
        }

        def unpack(part: str) -> IO[bytes]:
            if members[part].flag_bits & 0x1:
                raise ExportError("the archive has a password; unpack it and put its folder here")
            if sum(entry.file_size for entry in members.values()) > MAX_UNPACKED_BYTES:
                raise ExportError(
                    f"the archive unpacks to more than {MAX_UNPACKED_BYTES:,} bytes; unpack it yourself if it is a chat"
                )
            return archive.open(members[part])

        yield ExportParts(sorted(members), unpack, source=source)


def folder_parts(folder: Path, source: str) -> ExportParts:
    """Give the parts of a folder that is one export; see :func:`is_export_folder`."""
    paths = {path.relative_to(folder).as_posix(): path for path in list_parts(folder)}
    return ExportParts(sorted(paths), lambda name: paths[name].open("rb"), source=source)


def is_export_folder(names: Sequence[str]) -> bool:
    """Return whether a folder with these files is one export: what Slack exports, unpacked."""
    return _SLACK_PEOPLE in names and not _SLACK_CHATS.isdisjoint(names)


def is_part(path: Path) -> bool:
    """Return whether a file of such a folder, or of a folder in it, is a part of the export."""
    return _has_suffix(PurePosixPath(path.name), (".json",)) and path.is_file() and not path.is_symlink()


def list_parts(folder: Path) -> list[Path]:
    """List the parts of a folder that is one export: JSON files in it and in its subfolders, without links."""
    places = [
        folder,
        *(
            path
            for path in folder.iterdir()
            if path.is_dir() and not path.is_symlink() and path.name[0] != "."
        ),
    ]
    return sorted(path for place in places for path in place.iterdir() if is_part(path))


def _has_suffix(path: PurePosixPath, suffixes: tuple[str, ...]) -> bool:
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and "__MACOSX" not in path.parts
