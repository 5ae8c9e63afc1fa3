"""The files that one export consists of: a single file, the members of a ZIP archive, or a folder."""

from __future__ import annotations

import hashlib
import itertools
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Final

from backstory.base.errors import ReadError
from backstory.base.files.patterns import compose
from backstory.base.files.safe_open import ChangedFileError, hash_unchanged, open_contained, state_of
from backstory.base.ids import digest

MAX_UNPACKED_BYTES: Final = 8 << 30
"""Maximum size of all parts in an archive. It is read as a stream, so that this limits time and not memory."""

ZIP_MAGIC: Final = b"PK\x03\x04"

MAILDIR_FOLDERS: Final = frozenset(["cur", "new", "tmp"])
"""Folders of a Maildir: of mails that were seen, of those that were not, and of those that have not arrived whole."""

_MAIL_FOLDERS: Final = ("new", "cur")
"""Those of mails that have arrived, in the order in which a mail moves, so that none is missed while it does."""

_HERE: Final = "."
"""Path of the folder of exports relative to itself."""

_CHANGED: Final = ""
"""In the place of the hash of a part that was written while it was read."""

_SLACK_PEOPLE: Final = "users.json"
_SLACK_CHATS: Final = frozenset(["channels.json", "groups.json", "dms.json", "mpims.json"])


@dataclass(frozen=True)
class ExportParts:
    """The files of one export.

    Attributes:
        names: Paths relative to the export, with ``/``, sorted: JSON files, mailboxes, texts and mails. A single file
            has its own name, whatever it is.
        open: Opens a part by its name, for reading bytes. It raises :class:`backstory.base.errors.ReadError` if the
            part has a password.
        is_single: Whether the export is one file, which may have any name.
        source: Path of the export relative to the folder of exports.
        is_maildir: Whether each part is a mail.
        hashes: SHA-256 of the parts of a folder that were opened, of the bytes that were read of them.
    """

    names: Sequence[str]
    open: Callable[[str], AbstractContextManager[IO[bytes]]]
    is_single: bool = False
    source: str = ""
    is_maildir: bool = False
    hashes: dict[str, str] = field(default_factory=dict)

    @property
    def conversation(self) -> str:
        """Name of its conversation, if its chats have no names."""
        return conversation_of(self.source)


def conversation_of(source: str) -> str:
    """Return the name of an export's conversation, by its path in the folder of exports, if its chats have no names."""
    folder, _, name = compose(source).rpartition("/")
    return Path(name).stem if folder in ("", _HERE) else folder


@contextmanager
def open_parts(opened: IO[bytes], source: str) -> Iterator[ExportParts]:
    """Return the parts of a file: the JSON files, mailboxes and texts of a ZIP archive, else the file itself.

    It raises ``zipfile.BadZipFile`` if the archive is damaged. Reading its directory may raise any error of
    :data:`backstory.ingest.zips.DAMAGED`.
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
            if _has_suffix(PurePosixPath(entry.filename), (".json", ".mbox", ".txt"))
        }

        def unpack(part: str) -> IO[bytes]:
            if members[part].flag_bits & 0x1:
                raise ReadError(
                    "the archive has a password; unpack it and put its files here", code="protected"
                )
            if sum(entry.file_size for entry in members.values()) > MAX_UNPACKED_BYTES:
                raise ReadError(
                    f"the archive unpacks to more than {MAX_UNPACKED_BYTES:,} bytes; unpack it yourself "
                    "if it is a chat",
                    code="too_large",
                )
            return archive.open(members[part])

        yield ExportParts(sorted(members), unpack, source=source)


def folder_parts(folder: Path, source: str, root: Path | None = None) -> ExportParts:
    """Yield the parts of a folder that is one export; see :func:`is_export_folder`."""
    paths = {path.relative_to(folder).as_posix(): path for path in list_parts(folder)}
    hashes: dict[str, str] = {}

    @contextmanager
    def open_part(name: str) -> Iterator[IO[bytes]]:
        with open_export(paths[name], root) as file:
            before = state_of(file)
            try:
                yield file
            finally:
                known = hashes.pop(name, None)
                hashes[name] = _CHANGED  # stays, as a reader may take the error for damage of the part
                found = hash_unchanged(file, before)
                if known not in (None, found):
                    raise ChangedFileError
                hashes[name] = found

    return ExportParts(
        sorted(paths),
        open_part,
        source=source,
        is_maildir=is_maildir(_list_folders(folder)),
        hashes=hashes,
    )


def hash_folder(folder: Path, root: Path | None, read: ExportParts | None = None) -> str:
    """Hash the parts of a folder that is one export.

    It returns a hash that differs when a part was added, removed, renamed or edited. A part that cannot be opened must
    not hide that another has changed. It raises ``ChangedFileError`` if a part was written while it was read.
    """
    hashes = {} if read is None else read.hashes
    if _CHANGED in hashes.values():
        raise ChangedFileError
    paths = list_parts(folder) if read is None else sorted(folder / name for name in read.names)
    named = ((path.relative_to(folder).as_posix(), path) for path in paths)
    parts = ((name, hashes.get(name) or _hash_part(path, root)) for name, path in named)
    return digest(itertools.chain.from_iterable(parts), length=64)


def _hash_part(path: Path, root: Path | None) -> str:
    try:
        with open_export(path, root) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return str(error.strerror)


def open_export(path: Path, root: Path | None) -> BufferedReader:
    """Open a file for reading bytes.

    It raises ``OSError`` if it cannot be opened, or lies outside.
    """
    return path.open("rb") if root is None else open_contained(root, path)


def is_export_folder(folder: Path) -> bool:
    """Return whether a folder is one export: what Slack exports, unpacked, or a Maildir."""
    return is_slack_folder([path.name for path in folder.iterdir()]) or is_maildir(_list_folders(folder))


def is_slack_folder(names: Sequence[str]) -> bool:
    """Return whether a folder with these files is what Slack exports, unpacked."""
    return _SLACK_PEOPLE in names and not _SLACK_CHATS.isdisjoint(names)


def is_maildir(folders: Sequence[str]) -> bool:
    """Return whether a folder with these folders is a Maildir. A copy of one may lack its empty folders."""
    return "cur" in folders and not {"new", "tmp"}.isdisjoint(folders)


def is_part(path: Path) -> bool:
    """Return whether a file of a Slack export, or of a folder in it, is a part of the export."""
    return _has_suffix(PurePosixPath(path.name), (".json",)) and path.is_file() and not path.is_symlink()


def list_parts(folder: Path) -> list[Path]:
    """List the parts of a folder that is one export, without links.

    They are the JSON files in it and in its subfolders, or the mails of a Maildir.
    """
    folders = _list_folders(folder)
    if is_maildir(folders):
        mails = (path for name in _MAIL_FOLDERS if name in folders for path in (folder / name).iterdir())
        return sorted(
            path for path in mails if path.name[0] != "." and path.is_file() and not path.is_symlink()
        )
    places = [folder, *(folder / name for name in folders if name[0] != ".")]
    return sorted(path for place in places for path in place.iterdir() if is_part(path))


def _list_folders(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]


def _has_suffix(path: PurePosixPath, suffixes: tuple[str, ...]) -> bool:
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and "__MACOSX" not in path.parts
