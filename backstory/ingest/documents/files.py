"""The files of a folder of documents, and the skipped entries."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from zipfile import ZipInfo

from backstory.base.errors import ReadError
from backstory.base.files.patterns import Patterns
from backstory.ingest.documents.file_rules import IGNORE_FILE, MOST_PATTERN_BYTES, FileRules, parse_patterns
from backstory.ingest.documents.opening import Archive, is_archive, open_inside
from backstory.ingest.zips import leads_out

if TYPE_CHECKING:
    from datetime import datetime

    from backstory.ingest.documents.parsed_document import DocumentFormat

_OUTSIDE: Final = (
    "this is a link to a folder outside the folder of documents; copy the folder into it, or remove the link"
)


@dataclass(frozen=True)
class DocumentFile:
    """One file that may be a document; its uri is its path below the folder, escaped where it is not UTF-8.

    ``kind`` and ``tenant`` are those of its source, if it has any. ``is_vetted``: the settings let it be read though it
    may look like a secret. ``archive`` and ``member``: what it is in a ZIP file, which ``path`` leads to.
    """

    uri: str
    path: Path
    folder: Path
    kind: str | None = None
    tenant: str | None = None
    is_vetted: bool = False
    archive: Archive | None = field(default=None, compare=False)
    member: ZipInfo | None = field(default=None, compare=False)

    def read(self, size: int = -1, *, most_bytes: int | None = None) -> bytes:
        """Read the file; it raises as :meth:`open`."""
        if self.archive is not None and self.member is not None:
            self._require_name()
            return self.archive.read(self.member, size, most_bytes=most_bytes)
        with self.open(most_bytes=most_bytes) as file:
            # A file that grows meanwhile is not read beyond its limit; the limit would be allocated for each file.
            is_limited = size < 0 and most_bytes is not None
            return file.read(os.fstat(file.fileno()).st_size if is_limited else size)

    def open(self, *, most_bytes: int | None = None) -> AbstractContextManager[BufferedReader]:
        """Open the file, or the archive that it is a member of.

        It raises ``ReadError`` if the file cannot or must not be read, ``FileNotFoundError`` if it no longer exists.
        """
        self._require_name()
        return open_inside(self.folder, self.path, most_bytes=most_bytes)

    def _require_name(self) -> None:
        name = str(self.path.relative_to(self.folder))
        if name.encode(errors="ignore").decode() != name:
            raise ReadError("the file name is not UTF-8; rename the file", code="not_utf8")


@dataclass(frozen=True)
class Outcome:
    """What became of a file, or of a folder whose files are not listed one by one, and why it is not fully read.

    A folder's uri ends with ``/``, the folder of documents itself is ``""``. ``hides_files``: its files are unknown, so
    that what was read of them earlier is kept.
    """

    uri: str
    status: str
    reason: str | None
    reader: DocumentFormat | None = None
    date: datetime | None = None
    encoding: str | None = None
    language: str | None = None
    hides_files: bool = False


@dataclass(frozen=True)
class FolderListing:
    """The files in and below a folder that match the rules, and all skipped entries, both by uri."""

    present: bool
    files: tuple[DocumentFile, ...]
    left_out: tuple[Outcome, ...]

    @property
    def unlisted(self) -> tuple[str, ...]:
        """The uris of folders and files that could not be looked into, so that it is not known what they hold."""
        return tuple(entry.uri for entry in self.left_out if entry.hides_files)


def list_files(folder: Path, rules: FileRules | None = None, apart: Collection[Path] = ()) -> FolderListing:
    """List a folder and its subfolders, except linked and hidden folders.

    ``rules``: what is left out; None for nothing but what files ``.backstoryignore`` name. It returns every other file,
    either as its own entry or covered by a skipped folder above it.
    """
    root = folder.resolve()
    elsewhere = {path.resolve() for path in apart} - {root}
    walk = _Walk(root, rules or FileRules())
    refused: list[OSError] = []
    for place, folders, names in os.walk(root, onerror=refused.append):
        here = Path(place)
        if IGNORE_FILE in (*folders, *names) and not walk.can_use_patterns(here):
            folders.clear()
        else:
            folders[:] = [
                name for name in folders if here / name not in elsewhere and walk.is_open(here / name)
            ]
            for name in names:
                if here / name not in elsewhere:
                    walk.take(here / name)
    for error in refused:
        if not isinstance(error, FileNotFoundError):
            why = f"Backstory cannot list this folder ({error.strerror}) and reads nothing in it; make it readable"
            walk.close(walk.name(Path(error.filename), "/"), f"{why}, or move it")
    return walk.list_found(present=root.exists())


def list_file(path: Path, rules: FileRules) -> FolderListing:
    """List a single file as if it were the only file in its folder."""
    walk = _Walk(path.parent.resolve(), rules)
    walk.take(walk.root / path.name)
    return walk.list_found(present=True)


class _Walk:
    """Chooses the files of a folder while it is walked from above, and reads its files of patterns on the way."""

    def __init__(self, root: Path, rules: FileRules) -> None:
        self.root = root
        self._rules = rules
        self._ignored: dict[str, Patterns] = {}
        self._files: list[DocumentFile] = []
        self._left_out: list[Outcome] = []

    def list_found(self, *, present: bool) -> FolderListing:
        files = sorted(self._files, key=lambda file: file.uri)
        left_out = sorted(self._left_out, key=lambda entry: entry.uri)
        return FolderListing(present, tuple(files), tuple(left_out))

    def name(self, path: Path, end: str = "") -> str:
        """Return the uri of what lies below the root; the root itself is empty."""
        if path == self.root:
            return ""
        return f"{os.fsencode(path.relative_to(self.root)).decode('utf-8', 'backslashreplace')}{end}"

    def close(self, uri: str, reason: str) -> None:
        """Note that nothing is known of what a folder or an archive holds."""
        self._left_out.append(Outcome(uri, "failed", reason, hides_files=True))

    def can_use_patterns(self, folder: Path) -> bool:
        """Read the patterns of a folder; return whether they can be used, else nothing in it may be read."""
        uri = self.name(folder, "/")
        try:
            with open_inside(self.root, folder / IGNORE_FILE) as file:
                self._ignored[uri] = parse_patterns(file.read(MOST_PATTERN_BYTES + 1))
        except FileNotFoundError:  # it was removed after the folder was listed
            return True
        except ReadError as error:
            why = "until then Backstory reads nothing in this folder, as the file may exclude parts"
            self.close(uri, f"{IGNORE_FILE}: {error}; {why}")
            return False
        return True

    def is_open(self, folder: Path) -> bool:
        """Return whether a folder is to be walked."""
        uri = self.name(folder, "/")
        status, reason = "ignored", self._rules.explain(uri, self._ignored)
        if reason is None and folder.is_symlink():
            reason = "link to a folder that is read at its own place"
            if not Path(os.path.realpath(folder)).is_relative_to(self.root):
                status, reason = "failed", _OUTSIDE
        if reason is not None:
            self._left_out.append(Outcome(uri, status, reason))
        return reason is None

    def take(self, path: Path) -> None:
        """Take a file, the members of an archive, or the reason why a rule leaves it out."""
        uri = self.name(path)
        reason = self._rules.explain(uri, self._ignored)
        if reason is not None:
            self._left_out.append(Outcome(uri, "ignored", reason))
        elif is_archive(path.name):
            self._take_members(path, f"{uri}/")
        else:
            self._files.append(DocumentFile(uri, path, self.root, is_vetted=self._rules.is_vetted(uri)))

    def _take_members(self, path: Path, below: str) -> None:
        try:
            archive = Archive(self.root, path)
            members = list(archive.list_members())
            for name, info, problem in members:
                if PurePosixPath(name).name == IGNORE_FILE and problem is None:
                    folder = f"{below}{name}".removesuffix(IGNORE_FILE)
                    self._ignored[folder] = parse_patterns(archive.read(info))
        except FileNotFoundError:
            return
        except ReadError as error:
            self.close(below, f"{error}; until then Backstory reads nothing in it")
            return
        if not members:
            self._left_out.append(Outcome(below, "ignored", "the archive holds no file"))
        for name, info, problem in members:
            uri = f"{below}{name}"
            rule = None
            if not leads_out(name):
                rule = self._rules.explain_with_folders(uri, self._ignored, archive=below)
            if rule is not None:
                self._left_out.append(Outcome(uri, "ignored", rule))
            elif problem is not None:
                self._left_out.append(Outcome(uri, "failed", problem))
            else:
                vetted = self._rules.is_vetted(uri)
                self._files.append(
                    DocumentFile(uri, path, self.root, is_vetted=vetted, archive=archive, member=info)
                )


def put_below(
    listing: FolderListing, prefix: str, kind: str | None = None, tenant: str | None = None
) -> FolderListing:
    """Put a text before the uri of every entry of a listing, and give its files a kind and a tenant."""
    return replace(
        listing,
        files=tuple(
            replace(file, uri=f"{prefix}{file.uri}", kind=kind, tenant=tenant) for file in listing.files
        ),
        left_out=tuple(replace(entry, uri=f"{prefix}{entry.uri}") for entry in listing.left_out),
    )


def join_listings(*listings: FolderListing) -> FolderListing:
    """Join the files of several folders, which are present if one of them is."""
    return FolderListing(
        present=any(listing.present for listing in listings),
        files=tuple(file for listing in listings for file in listing.files),
        left_out=tuple(entry for listing in listings for entry in listing.left_out),
    )
