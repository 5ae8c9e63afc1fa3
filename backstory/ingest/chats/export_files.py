"""The exports in a folder: which files they are, what each of them consists of, and the readers of their formats."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import IO, Final

from backstory.base.errors import ReadError, WorkspaceError
from backstory.base.files.patterns import compose
from backstory.base.files.safe_open import open_inside
from backstory.base.ids import digest
from backstory.ingest.chats.export import Export, ExportFile, Item
from backstory.ingest.chats.json_stream import find_paths
from backstory.ingest.chats.times import KNOWN_YEAR, latest_year_of
from backstory.ingest.file_kinds import NO_EXPORT, is_no_export
from backstory.ingest.limited_calls import find_limits
from backstory.ingest.walk import Folder, ListedFile, Listing, Rule, explain_hidden, require_size
from backstory.ingest.zips import MAGIC, open_member, open_zip
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import decode_head

_HEAD_BYTES: Final = 1 << 16
_JSON_NAME: Final = re.compile(r".*\.json", re.IGNORECASE)
_SLACK_CHATS: Final = frozenset(["channels.json", "groups.json", "dms.json", "mpims.json"])
_decode_head: Final = lru_cache(maxsize=1)(decode_head)
"""Decodes once what each format looks at, since it takes long to detect an encoding."""


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
    is_maildir: bool = False
    latest_year: int = KNOWN_YEAR
    _paths: dict[str, frozenset[str]] = field(default_factory=dict)

    def head(self, name: str = "") -> bytes:
        """Return the beginning of a part, by default of the first."""
        with self.open(name or self.names[0]) as file:
            return file.read(_HEAD_BYTES)

    def head_lines(self, name: str = "") -> list[str]:
        """Return the complete lines in the beginning of a part; none of a binary one."""
        return _decode_head(self.head(name))

    def json_paths(self, name: str) -> frozenset[str]:
        """Return the paths of all values near the beginning of a part, which is parsed once; none if it is not JSON."""
        if name not in self._paths:
            self._paths[name] = find_paths(self.head(name))
        return self._paths[name]

    def read(self, name: str) -> bytes:
        """Read a part as a whole; raise ``ReadError`` if it is too large for the limit of memory."""
        most = find_limits(self.settings).most_bytes
        with self.open(name) as file:
            content = file.read(most + 1)
        require_size(len(content), most)
        return content


def conversation_of(source: str) -> str:
    """Return the name of an export's conversation, by its path in the folder of exports, if its chats have no names."""
    folder, _, name = compose(source).rpartition("/")
    return Path(name).stem if folder in ("", ".") else folder


@contextmanager
def open_parts(
    opened: IO[bytes], source: str, settings: ConversationSettings, latest_year: int = KNOWN_YEAR
) -> Iterator[Opened]:
    """Return the parts of a file: the JSON files, mailboxes and texts of a ZIP archive, else the file itself."""
    is_archive = opened.read(len(MAGIC)) == MAGIC
    opened.seek(0)
    make = partial(Opened, source=source, settings=settings, latest_year=latest_year)
    if not is_archive:

        def reopen(_: str) -> AbstractContextManager[IO[bytes]]:
            opened.seek(0)
            return nullcontext(opened)

        yield make([PurePosixPath(source).name], reopen, is_single=True)
        return
    with open_zip(opened) as archive:
        # Nothing is unpacked to the disk, so that the names of the members are only names.
        members = {info.filename: info for info in archive.infolist()}
        names = sorted(name for name in members if _has_suffix(name, ".json", ".mbox", ".txt"))
        yield make(names, lambda name: open_member(archive, members[name]))


def open_folder(folder: Path, source: str, settings: ConversationSettings, root: Path) -> Opened:
    """Return the parts of a folder that is one export; the JSON files of a Slack export, or the mails of a Maildir."""
    parts = list_parts(folder)
    # All that is read of a Maildir lies in two of its folders, and the lists of Slack in none.
    holds_mails = all(name.startswith(("cur/", "new/")) for name in parts)
    return Opened(
        list(parts), lambda name: open_inside(root, parts[name]), source, settings, is_maildir=holds_mails
    )


def is_slack_folder(names: Sequence[str]) -> bool:
    """Return whether a folder with these files is what Slack exports, unpacked."""
    return "users.json" in names and not _SLACK_CHATS.isdisjoint(names)


def is_maildir(folders: Sequence[str]) -> bool:
    """Return whether a folder with these folders is a Maildir. A copy of one may lack its empty folders."""
    return "cur" in folders and not {"new", "tmp"}.isdisjoint(folders)


def is_part(path: Path) -> bool:
    """Return whether a file of a Slack export, or of a folder in it, is a part of the export."""
    return _has_suffix(path.name, ".json") and path.is_file() and not path.is_symlink()


def list_parts(folder: Path) -> dict[str, Path]:
    """List the parts of a folder that is one export by their paths in it; raise ``ReadError`` if it cannot be listed.

    They are the JSON files in it and in its subfolders, without links, or whatever is not hidden among the mails of a
    Maildir: what cannot be opened there costs only itself.
    """
    try:
        folders = [path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
        if is_maildir(folders):
            # A mail moves from new to cur, and in this order none is missed while it does.
            mails = (path for name in ("new", "cur") if name in folders for path in (folder / name).iterdir())
            parts = [path for path in mails if path.name[0] != "."]
        else:
            places = [folder, *(folder / name for name in folders if name[0] != ".")]
            parts = [path for place in places for path in place.iterdir() if is_part(path)]
    except OSError as error:
        raise ReadError(f"its folders cannot be listed ({error.strerror}); make them readable") from error
    return {path.relative_to(folder).as_posix(): path for path in sorted(parts)}


def _has_suffix(name: str, *suffixes: str) -> bool:
    path = PurePosixPath(name)
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
    marks: Collection[str],
    read_files: Callable[[Iterator[IO[bytes]]], Iterator[Item]],
    named: re.Pattern[str] = _JSON_NAME,
) -> ChatFormat:
    """Make the format of JSON files, each of which holds all paths of one of the marks near its beginning.

    Spaces separate the paths of a mark. A single file may have any name; those of an archive or a folder have the names
    of the format.
    """

    def find(opened: Opened) -> list[str]:
        return [
            part
            for part in opened.names
            if (opened.is_single or named.fullmatch(PurePosixPath(part).name))
            and any(opened.json_paths(part).issuperset(mark.split()) for mark in marks)
        ]

    def open_each(opened: Opened, found: list[str]) -> Iterator[IO[bytes]]:
        for part in found:
            with opened.open(part) as file:
                yield file

    return ChatFormat(name, find, lambda opened, found: read_files(open_each(opened, found)))


class ExportFolder(Folder):
    """Lists a folder of exports, in which a folder that is one export, of Slack or a Maildir, is one file."""

    def __init__(self, folder: Path) -> None:
        """Name the folder."""
        super().__init__(folder)
        self._of_slack: set[Path] = set()

    def explain(self, uri: str) -> Rule | None:
        """Return which rule leaves out a file or a folder, by its name alone; None if none does."""
        if (hidden := explain_hidden(uri)) is not None:
            return "ignored", hidden
        return ("unsupported", NO_EXPORT) if is_no_export(uri) else None

    def enter(self, here: Path, folders: list[str], names: list[str]) -> None:
        """Take a folder that is one export, and drop the names of its parts."""
        holds_mails = is_maildir([name for name in folders if not (here / name).is_symlink()])
        if holds_mails:
            folders[:] = [name for name in folders if name not in ("cur", "new", "tmp")]
            # Mail programs add their own, such as dovecot.index.log and maildirfolder.
            names[:] = [name for name in names if "." in name and not name.startswith("dovecot")]
        elif is_slack_folder(names):
            self._of_slack.add(here)
        if holds_mails or here in self._of_slack:
            self.take(ListedFile(self.name(here, "/") or "./", here, self.root))
        if not self._of_slack.isdisjoint([here, here.parent]):
            names[:] = [name for name in names if not is_part(here / name)]


def list_exports(folder: Path) -> Listing:
    """List a folder of exports; raise ``WorkspaceError`` if it does not exist, or cannot be listed."""
    if not folder.is_dir():
        problem = (
            "does not exist; create it for your chat exports, or index only documents by `backstory add`"
        )
        raise WorkspaceError(f"{folder} {problem}", code="absent_folder")
    listing = ExportFolder(folder).list_all()
    for entry in listing.skipped:
        if not entry.uri:
            raise WorkspaceError(f"{folder}: {entry.reason}")
    return listing


def find_exports(folder: Path) -> tuple[ExportFile, ...]:
    """List all files that affect the messages read from a folder, by source; it raises as :func:`list_exports`."""
    return hash_exports(list_exports(folder), {})


def hash_exports(listing: Listing, known: Mapping[str, ExportFile]) -> tuple[ExportFile, ...]:
    """List the files that affect the messages, by source; those that are known are not hashed. Media are but names."""
    files = [known.get(file.uri) or describe_file(file) for file in listing.files]
    files += [ExportFile(entry.uri) for entry in listing.skipped if entry.status != "ignored"]
    return tuple(sorted(files, key=lambda file: file.source))


def describe_file(file: ListedFile) -> ExportFile:
    """Describe a file as it is now, or the names and contents of the parts of a folder that is one export.

    What cannot be opened has the reason in place of the hash. So a part of a folder does not hide that another changed.
    """
    try:
        if file.uri.endswith("/"):  # a link to a folder is no part
            listed = list_parts(file.path).items()
            parts = [describe_file(ListedFile(name, path, file.root)) for name, path in listed]
            content = digest([text for part in parts for text in (part.source, part.sha256)], length=64)
            return ExportFile(file.uri, content)
        with file.open() as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
            return ExportFile(file.uri, content, latest_year_of(os.fstat(opened.fileno()).st_mtime))
    except ReadError as error:
        return ExportFile(file.uri, str(error))
