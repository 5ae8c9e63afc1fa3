"""The files of a folder of chat exports: which may be exports, and which are skipped by a rule."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from backstory.base.errors import WorkspaceError
from backstory.ingest.chats.opened import (
    MAILDIR_FOLDERS,
    hash_file,
    hash_folder,
    is_export_folder,
    is_maildir,
    is_part,
    is_slack_folder,
    list_parts,
)
from backstory.ingest.chats.times import KNOWN_YEAR
from backstory.ingest.file_kinds import kind_in_chats

_SUFFIXES: Final = frozenset([".txt", ".zip", ".csv", ".tsv", ".jsonl", ".json", ".parquet"])
_SYSTEM_NAMES: Final = frozenset(["thumbs.db", "desktop.ini", "icon\r"])
_MEDIA_NAME: Final = re.compile(
    r"(?:(?:IMG|VID|PTT|AUD|STK|DOC)-\d{8}-WA\d{4,}|\d{8}-(?:PHOTO|VIDEO|AUDIO|STICKER|GIF)-[\d-]+)\b",
    re.IGNORECASE,
)
"""File names that WhatsApp gives to media: ``IMG-20240115-WA0001.jpg``, ``00000012-PHOTO-2024-01-15-21-05-00.jpg``."""


_OF_MAIL_PROGRAM: Final = re.compile(r"dovecot.*|[^.]*")
"""Files beside mails: ``dovecot.index.log``, and names without a suffix, such as ``maildirfolder``."""

_NO_MAIL: Final = (
    "no mail that has arrived: it is hidden, a link, a folder, or not delivered whole; copy it here as a file if it is "
    "a mail, else move it out"
)


@dataclass(frozen=True)
class ExportFile:
    """A file that may be a chat export, or a folder that is one.

    Attributes:
        path: Path for opening the file.
        source: Path relative to the folder of exports, with ``/``; a folder also ends with it.
        sha256: Hash of the bytes, of a folder of those of its parts, in hexadecimal; empty if the file is not read or
            cannot be read.
        latest_year: Latest year in which a message of the file can have been sent.
    """

    path: Path
    source: str
    sha256: str
    latest_year: int

    @property
    def fingerprint(self) -> str:
        """All properties of the file that affect the messages read from it."""
        return f"{self.source} {self.sha256} {self.latest_year}"


@dataclass(frozen=True)
class ListedFile:
    """Any entry below the folder of exports.

    Attributes:
        path: Path for opening the entry.
        source: Path relative to the folder of exports, with ``/``.
        status: ``candidate`` for a possible export, else ``media`` (by type), ``ignored`` or ``failed``.
        reason: Why the entry is ignored or failed; for media, the type.
        root: The folder of exports with links resolved, which nothing outside is opened of; None for a file that a
            person named.
    """

    path: Path
    source: str
    status: str = "candidate"
    reason: str = ""
    root: Path | None = None


def find_exports(folder: Path) -> tuple[ExportFile, ...]:
    """List every file below a folder that affects the messages read from it, sorted by path.

    Hidden files are skipped. Media are listed without a hash, since only their names matter.

    It raises ``WorkspaceError`` if the folder does not exist.
    """
    files = []
    for listed in list_files(folder):
        sha256, latest_year = hash_export(listed) if listed.status == "candidate" else ("", KNOWN_YEAR)
        if listed.status != "ignored":
            files.append(ExportFile(listed.path, listed.source, sha256, latest_year))
    return tuple(files)


def hash_export(listed: ListedFile) -> tuple[str, int]:
    """Hash a file, or the parts of a folder, as they are now; return also the latest year of a message.

    A file that cannot be opened has the reason in the place of a hash.
    """
    try:
        if listed.path.is_dir():
            return hash_folder(listed.path, listed.root), KNOWN_YEAR
        return hash_file(listed.path, listed.root)
    except OSError as error:
        return str(error.strerror), KNOWN_YEAR


def list_files(folder: Path) -> list[ListedFile]:
    """List every file below a folder, sorted by path.

    A hidden folder, a link to a folder, a folder that cannot be listed, and a folder that is one export (of Slack, or a
    Maildir) are one entry each, which ends with ``/``. The parts of such an export are no entries.
    A folder named like a file is also an entry, in addition to its files. A link to a file is read only if its target
    is in the folder, too.

    It raises ``WorkspaceError`` if the folder does not exist, or cannot be listed.
    """
    require_exports(folder)
    return sorted(_walk(folder), key=lambda file: file.source)


def require_exports(folder: Path) -> None:
    """Check that the folder of exports is there.

    It raises ``WorkspaceError`` if it is not.
    """
    if not folder.is_dir():
        raise WorkspaceError(
            f"{folder} does not exist; create the folder and put chat exports into it, or index only documents by "
            "`backstory add`",
            code="absent_folder",
        )


def is_media_name(source: str) -> bool:
    """Return whether a file has a name that WhatsApp gives to media."""
    return _MEDIA_NAME.match(source.rpartition("/")[2]) is not None


def describe_file(path: Path, source: str) -> ListedFile:
    """Decide whether a file may be an export, by its name and type alone.

    ``source``: path relative to the folder of exports, with ``/``.
    """
    if path.name.startswith("."):
        return ListedFile(path, source, "ignored", "a hidden file")
    if path.name.lower() in _SYSTEM_NAMES:
        return ListedFile(path, source, "ignored", "a file of the operating system")
    if os.fsencode(path.name) != path.name.encode("utf-8", "backslashreplace"):
        return ListedFile(path, source, "failed", "the file name is not UTF-8; rename the file")
    if path.exists() and not path.is_file():
        return ListedFile(path, source, "ignored", "neither a file nor a folder")
    kind = kind_in_chats(path.name)
    return ListedFile(path, source, "media", kind) if kind else ListedFile(path, source)


def _walk(folder: Path) -> Iterator[ListedFile]:
    errors: list[OSError] = []
    root = Path(os.path.realpath(folder))
    slack: set[Path] = set()
    maildirs: set[Path] = set()
    for place, folders, names in os.walk(folder, onerror=errors.append):
        here = Path(place)
        if here.parent in maildirs and here.name in MAILDIR_FOLDERS:
            yield from _list_no_mails(here, [*folders, *names], folder)
            folders.clear()
            continue
        if is_maildir([name for name in folders if not (here / name).is_symlink()]):
            maildirs.add(here)
        elif is_slack_folder(names):
            slack.add(here)
        if here in slack | maildirs:
            yield ListedFile(here, f"{_source_of(here, folder)}/", root=root)
        for name in names:
            path, source = here / name, _source_of(here / name, folder)
            if here in maildirs and _OF_MAIL_PROGRAM.fullmatch(name):
                yield ListedFile(path, source, "ignored", "a file of the mail program")
            elif slack.isdisjoint([here, here.parent]) or not is_part(path):
                yield _refuse_outside(describe_file(path, source), root)
        for name in folders:
            described = _describe_folder(here / name, f"{_source_of(here / name, folder)}/", root)
            if described is not None:
                yield described
        folders[:] = [name for name in folders if not name.startswith(".")]
    for error in errors:
        path = Path(error.filename)
        if path == folder:
            raise WorkspaceError(f"{folder} cannot be opened ({error.strerror}); make it readable") from error
        reason = f"the folder cannot be opened ({error.strerror}); make it readable"
        yield ListedFile(path, f"{_source_of(path, folder)}/", "failed", reason)


def _list_no_mails(here: Path, names: Sequence[str], folder: Path) -> Iterator[ListedFile]:
    """List what lies in a folder of a Maildir and is none of its mails."""
    with suppress(OSError):  # reading the mails says that a folder cannot be opened
        mails = set(list_parts(here.parent))
        for path in (here / name for name in names if here / name not in mails):
            is_folder = path.is_dir() and not path.is_symlink()
            is_expected = path.name.startswith(".") or (here.name == "tmp" and not path.is_symlink())
            source = f"{_source_of(path, folder)}{'/' if is_folder else ''}"
            yield ListedFile(path, source, "ignored" if is_expected else "failed", _NO_MAIL)


def _source_of(path: Path, folder: Path) -> str:
    return os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")


def _refuse_outside(file: ListedFile, root: Path) -> ListedFile:
    if file.status == "ignored" or Path(os.path.realpath(file.path)).is_relative_to(root):
        return replace(file, root=root)
    reason = "a link that leaves the folder of exports; copy the file into it, or remove the link"
    return ListedFile(file.path, file.source, "failed", reason)


def _describe_folder(path: Path, source: str, root: Path) -> ListedFile | None:
    """Describe a folder that is not listed, or that is named like a file; None for any other folder."""
    if path.name.startswith("."):
        reason = "a hidden folder; copy it under a name without the dot to have it read"
        return ListedFile(path, source, "ignored", reason)
    if path.is_symlink() and Path(os.path.realpath(path)).is_relative_to(root):
        reason = "a link to a folder; its files are read at their own place"
        return ListedFile(path, source, "ignored", reason)
    if path.is_symlink():
        reason = (
            "a link to a folder outside the folder of exports; copy the folder into it, or remove the link"
        )
        return ListedFile(path, source, "failed", reason)
    with suppress(OSError):  # going through it says that it cannot be opened
        if path.suffix.lower() in _SUFFIXES and not is_export_folder(path):
            reason = "a folder, although its name is that of a file; each of its files is read separately"
            return ListedFile(path, source, "ignored", reason)
    return None
