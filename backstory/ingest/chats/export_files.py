"""The files of a folder of chat exports: which may be exports, which are skipped, and the hashes of all."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from backstory.base.errors import ReadError, WorkspaceError
from backstory.ingest.chats.opened import (
    MAILDIR_FOLDERS,
    hash_folder,
    is_maildir,
    is_part,
    is_slack_folder,
)
from backstory.ingest.chats.times import KNOWN_YEAR, latest_year_of
from backstory.ingest.file_kinds import kind_in_chats
from backstory.ingest.walk import Folder, ListedFile, Listing, Rule, explain_hidden

MEDIA: Final = "media"
"""Status of a file that people send in chats, which is the reason, until it is known whether it lies beside a chat."""
_SYSTEM_NAMES: Final = frozenset(["thumbs.db", "desktop.ini", "icon\r"])
_MEDIA_NAME: Final = re.compile(
    r"(?:(?:IMG|VID|PTT|AUD|STK|DOC)-\d{8}-WA\d{4,}|\d{8}-(?:PHOTO|VIDEO|AUDIO|STICKER|GIF)-[\d-]+)\b",
    re.IGNORECASE,
)
"""File names that WhatsApp gives to media: ``IMG-20240115-WA0001.jpg``, ``00000012-PHOTO-2024-01-15-21-05-00.jpg``."""
_OF_MAIL_PROGRAM: Final = re.compile(r"dovecot.*|[^.]*")
"""Files beside mails: ``dovecot.index.log``, and names without a suffix, such as ``maildirfolder``."""


@dataclass(frozen=True)
class ExportFile:
    """A file that affects the messages read from a folder of exports, by its path there.

    ``sha256`` is the hash of the bytes, of a folder of those of its parts; it is empty if the file is not read. No
    message of the file can have been sent after ``latest_year``.
    """

    source: str
    sha256: str = ""
    latest_year: int = KNOWN_YEAR

    @property
    def fingerprint(self) -> str:
        """All properties of the file that affect the messages read from it."""
        return f"{self.source} {self.sha256} {self.latest_year}"


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
        if PurePosixPath(uri).name.lower() in _SYSTEM_NAMES:
            return "ignored", "a file of the operating system"
        kind = None if uri.endswith("/") else kind_in_chats(uri)
        return None if kind is None else (MEDIA, kind)

    def enter(self, here: Path, folders: list[str], names: list[str]) -> None:
        """Take a folder that is one export, and drop the names of its parts."""
        holds_mails = is_maildir([name for name in folders if not (here / name).is_symlink()])
        if holds_mails:
            folders[:] = [name for name in folders if name not in MAILDIR_FOLDERS]
            names[:] = [name for name in names if not _OF_MAIL_PROGRAM.fullmatch(name)]
        elif is_slack_folder(names):
            self._of_slack.add(here)
        if holds_mails or here in self._of_slack:
            self.take(ListedFile(self.name(here, "/") or "./", here, self.root))
        if not self._of_slack.isdisjoint([here, here.parent]):
            names[:] = [name for name in names if not is_part(here / name)]


def list_exports(folder: Path) -> Listing:
    """List a folder of exports; raise ``WorkspaceError`` if it does not exist, or cannot be listed."""
    if not folder.is_dir():
        raise WorkspaceError(
            f"{folder} does not exist; create the folder and put chat exports into it, or index only documents by "
            "`backstory add`",
            code="absent_folder",
        )
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
    files = [known.get(file.uri) or _hash(file) for file in listing.files]
    files += [ExportFile(entry.uri) for entry in listing.skipped if entry.status != "ignored"]
    return tuple(sorted(files, key=lambda file: file.source))


def _hash(file: ListedFile) -> ExportFile:
    """Hash a file as it is now; one that cannot be opened has the reason in place of the hash."""
    try:
        if file.path.is_dir():
            return ExportFile(file.uri, hash_folder(file.path, file.root))
        with file.open() as opened:
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
            return ExportFile(file.uri, sha256, latest_year_of(os.fstat(opened.fileno()).st_mtime))
    except ReadError as error:
        return ExportFile(file.uri, str(error))


def is_media_name(source: str) -> bool:
    """Return whether a file has a name that WhatsApp gives to media."""
    return _MEDIA_NAME.match(source.rpartition("/")[2]) is not None
