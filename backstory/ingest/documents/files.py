"""The files of a folder of documents, and the skipped entries."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Final, Literal
from zipfile import ZipInfo

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.files.patterns import Patterns, matches_glob
from backstory.ingest.documents.file_rules import (
    IGNORE_FILE,
    FileRules,
    explain_ignored,
    parse_patterns,
    read_ignore_file,
)
from backstory.ingest.documents.opening import Archive, is_archive, open_inside
from backstory.ingest.zips import leads_out

_DOCUMENT_SUFFIXES: Final = frozenset([".md", ".markdown"])
_HIDDEN_FILE: Final = "hidden file: its name begins with a dot"
_HIDDEN_FOLDER: Final = "hidden folder: its name begins with a dot"
_EMPTY_ARCHIVE: Final = "the archive holds no file"
_FOLDER_NAMED_AS_FILE: Final = (
    "a folder, although its name is that of a file; each of its files is read separately"
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
        """Read the file.

        It raises ``ReadError`` if the file cannot or must not be read. It raises ``FileNotFoundError`` if the file no
        longer exists.
        """
        if self.archive is not None and self.member is not None:
            self._require_name()
            return self.archive.read(self.member, size, most_bytes=most_bytes)
        with self.open(most_bytes=most_bytes) as file:
            # A file that grows meanwhile is not read beyond its limit; the limit would be allocated for each file.
            is_limited = size < 0 and most_bytes is not None
            return file.read(os.fstat(file.fileno()).st_size if is_limited else size)

    def open(self, *, most_bytes: int | None = None) -> AbstractContextManager[BufferedReader]:
        """Open the file, or the archive that it is a member of.

        It raises ``ReadError`` if the file cannot or must not be read. It raises ``FileNotFoundError`` if the file no
        longer exists.
        """
        self._require_name()
        return open_inside(self.folder, self.path, most_bytes=most_bytes)

    def _require_name(self) -> None:
        name = str(self.path.relative_to(self.folder))
        if name.encode(errors="ignore").decode() != name:
            raise ReadError("the file name is not UTF-8; rename the file", code="not_utf8")


@dataclass(frozen=True)
class LeftOut:
    """A file or a folder that is skipped; a folder's uri ends with ``/``, the folder itself is ``""``.

    ``hides_files``: its files are unknown, so that what was read of them earlier is kept.
    """

    uri: str
    status: Literal["ignored", "failed"]
    reason: str
    hides_files: bool = False


@dataclass(frozen=True)
class FolderListing:
    """The files in and below a folder that match the rules, and all skipped entries, both by uri."""

    present: bool
    files: tuple[DocumentFile, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def unlisted(self) -> tuple[str, ...]:
        """The uris of folders and files that could not be looked into, so that it is not known what they hold."""
        return tuple(entry.uri for entry in self.left_out if entry.hides_files)


def list_files(
    folder: Path, pattern: str, apart: Collection[Path] = (), rules: FileRules | None = None
) -> FolderListing:
    """List a folder and its subfolders, except linked and hidden folders.

    ``pattern``: names with ``*``, ``?`` and ``[]``; a part ``**`` stands for any number of folders. ``rules``: what
    else is left out; None for nothing but what files ``.backstoryignore`` name. It returns every other file, either as
    its own entry or covered by a skipped folder above it.
    """
    root = folder.resolve()
    elsewhere = {path.resolve() for path in apart} - {root}
    chosen = _Choice(root, pattern, rules or FileRules())
    refused: list[OSError] = []
    files: list[DocumentFile] = []
    left_out: list[LeftOut] = []
    for place, folders, names in os.walk(root, onerror=refused.append):
        here = Path(place)
        relative = here.relative_to(root)
        unusable = chosen.read_patterns(relative)
        if unusable is not None:
            left_out.append(unusable)
            folders.clear()
            continue
        folders[:] = [name for name in folders if here / name not in elsewhere]
        closed = {name: rule for name in folders if (rule := chosen.rule_for_folder(relative / name))}
        left_out += [LeftOut(f"{_uri(relative / name)}/", *rule) for name, rule in closed.items()]
        left_out += [
            LeftOut(f"{_uri(relative / name)}/", "ignored", _FOLDER_NAMED_AS_FILE)
            for name in folders
            if name not in closed and PurePosixPath(name).suffix.lower() in _DOCUMENT_SUFFIXES
        ]
        folders[:] = [name for name in folders if name not in closed]
        for name in names:
            if here / name not in elsewhere:
                found, others = chosen.take(relative / name)
                files += found
                left_out += others
    left_out += [
        _describe_refusal(error, root) for error in refused if not isinstance(error, FileNotFoundError)
    ]
    return FolderListing(
        present=root.exists(),
        files=tuple(sorted(files, key=lambda file: file.uri)),
        left_out=tuple(sorted(left_out, key=lambda entry: entry.uri)),
    )


def list_file(path: Path, rules: FileRules) -> FolderListing:
    """List a single file as if it were the only file in its folder."""
    files, left_out = _Choice(path.parent.resolve(), "*", rules).take(Path(path.name))
    return FolderListing(present=True, files=tuple(files), left_out=tuple(left_out))


def explain_path(path: str, rules: FileRules) -> str | None:
    """Return which rule leaves out a file that does not exist yet; None if none does.

    ``path``: its path below the root, with ``/``.
    """
    return _Choice(Path("/"), "**/*", rules).rule_for_member(path, "")


def _list_archive(path: Path, root: Path, chosen: _Choice) -> tuple[list[DocumentFile], list[LeftOut]]:
    """List the members of an archive as if it were a folder."""
    below = f"{_uri(path.relative_to(root))}/"
    try:
        archive = Archive(root, path)
        members = sorted(archive.list_members(), key=lambda member: member[0])
        for name, info, problem in members:
            if PurePosixPath(name).name == IGNORE_FILE and problem is None:
                chosen.add_patterns(f"{below}{name}", archive.read(info))
    except FileNotFoundError:
        return [], []
    except ReadError as error:
        reason = f"{error}; until then Backstory reads nothing in it"
        return [], [LeftOut(below, "failed", reason, hides_files=True)]
    files: list[DocumentFile] = []
    left_out: list[LeftOut] = []
    for name, info, problem in members:
        inner = f"{below}{name}"
        rule = None if leads_out(name) else chosen.rule_for_member(inner, below)
        if rule is not None:
            left_out.append(LeftOut(inner, "ignored", rule))
        elif problem is not None:
            left_out.append(LeftOut(inner, "failed", problem))
        else:
            vetted = chosen.is_vetted(inner)
            files.append(DocumentFile(inner, path, root, is_vetted=vetted, archive=archive, member=info))
    if not members:
        left_out.append(LeftOut(below, "ignored", _EMPTY_ARCHIVE))
    return files, left_out


class _Choice:
    """Chooses the files of a folder while it is walked from above, and reads its files of patterns on the way."""

    def __init__(self, root: Path, pattern: str, rules: FileRules) -> None:
        self._root = root
        self._pattern = pattern
        self._wanted = PurePosixPath(pattern).parts
        self._rules = rules
        self._ignored: dict[str, Patterns] = {}

    def take(self, path: Path) -> tuple[list[DocumentFile], list[LeftOut]]:
        """Take a file, the members of an archive, or the reason why a rule leaves it out."""
        reason, uri = self.rule_for_file(path), _uri(path)
        if reason is not None:
            return [], [LeftOut(uri, "ignored", reason)]
        if is_archive(path.name):
            return _list_archive(self._root / path, self._root, self)
        return [DocumentFile(uri, self._root / path, self._root, is_vetted=self.is_vetted(uri))], []

    def read_patterns(self, folder: Path) -> LeftOut | None:
        """Read the patterns of a folder; give its entry if they cannot be used, so that nothing in it may be read."""
        uri = "" if folder == Path() else f"{_uri(folder)}/"
        try:
            patterns = read_ignore_file(self._root / folder, self._root)
        except ReadError as error:
            reason = (
                f"{error}; until then Backstory reads nothing in this folder, as the file may exclude parts"
            )
            return LeftOut(uri, "failed", reason, hides_files=True)
        if patterns is not None:
            self._ignored[uri] = patterns
        return None

    def add_patterns(self, uri: str, content: bytes) -> None:
        """Add the patterns of a file of them that lies in an archive.

        It raises ``ReadError`` if they cannot be used.
        """
        self._ignored[f"{uri.rpartition('/')[0]}/"] = parse_patterns(content, uri)

    def rule_for_member(self, uri: str, archive: str) -> str | None:
        """Return why a member of an archive is left out, as a file or for one of its folders; None if it is not."""
        folders = [uri[: place + 1] for place in range(len(archive), len(uri)) if uri[place] == "/"]
        for folder in folders:
            reason = self._rules.explain_secret(folder) or self._rules.explain_folder(folder)
            reason = reason or explain_ignored(folder, self._ignored)
            if reason is None and PurePosixPath(folder).name.startswith("."):
                reason = _HIDDEN_FOLDER
            if reason is not None:
                return reason
        return self.rule_for_file(Path(uri), is_member=bool(archive))

    def is_vetted(self, uri: str) -> bool:
        return self._rules.is_vetted(uri)

    def rule_for_folder(self, path: Path) -> tuple[Literal["ignored", "failed"], str] | None:
        uri = f"{_uri(path)}/"
        rule = self._rules.explain_secret(uri) or _rule_for_folder(self._root / path, self._root)
        reason = rule or self._rules.explain_folder(uri) or explain_ignored(uri, self._ignored)
        return ("ignored", reason) if isinstance(reason, str) else reason

    def rule_for_file(self, path: Path, *, is_member: bool = False) -> str | None:
        """Return why a file is left out. Of an archive, which is like a folder, the members are chosen."""
        uri = _uri(path)
        reason = self._rules.explain_secret(uri)
        if reason is None and path.name.startswith("."):
            reason = _HIDDEN_FILE
        if is_archive(path.name) and not is_member:
            reason = reason or self._rules.explain_folder(uri)
        else:
            reason = reason or self._refuse_by_pattern(path) or self._rules.explain_file(uri)
        return reason or explain_ignored(uri, self._ignored)

    def _refuse_by_pattern(self, path: Path) -> str | None:
        if matches_glob(path.parts, self._wanted):
            return None
        return f"`documents: {{pattern: {self._pattern}}}` leaves it out"


def put_below(listing: FolderListing, prefix: str) -> FolderListing:
    """Put a text before the uri of every entry of a listing."""
    return FolderListing(
        present=listing.present,
        files=tuple(replace(file, uri=f"{prefix}{file.uri}") for file in listing.files),
        left_out=tuple(replace(entry, uri=f"{prefix}{entry.uri}") for entry in listing.left_out),
    )


def join_listings(first: FolderListing, *others: FolderListing) -> FolderListing:
    """Join the files of several folders, which are present if one of them is."""
    listings = (first, *others)
    return FolderListing(
        present=any(listing.present for listing in listings),
        files=tuple(file for listing in listings for file in listing.files),
        left_out=tuple(entry for listing in listings for entry in listing.left_out),
    )


def _uri(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _rule_for_folder(path: Path, root: Path) -> tuple[Literal["ignored", "failed"], str] | None:
    if path.name.startswith("."):
        return "ignored", _HIDDEN_FOLDER
    if not path.is_symlink():
        return None
    if Path(os.path.realpath(path)).is_relative_to(root):
        return "ignored", "link to a folder that is read at its own place"
    return (
        "failed",
        "this is a link to a folder outside the folder of documents; copy the folder into it, or remove the link",
    )


def _describe_refusal(error: OSError, root: Path) -> LeftOut:
    path = Path(error.filename).relative_to(root)
    uri = "" if path == Path() else f"{_uri(path)}/"
    reason = (
        f"Backstory cannot list this folder ({error.strerror}) and reads nothing in it; make it readable, or "
        "move it"
    )
    return LeftOut(uri, "failed", reason, hides_files=True)


def list_foreign(documents: pl.DataFrame, tenant: str | None) -> frozenset[str]:
    """List the uris of documents that state another tenant, of which one who serves a tenant tells nothing.

    A file whose document states no tenant, or that never could be read, is not among them.

    ``documents``: their ``uri`` and ``tenant``. ``tenant``: the tenant of the setting ``rag.tenant``; None for all of
    them, to which no document is foreign.
    """
    if tenant is None:
        return frozenset()
    own = documents.filter(pl.col("tenant") == tenant)["uri"]
    return frozenset(documents.filter(pl.col("tenant") != "")["uri"]) - frozenset(own)
