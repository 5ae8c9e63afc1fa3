"""Detect files that have changed since they were indexed."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

from backstory.base.errors import NoIndexError, ReadError
from backstory.base.ids import digest
from backstory.base.wording import count
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.documents.file_rules import IGNORE_FILE
from backstory.ingest.documents.files import DocumentFile, FolderListing
from backstory.ingest.documents.written import is_unlisted, name_source
from backstory.ingest.sources.roots import list_sources
from backstory.interfaces.library.names import list_all_files
from backstory.pipeline.history.record import LOST, RUNNING, RunRecord
from backstory.pipeline.workspace import Workspace

LOOK_AGAIN_SECONDS: Final = 2.0
"""Seconds after which a search checks the files again."""

_REVISION_CHARACTERS: Final = 12
_NAMED: Final = 3
_RESTS: Final = 20
"""Least pause after a check, as a multiple of the time that the check took."""


def is_made(workspace: Workspace) -> bool:
    """Return whether the tables of the documents exist."""
    return bool(workspace.catalog.read("documents")) and bool(workspace.catalog.read("document_chunks"))


def list_pending(workspace: Workspace, revisions: Mapping[str, str]) -> list[str]:
    """List the files that the next indexing reads or drops, by their names in the table ``sources``.

    If only something else is stale, such as the index after a change of a setting, the names of the tables are given.

    Args:
        workspace: The workspace.
        revisions: Revision of each document of the tables, by uri.
    """
    from backstory.pipeline.run.plan import CORPUS

    folder = workspace.settings.documents.folder
    changed = _find_changed(workspace, list_all_files(workspace), revisions)
    if changed:
        return sorted(name_source(folder, uri) for uri in changed)
    return [stage.table for stage in CORPUS if stage.find_stale(workspace, [])]


def name_state(workspace: Workspace) -> str:
    """Name the state of the files by their names, sizes and times of change; no file is read."""
    listing = list_all_files(workspace)
    lines = [f"{entry.uri} {entry.status} {entry.reason}" for entry in listing.left_out]
    for file in listing.files:
        try:
            found = file.path.stat()
        except OSError:
            continue  # the file was removed after the folder was listed
        lines.append(f"{file.uri} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}")
    return digest(lines)


class StaleNote:
    """Adds a note to each answer if files have changed since the snapshot was built, by names and times of change.

    A file is read only if its inode changed after the last indexing. The files are checked again after some seconds,
    and listed again only if the size or the time of change of a file or a folder differs.

    Args:
        workspace: The workspace.
        seconds: Seconds for which a check stays valid.
    """

    def __init__(self, workspace: Workspace, seconds: float = LOOK_AGAIN_SECONDS) -> None:
        self._workspace = workspace
        self._seconds = self._rest = seconds
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._version = ""
        self._state = ("", 0)
        self._stamps: FileStamps | None = None
        self._note: str | None = None

    def describe(
        self, version: str, revisions: Mapping[str, str], hidden: Collection[str] = frozenset()
    ) -> str | None:
        """Describe which files have changed; while the database is away, as it was when it was last known.

        Args:
            version: Version of the open snapshot.
            revisions: Revision of each of its documents, by uri.
            hidden: Uris of documents of other tenants, which are counted, but not named.

        Returns:
            A sentence; None if none has changed.
        """
        with self._lock:
            now = time.monotonic()
            if self._looked is None or self._version != version or now - self._looked >= self._rest:
                self._note = self._workspace.state_reader.read(
                    lambda: self._check(version, revisions, hidden), lambda: self._note
                )
                self._looked, self._version = time.monotonic(), version
                # Checking many files takes long; searches must not spend most of their time on it.
                self._rest = max(self._seconds, _RESTS * (self._looked - now))
            return self._note

    def _check(self, version: str, revisions: Mapping[str, str], hidden: Collection[str]) -> str | None:
        """Look at the files again if the snapshot, the catalog or their stamps have changed."""
        state = (version, self._workspace.catalog.version)
        if self._state != state or self._stamps is None or not self._stamps.hold():
            self._note = self._look(revisions, hidden)
        self._state = state
        return self._note

    def _look(self, revisions: Mapping[str, str], hidden: Collection[str]) -> str | None:
        began = time.time_ns()
        workspace = self._workspace
        listing = list_all_files(workspace)
        changed = _find_changed(workspace, listing, revisions)
        roots = [workspace.documents_dir, *(source.root for source in list_sources(workspace))]
        self._stamps = FileStamps.take(listing, [*roots, workspace.added_sources], began)
        if not changed:
            return None
        cut = "the last indexing was killed; " if _find_holder(workspace) == "killed" else ""
        return cut + _describe(changed, hidden)


def describe_indexing(workspace: Workspace) -> str | None:
    """Describe how far the run that is under way is; None without one."""
    if _find_holder(workspace) != "running":
        return None
    latest: list[RunRecord] = workspace.state_reader.read(lambda: workspace.runs.read(_NAMED), list)
    running = next((one for one in latest if one.status == RUNNING and one.stage), None)
    step = None if running is None else running.step or f"at {running.stage}"
    return f"indexing is under way{f': {step}' if step else ''}"


def explain_absence(workspace: Workspace) -> NoIndexError:
    """Explain why nothing can be searched: nothing is indexed yet, or the first indexing is under way."""
    if indexing := describe_indexing(workspace):
        return NoIndexError(
            f"{indexing}, and nothing can be searched yet; ask again when it has ended, which the status tells",
            code="indexing",
        )
    if _find_holder(workspace) == "killed":
        return NoIndexError(
            f"the first indexing of {workspace.root} was killed, and nothing can be searched yet; run it again, which "
            "resumes"
        )
    return NoIndexError(
        f"nothing is indexed in {workspace.root} yet; put files into {workspace.documents_dir} and run "
        "`backstory add`, or with chats `backstory run`"
    )


def describe_change(workspace: Workspace, uri: str, revision: str) -> str | None:
    """Describe the change of a document's file since it was indexed; None if there is none."""
    listing = list_all_files(workspace)
    own = replace(listing, files=tuple(file for file in listing.files if file.uri == uri))
    return _describe([uri]) if _find_changed(workspace, own, {uri: revision}) else None


def _find_changed(workspace: Workspace, listing: FolderListing, revisions: Mapping[str, str]) -> list[str]:
    """List the files whose content a snapshot does not have, as far as a run could read them.

    A file is read only if a run has not read it with its present size and times.
    """
    failed: dict[str, str] = {}
    refused: set[str] = set()
    if is_made(workspace):
        documents = workspace.tables.read("documents", columns=("uri", "content_hash", "status"))
        failed = dict(documents.filter(status="error").select("uri", "content_hash").iter_rows())
        sources = workspace.tables.read("sources").filter(folder="documents")
        refused = set(sources.filter(sources["status"] != "read")["source"])
    hashes = FileHashes(workspace.catalog)
    folder = workspace.settings.documents.folder
    here, unlisted = {file.uri for file in listing.files}, frozenset(listing.unlisted)
    found = [uri for uri in revisions if uri not in here and not is_unlisted(uri, unlisted)]
    for file in listing.files:
        content = hashes.find(os.fspath(file.path)) or _hash(file) or ""
        if revisions.get(file.uri) == content[:_REVISION_CHARACTERS] or failed.get(file.uri) == content:
            continue
        # A text that the embedding service refuses is in no other table.
        if file.uri in failed or name_source(folder, file.uri) not in refused:
            found.append(file.uri)
    return sorted(found)


def _find_holder(workspace: Workspace) -> Literal["running", "killed"] | None:
    """Return what became of the last run; None as well where that is not known, since the database is away."""
    latest: list[RunRecord] = workspace.state_reader.read(lambda: workspace.runs.read(1), list)
    if latest and latest[0].status == RUNNING:
        return "running"
    return "killed" if latest and latest[0].status == LOST else None


def _hash(file: DocumentFile) -> str | None:
    try:
        return hashlib.sha256(file.read()).hexdigest()
    except (ReadError, FileNotFoundError):
        return None


def _describe(changed: Sequence[str], hidden: Collection[str] = frozenset()) -> str:
    named = [uri for uri in changed if uri not in hidden][:_NAMED]
    others = len(changed) - len(named)
    more = (f" and {others} more" if named else "of other tenants") if others else ""
    return (
        f"{count(len(changed), 'file')} changed since the documents were indexed "
        f"({', '.join(named)}{more}); index again to search the present state"
    )


_Stamp: TypeAlias = tuple[int, int, int, int]
"""Size, both times of change in nanoseconds, and inode."""

_COARSEST_CLOCK_NS: Final = 2_000_000_000
"""Longest step of the clocks of file systems: two changes within it may have the same time."""


@dataclass(frozen=True)
class FileStamps:
    """The sizes and times of everything that a listing of files depends on.

    Attributes:
        stamps: The stamp of each path; None for what is not there.
        is_certain: Whether any later change would show in them.
    """

    stamps: dict[Path, _Stamp | None]
    is_certain: bool

    @classmethod
    def take(cls, listing: FolderListing, others: Iterable[Path], began_ns: int) -> Self:
        """Record the stamps of the files of a listing and of their folders.

        Args:
            listing: The listing.
            others: Further files that decide which files are listed.
            began_ns: When the listing began, by :func:`time.time_ns`.
        """
        paths = {*others, *(file.path for file in listing.files)}
        for folder in listing.looked_into:
            paths |= {folder, folder / IGNORE_FILE}
        stamps = {path: _stamp(path) for path in paths}
        latest = max((max(each[1:3]) for each in stamps.values() if each is not None), default=0)
        # A file that could not be opened may be repaired in a place without a stamp.
        is_whole = not listing.unlisted and all(entry.status != "failed" for entry in listing.left_out)
        return cls(stamps, is_whole and latest + _COARSEST_CLOCK_NS < began_ns)

    def hold(self) -> bool:
        """Return whether everything is certain to be unchanged."""
        return self.is_certain and all(_stamp(path) == stamp for path, stamp in self.stamps.items())


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
