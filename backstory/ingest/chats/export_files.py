"""The files of a folder of chat exports: which may be exports, and which are skipped by a rule."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from backstory.base.errors import WorkspaceError
from backstory.ingest.chats.opened import (
    MAILDIR_FOLDERS,
    hash_file,
    hash_folder,
    is_maildir,
    is_part,
    is_slack_folder,
)
from backstory.ingest.chats.times import KNOWN_YEAR
from backstory.ingest.file_kinds import kind_in_chats

_MOST_BYTES: Final = 1 << 38
"""No export is as large; a file that claims to be would be hashed for minutes."""
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
    """An entry below the folder of exports: a file that may be an export, a folder that is one, or what is skipped.

    Attributes:
        path: Path for opening the entry.
        source: Path relative to the folder of exports, with ``/``; a folder also ends with it.
        status: ``candidate`` for a possible export, else ``media`` (by type), ``ignored`` or ``failed``.
        reason: Why the entry is ignored or failed; for media, the type.
        root: The folder of exports with links resolved, which nothing outside is opened of; None for a named file.
        sha256: Hash of the bytes, of a folder of those of its parts; empty if the file is not read, or not yet.
        latest_year: Latest year in which a message of the file can have been sent.
    """

    path: Path
    source: str
    status: str = "candidate"
    reason: str = ""
    root: Path | None = None
    sha256: str = ""
    latest_year: int = KNOWN_YEAR

    @property
    def fingerprint(self) -> str:
        """All properties of the file that affect the messages read from it."""
        return f"{self.source} {self.sha256} {self.latest_year}"

    def hashed(self) -> ExportFile:
        """Return the file with the hash of its bytes now; one that cannot be opened has the reason in its place."""
        if self.status != "candidate":
            return self
        try:
            if self.path.is_dir():
                return replace(self, sha256=hash_folder(self.path, self.root))
            sha256, latest_year = hash_file(self.path, self.root)
            return replace(self, sha256=sha256, latest_year=latest_year)
        except OSError as error:
            return replace(self, sha256=str(error.strerror))


def find_exports(folder: Path) -> tuple[ExportFile, ...]:
    """List every file below a folder that affects the messages read from it, sorted by path, with its hash.

    It raises ``WorkspaceError`` if the folder does not exist. Of media, only the names matter.
    """
    return tuple(file.hashed() for file in list_files(folder) if file.status != "ignored")


def list_files(folder: Path) -> list[ExportFile]:
    """List every file below a folder, sorted by path.

    A hidden folder, a link to a folder, a folder that cannot be listed, and a folder that is one export (of Slack, or a
    Maildir) are one entry each, which ends with ``/``. The parts of such an export are no entries. A link to a file is
    read only if its target is in the folder, too.

    It raises ``WorkspaceError`` if the folder does not exist, or cannot be listed.
    """
    if not folder.is_dir():
        raise WorkspaceError(
            f"{folder} does not exist; create the folder and put chat exports into it, or index only documents by "
            "`backstory add`",
            code="absent_folder",
        )
    return sorted(_walk(folder, Path(os.path.realpath(folder))), key=lambda file: file.source)


def is_media_name(source: str) -> bool:
    """Return whether a file has a name that WhatsApp gives to media."""
    return _MEDIA_NAME.match(source.rpartition("/")[2]) is not None


def describe_file(path: Path, source: str) -> ExportFile:
    """Decide whether a file may be an export, by its name and type alone."""
    if path.name.startswith("."):
        return ExportFile(path, source, "ignored", "a hidden file")
    if path.name.lower() in _SYSTEM_NAMES:
        return ExportFile(path, source, "ignored", "a file of the operating system")
    if os.fsencode(path.name) != path.name.encode("utf-8", "backslashreplace"):
        return ExportFile(path, source, "failed", "the file name is not UTF-8; rename the file")
    if path.exists() and not path.is_file():
        return ExportFile(path, source, "ignored", "neither a file nor a folder")
    if size_of(path) > _MOST_BYTES:
        return ExportFile(path, source, "failed", f"it has more than {_MOST_BYTES:,} bytes; split the export")
    kind = kind_in_chats(path.name)
    return ExportFile(path, source, "media", kind) if kind else ExportFile(path, source)


def _walk(folder: Path, root: Path) -> Iterator[ExportFile]:
    errors: list[OSError] = []
    slack: set[Path] = set()
    for place, folders, names in os.walk(folder, onerror=errors.append):
        here = Path(place)
        holds_mails = is_maildir([name for name in folders if not (here / name).is_symlink()])
        if holds_mails:
            folders[:] = [name for name in folders if name not in MAILDIR_FOLDERS]
        elif is_slack_folder(names):
            slack.add(here)
        if holds_mails or here in slack:
            yield ExportFile(here, f"{_source_of(here, folder)}/", root=root)
        for path in map(here.joinpath, names):
            is_of_mails = holds_mails and _OF_MAIL_PROGRAM.fullmatch(path.name)
            is_of_slack = not slack.isdisjoint([here, here.parent]) and is_part(path)
            if not is_of_mails and not is_of_slack:
                yield _refuse_outside(describe_file(path, _source_of(path, folder)), root)
        for path in map(here.joinpath, folders):
            if rule := _explain_folder(path, root):
                yield ExportFile(path, f"{_source_of(path, folder)}/", *rule)
        folders[:] = [name for name in folders if not name.startswith(".")]
    for error in errors:
        path = Path(error.filename)
        if path == folder:
            raise WorkspaceError(f"{folder} cannot be opened ({error.strerror}); make it readable") from error
        reason = f"the folder cannot be opened ({error.strerror}); make it readable"
        yield ExportFile(path, f"{_source_of(path, folder)}/", "failed", reason)


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it cannot be told, which reading explains."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _source_of(path: Path, folder: Path) -> str:
    return os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")


def _refuse_outside(file: ExportFile, root: Path) -> ExportFile:
    if file.status == "ignored" or Path(os.path.realpath(file.path)).is_relative_to(root):
        return replace(file, root=root)
    reason = "a link that leaves the folder of exports; copy the file into it, or remove the link"
    return replace(file, status="failed", reason=reason)


def _explain_folder(path: Path, root: Path) -> tuple[str, str] | None:
    """Return status and reason of a folder that is not listed; None for any other folder."""
    if path.name.startswith("."):
        return "ignored", "a hidden folder; copy it under a name without the dot to have it read"
    if not path.is_symlink():
        return None
    if Path(os.path.realpath(path)).is_relative_to(root):
        return "ignored", "a link to a folder; its files are read at their own place"
    return (
        "failed",
        "a link to a folder outside the folder of exports; copy the folder into it, or remove the link",
    )
