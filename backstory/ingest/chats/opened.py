"""The files of one export: a single file, the members of a ZIP archive, or a folder; and the readers of its formats."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Final

from backstory.base.errors import ReadError
from backstory.base.files.patterns import compose
from backstory.base.files.safe_open import open_inside
from backstory.base.ids import digest
from backstory.base.sandbox import ReadingLimits
from backstory.ingest.chats.export import Export
from backstory.ingest.chats.items import Item
from backstory.ingest.chats.json_stream import find_paths
from backstory.ingest.chats.times import KNOWN_YEAR
from backstory.ingest.text_lines import decode_head
from backstory.ingest.zips import MAGIC, open_member, open_zip
from backstory.settings.inputs import ConversationSettings

HEAD_BYTES: Final = 1 << 16
"""Number of bytes at the beginning of a part by which formats are told apart."""
MAILDIR_FOLDERS: Final = frozenset(["cur", "new", "tmp"])
"""Folders of a Maildir: of mails that were seen, of those that were not, and of those that have not arrived whole."""
# An archive is read as a stream within the limit of time, and media in it are not unpacked.
_MOST_MEMBERS: Final = 1_000_000
_MOST_BYTES: Final = 1 << 50
_MAIL_FOLDERS: Final = ("new", "cur")
"""Those of mails that have arrived, in the order in which a mail moves, so that none is missed while it does."""
_HERE: Final = "."
"""Path of the folder of exports relative to itself."""
_JSON_NAME: Final = re.compile(r".*\.json", re.IGNORECASE)
_SLACK_PEOPLE: Final = "users.json"
_SLACK_CHATS: Final = frozenset(["channels.json", "groups.json", "dms.json", "mpims.json"])


@dataclass
class Opened:
    """The files of one export: a single file, which may have any name, the members of a ZIP archive, or a folder.

    ``names``: paths of its parts relative to the export, with ``/``, sorted. ``open``: opens a part by its name; it
    raises ``ReadError`` if the part cannot be read. ``source``: path of the export below the folder of exports.
    ``settings``: those of its conversation. ``is_maildir``: whether each part is a mail. ``latest_year``: the latest
    year in which a message can have been sent.
    """

    names: Sequence[str]
    open: Callable[[str], AbstractContextManager[IO[bytes]]]
    source: str
    settings: ConversationSettings
    is_single: bool = False
    is_archive: bool = False
    is_maildir: bool = False
    latest_year: int = KNOWN_YEAR
    _head: tuple[str, bytes] = ("", b"")
    _paths: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def conversation(self) -> str:
        """Name of its conversation, if its chats have no names."""
        return conversation_of(self.source)

    def head(self, name: str = "") -> bytes:
        """Return the beginning of a part, by default of the first; that of the last one asked for is kept."""
        name = name or self.names[0]
        if self._head[0] != name:
            with self.open(name) as file:
                self._head = name, file.read(HEAD_BYTES)
        return self._head[1]

    def head_lines(self, name: str = "") -> list[str]:
        """Return the complete lines in the beginning of a part; none of a binary one."""
        return decode_head(self.head(name))

    def json_paths(self, name: str) -> frozenset[str]:
        """Return the paths of all values near the beginning of a part, which is parsed once; none if it is not JSON."""
        if name not in self._paths:
            self._paths[name] = find_paths(self.head(name))
        return self._paths[name]

    def read(self, name: str) -> bytes:
        """Read a part as a whole; raise ``ReadError`` if it is too large for the limit of memory."""
        most = ReadingLimits(self.settings.read_seconds, self.settings.read_megabytes).most_bytes
        with self.open(name) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ReadError(
                f"it has more than {most:,} bytes, too many to read within {self.settings.read_megabytes} MB of memory "
                "(`conversations.read_megabytes`); split it, or raise the setting",
                code="too_large",
            )
        return content


def conversation_of(source: str) -> str:
    """Return the name of an export's conversation, by its path in the folder of exports, if its chats have no names."""
    folder, _, name = compose(source).rpartition("/")
    return Path(name).stem if folder in ("", _HERE) else folder


@contextmanager
def open_parts(
    opened: IO[bytes], source: str, settings: ConversationSettings, latest_year: int = KNOWN_YEAR
) -> Iterator[Opened]:
    """Return the parts of a file: the JSON files, mailboxes and texts of a ZIP archive, else the file itself."""
    is_archive = opened.read(len(MAGIC)) == MAGIC
    opened.seek(0)
    if not is_archive:

        def reopen(_: str) -> AbstractContextManager[IO[bytes]]:
            opened.seek(0)
            return nullcontext(opened)

        name = PurePosixPath(source).name
        yield Opened([name], reopen, source, settings, is_single=True, latest_year=latest_year)
        return
    with open_zip(opened, _MOST_MEMBERS, _MOST_BYTES) as archive:
        # Nothing is unpacked to the disk, so that the names of the members are only names.
        members = {
            info.filename: info
            for info in archive.infolist()
            if _has_suffix(PurePosixPath(info.filename), (".json", ".mbox", ".txt"))
        }
        yield Opened(
            sorted(members),
            lambda part: open_member(archive, members[part]),
            source,
            settings,
            is_archive=True,
            latest_year=latest_year,
        )


def open_folder(folder: Path, source: str, settings: ConversationSettings, root: Path) -> Opened:
    """Return the parts of a folder that is one export; the JSON files of a Slack export, or the mails of a Maildir."""
    paths = {path.relative_to(folder).as_posix(): path for path in list_parts(folder)}
    maildir = is_maildir(_list_folders(folder))
    return Opened(
        sorted(paths), lambda name: open_inside(root, paths[name]), source, settings, is_maildir=maildir
    )


def hash_folder(folder: Path, root: Path) -> str:
    """Hash the parts of a folder that is one export, by name and content.

    A part that cannot be opened counts by the reason, and must not hide that another has changed.
    """
    hashes = []
    for path in list_parts(folder):
        hashes.append(path.relative_to(folder).as_posix())
        try:
            with open_inside(root, path) as file:
                hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
        except ReadError as error:
            hashes.append(str(error))
    return digest(hashes, length=64)


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
    """List the parts of a folder that is one export; raise ``ReadError`` if it cannot be listed.

    They are the JSON files in it and in its subfolders, without links, or whatever is not hidden among the mails of a
    Maildir: what cannot be opened there costs only itself.
    """
    try:
        folders = _list_folders(folder)
        if is_maildir(folders):
            mails = (path for name in _MAIL_FOLDERS if name in folders for path in (folder / name).iterdir())
            return sorted(path for path in mails if path.name[0] != ".")
        places = [folder, *(folder / name for name in folders if name[0] != ".")]
        return sorted(path for place in places for path in place.iterdir() if is_part(path))
    except OSError as error:
        raise ReadError(f"its folders cannot be listed ({error.strerror}); make them readable") from error


def _list_folders(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]


def _has_suffix(path: PurePosixPath, suffixes: tuple[str, ...]) -> bool:
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and "__MACOSX" not in path.parts


@dataclass(frozen=True)
class ChatFormat:
    """The reader of exports of one format, by its name in the table ``sources``.

    ``find`` returns the parts of an export that it reads, by names and content; none if the export has another format.
    ``read`` reads these parts: as a stream of items, each message, deletion and unread record of which counts as one
    record; or as a whole. It raises ``ReadError``, which names the setting that resolves an ambiguous export.
    """

    name: str
    find: Callable[[Opened], list[str]]
    read: Callable[[Opened, list[str]], Iterator[Item] | Export]


def make_json_format(
    name: str,
    marks: Collection[frozenset[str]],
    read_files: Callable[[Iterator[IO[bytes]]], Iterator[Item]],
    named: re.Pattern[str] = _JSON_NAME,
) -> ChatFormat:
    """Make the format of JSON files, each of which holds all paths of one of the marks near its beginning.

    A single file may have any name; those of an archive or a folder have the names of the format.
    """

    def find(opened: Opened) -> list[str]:
        return [
            part
            for part in opened.names
            if (opened.is_single or named.fullmatch(PurePosixPath(part).name))
            and any(mark <= opened.json_paths(part) for mark in marks)
        ]

    def open_each(opened: Opened, found: list[str]) -> Iterator[IO[bytes]]:
        for part in found:
            with opened.open(part) as file:
                yield file

    return ChatFormat(name, find, lambda opened, found: read_files(open_each(opened, found)))
