"""Compare the files of the documents with what is indexed of them, and watch them."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

import polars as pl

from backstory.base.errors import BackstoryError, NoIndexError, ReadError
from backstory.base.ids import digest
from backstory.base.wording import count
from backstory.ingest.documents.files import FileHashes, is_unlisted, name_source
from backstory.ingest.walk import ListedFile
from backstory.interfaces.library.results import IndexReport, State
from backstory.pipeline.history.history import LOST, RUNNING
from backstory.pipeline.workspace import Workspace

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0

LOOK_AGAIN_SECONDS: Final = 2.0
"""Seconds after which a search checks the files again."""
_RESTS: Final = 20
"""Least pause after a check, as a multiple of the time that the check took."""

_REVISION_CHARACTERS: Final = 12
_NAMED: Final = 3
_NEW: Final = "the file is not read yet; the next indexing reads it"
_CHANGED: Final = "the file has changed since it was read; the next indexing replaces its earlier text"
_UNSEARCHED: Final = "the file is read, and not searched yet; the next indexing adds it to the index"
_GONE: Final = "the file is gone; the next indexing takes its text out of the index"


Found: TypeAlias = tuple[State, str | None]
"""The state of a file, and why it is in it; no reason where nothing is amiss."""


def is_made(workspace: Workspace) -> bool:
    """Return whether the tables of the documents exist."""
    return bool(workspace.catalog.read("documents")) and bool(workspace.catalog.read("document_chunks"))


class FileChanges:
    """Compares the files of a workspace with what is indexed of them, and describes for answers what has changed.

    No file is read that a run or an earlier comparison has read. A description stays valid for some seconds.
    """

    def __init__(self, workspace: Workspace, seconds: float = LOOK_AGAIN_SECONDS) -> None:
        self._workspace = workspace
        self._seconds = seconds
        self._lock = threading.Lock()
        self._notes: dict[str, tuple[float, str | None]] = {}
        self._hashes: tuple[object, FileHashes] | None = None

    def compare(self, searched: Mapping[str, str]) -> dict[str, Found]:
        """Return the state of each file by its uri; ``searched`` maps the uris of documents to their revisions."""
        folder, version = self._workspace.settings.documents.folder, self._workspace.catalog.version
        contents, outcomes = _read_tables(self._workspace)
        if self._hashes is None or self._hashes[0] != version:  # a run that ended meanwhile knows more
            self._hashes = version, FileHashes(self._workspace.catalog)
        hashes, listing = self._hashes[1], self._workspace.list_documents()
        found: dict[str, Found] = {
            entry.uri: ("failed" if entry.status == "failed" else "skipped", entry.reason)
            for entry in listing.skipped
        }
        for file in listing.files:
            known, revision = contents.get(file.uri), searched.get(file.uri)
            status, reason = outcomes.get(
                name_source(folder, file.uri), ("new" if revision is None else "read", None)
            )
            content = "" if status == "new" else _hash(file, known, hashes)
            if status == "new":
                found[file.uri] = ("pending", _NEW)
            elif content != (known or content):
                found[file.uri] = ("pending", _CHANGED)
            elif status != "read":
                found[file.uri] = ("failed" if status in ("failed", "needs_ocr") else "skipped", reason)
            elif content[:_REVISION_CHARACTERS] != revision:
                found[file.uri] = ("pending", _UNSEARCHED)
            else:
                found[file.uri] = ("read", reason)
        for uri in searched.keys() - found.keys():
            _, reason = outcomes.get(name_source(folder, uri), ("", None))
            found[uri] = ("read", reason) if is_unlisted(uri, listing.unlisted) else ("removed", _GONE)
        return found

    def list_pending(self, searched: Mapping[str, str]) -> list[str]:
        """List the files that the next indexing reads or drops, as ``sources`` names them; else the stale tables."""
        from backstory.pipeline.run.plan import CORPUS

        folder = self._workspace.settings.documents.folder
        changed = sorted(name_source(folder, uri) for uri in self._list_changed(searched))
        return changed or [stage.table for stage in CORPUS if stage.find_stale(self._workspace, [])]

    def describe(
        self, version: str, searched: Mapping[str, str], hidden: Collection[str] = frozenset()
    ) -> str | None:
        """Describe which files have changed, if any."""
        with self._lock:
            began = time.monotonic()
            until, note = self._notes.get(version, (began, None))
            if began >= until:
                note, ended = self._look(searched, hidden), time.monotonic()
                # Checking many files takes long; searches must not spend most of their time on it.
                pause = max(self._seconds, _RESTS * (ended - began))
                self._notes = {**dict([*self._notes.items()][-1:]), version: (ended + pause, note)}
            return note

    def _look(self, searched: Mapping[str, str], hidden: Collection[str]) -> str | None:
        changed = self._list_changed(searched)
        if not changed:
            return None
        cut = "the last indexing was killed; " if _was_killed(self._workspace) else ""
        named = [uri for uri in changed if uri not in hidden][:_NAMED]
        others = len(changed) - len(named)
        more = (f" and {others} more" if named else "of other tenants") if others else ""
        what = f"{count(len(changed), 'file')} changed since the documents were indexed"
        return f"{cut}{what} ({', '.join(named)}{more}); index again to search the present state"

    def _list_changed(self, searched: Mapping[str, str]) -> list[str]:
        """List the files that the next indexing reads, and the documents whose text it drops."""
        found = self.compare(searched)
        return sorted(uri for uri, (state, _) in found.items() if state in ("pending", "removed"))


def _read_tables(workspace: Workspace) -> tuple[dict[str, str], dict[str, tuple[str, str | None]]]:
    """Read the hash of what was read last of each file, by uri, and its status and reason, by its name."""
    if not is_made(workspace):
        return {}, {}
    documents = workspace.tables.read("documents", columns=("uri", "content_hash", "status"))
    # A file that could not be read keeps its last good revision, so that its own row comes last.
    last = documents.filter(pl.col("status").is_in(["ok", "error"])).sort("status", descending=True)
    sources = workspace.tables.read("sources").filter(folder="documents")
    outcomes = {row["source"]: (row["status"], row["reason"]) for row in sources.iter_rows(named=True)}
    return dict(last.select("uri", "content_hash").iter_rows()), outcomes


def _hash(file: ListedFile, known: str | None, hashes: FileHashes) -> str:
    """Return the hash of a file's content; of an archive that has not changed, what is known of its member."""
    try:
        if file.archive is None:
            return hashes.hash(file)
        if known is not None and hashes.find(file) is not None:
            return known
        return hashlib.sha256(file.read()).hexdigest()
    except ReadError:
        return ""


def name_state(workspace: Workspace) -> str:
    """Name the state of the files by their names, sizes and times of change; no file is read."""
    listing = workspace.list_documents()
    lines = [f"{entry.uri} {entry.status} {entry.reason}" for entry in listing.skipped]
    for file in listing.files:
        try:
            found = file.path.stat()
        except OSError:
            continue  # the file was removed after the folder was listed
        lines.append(f"{file.uri} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}")
    return digest(lines)


def describe_indexing(workspace: Workspace) -> str | None:
    """Describe how far the run that is under way is; None without one."""
    running = [run for run in workspace.runs.read(_NAMED) if run.status == RUNNING]
    steps = [f": {run.step or f'at {run.stage}'}" for run in running if run.stage]
    return "".join(["indexing is under way", *steps[:1]]) if running else None


def explain_absence(workspace: Workspace) -> BackstoryError:
    """Explain why nothing can be searched: no store, nothing indexed yet, or a first indexing under way."""
    if workspace.follower.error is not None:
        return workspace.follower.error
    if indexing := describe_indexing(workspace):
        return NoIndexError(f"{indexing}, and nothing can be searched yet; ask again later", code="indexing")
    killed = ", since its first indexing was killed" if _was_killed(workspace) else ""
    remedy = (
        f"put files into {workspace.documents_dir} and run `backstory add`, or with chats `backstory run`"
    )
    return NoIndexError(f"nothing is indexed in {workspace.root} yet{killed}; {remedy}")


def _was_killed(workspace: Workspace) -> bool:
    return any(run.status == LOST for run in workspace.runs.read(1))


class Watcher:
    """A thread that indexes changed files, after a burst of changes has ended.

    If a check or an indexing fails, the watcher reports the reason and continues at the next change.

    Attributes:
        error: Why the last indexing failed; None if it did not.
        last_sync: When the index last matched the files; None before the first time.
    """

    def __init__(
        self, fingerprint: Callable[[], str], index: Callable[[], IndexReport], seconds: float = POLL_SECONDS
    ) -> None:
        """Take what tells the state of the files, what indexes them, and the pause between two looks; start to look."""
        self.error: str | None = None
        self.last_sync: datetime | None = None
        self._fingerprint = fingerprint
        self._index = index
        self._seconds = seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="library-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after an indexing that is under way."""
        self._stopping.set()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the watcher is running."""
        return self._thread.is_alive()

    def _watch(self) -> None:
        seen = done = None
        while not self._stopping.is_set():
            try:
                state = self._fingerprint()
                # A burst of changes has ended where two looks find the same.
                if state == seen != done:
                    done = state
                    self._report(self._index().failures)
                seen = state
            except (BackstoryError, OSError) as error:
                self._report([str(error)])
            except Exception as error:  # nobody would see why a thread ended
                logger.exception("the watched documents could not be indexed")
                self._report([f"{type(error).__name__}: {error}"])
            self._stopping.wait(self._seconds)

    def _report(self, failures: Sequence[str]) -> None:
        error = "; ".join(failures) or None
        if error is None:
            self.last_sync = datetime.now(UTC)
        elif error != self.error:
            logger.warning("the watched documents could not be indexed: %s", error)
        self.error = error
