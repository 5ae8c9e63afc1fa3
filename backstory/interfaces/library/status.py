"""The status of a library, and every file of its documents: searched, waiting for the next indexing, or not read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field

from backstory.base.errors import BackstoryError, ReadError
from backstory.base.ids import document_id_of
from backstory.index.snapshot import current_version, find_moment
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.documents.files import DocumentFile
from backstory.ingest.documents.written import is_unlisted, name_source
from backstory.interfaces.library.corpus import Corpus, CorpusReader
from backstory.interfaces.library.freshness import describe_indexing, is_made, list_pending
from backstory.interfaces.library.indexing import revisions_of
from backstory.interfaces.library.names import list_all_files
from backstory.interfaces.library.results import LibraryStatus, Result
from backstory.interfaces.library.text_positions import PlacedText
from backstory.interfaces.library.watching import Watcher
from backstory.pipeline.workspace import Workspace
from backstory.storage.turns import is_running


def read_status(
    workspace: Workspace, reader: CorpusReader, failures: Sequence[str], watcher: Watcher | None
) -> LibraryStatus:
    """Read the status of a library.

    Args:
        workspace: The workspace.
        reader: Reads its tables.
        failures: Failures of this process's last indexing.
        watcher: The watcher that indexes changes of the files; None without one.
    """
    version = current_version(workspace.index) or None
    corpus = mine = None
    reason = "; ".join(failures) or (watcher.error if watcher else None)
    try:
        corpus, mine = (reader.read(), reader.read_mine()) if is_made(workspace) else (None, None)
        pending = list_pending(workspace, revisions_of(corpus))
    except BackstoryError as error:
        reason, pending = str(error), []
    is_broken = reason is not None
    is_run = workspace.state_reader.read(lambda: is_running(workspace.catalog.state), lambda: False)
    if is_run or (watcher is not None and watcher.busy):
        state, reason = "indexing", reason or describe_indexing(workspace) or "indexing is under way"
    elif is_broken:
        state = "error"
    elif version is None:
        state, reason = "idle", "nothing is indexed yet"
    else:
        state = "ready"
        waiting = f"changes pending for the next indexing: {len(pending)}"
        hidden = _tell_hidden(corpus, mine)
        reason = waiting if pending else hidden or workspace.state_reader.problem or None
    return LibraryStatus(
        state=state,
        reason=reason,
        root=str(workspace.root),
        folder=str(workspace.documents_dir),
        documents=0 if mine is None else mine.documents.height,
        chunks=0 if mine is None else sum(mine.chunk_counts.values()),
        pending=tuple(name for name in pending if mine is None or name not in mine.hidden),
        unread=0 if mine is None else len(mine.list_unread()),
        index_version=version,
        embedder=workspace.embedder.id,
        last_sync=(watcher.last_sync if watcher else None) or find_moment(workspace.index),
        watching=watcher is not None and watcher.is_alive,
    )


def _tell_hidden(corpus: Corpus | None, mine: Corpus | None) -> str | None:
    """Explain why a library is empty although documents are indexed."""
    if corpus is None or mine is None or corpus.documents.is_empty() or not mine.documents.is_empty():
        return None
    tenant = corpus.workspace.settings.rag.tenant
    return f"no document states the tenant {tenant!r} of the setting rag.tenant, so none is searched"


State: TypeAlias = Literal["read", "pending", "failed", "skipped", "removed"]

_FAILED: Final = ("failed", "needs_ocr")
_NEW: Final = "the file is not read yet; the next indexing reads it"
_CHANGED: Final = (
    "the file has changed since it was read; until the next indexing, its earlier text is searched"
)
_UNSEARCHED: Final = "the file is read, and not searched yet; the next indexing adds it to the index"
_GONE: Final = "the file is gone; the next indexing takes its text out of the index"


class FileState(Result):
    """One file of the documents, or a folder that is skipped as a whole."""

    document_id: str = Field(description="Id of its document, also of one that is not read yet.")
    uri: str = Field(
        description="Path of the document, as the table documents has it; that of a folder ends with /."
    )
    name: str = Field(description="Path of the file in the workspace, or in its source.")
    state: State = Field(
        description="read: its present text is searched; pending: the next indexing reads it; failed: it could not be "
        "read; skipped: it is no document, or left out; removed: it is gone, and the next indexing drops its text."
    )
    reason: str | None = Field(
        description="Why it is in this state, and what to do; null where nothing is amiss."
    )
    title: str | None = Field(default=None, description="Title; null if it was never read.")
    kind: str | None = Field(default=None, description="Kind; null if it was never read.")
    format: str | None = Field(default=None, description="Format of the file; null if it was never read.")
    pages: int | None = Field(default=None, description="Number of pages; null without pages.")
    chunks: int = Field(default=0, description="Number of chunks that are searched.")
    size: int | None = Field(
        default=None, description="Bytes of the text's file when it was read; null if never."
    )
    revision: str | None = Field(default=None, description="Revision of the text; null if it was never read.")


def list_file_states(
    workspace: Workspace, corpus: Corpus | None, searched: Mapping[str, str], hashes: FileHashes
) -> list[FileState]:
    """List every file of the documents with its state. A file that has not changed is not read for it.

    Args:
        workspace: The workspace.
        corpus: Its tables; None if they were never made.
        searched: Revision of each document of the published snapshot, by uri.
        hashes: Hashes of files, which also remember what is read for the list.

    Returns:
        The states, by uri. Files of other tenants than that of the setting ``rag.tenant`` are not among them.
    """
    folder = workspace.settings.documents.folder
    listing = list_all_files(workspace)
    read: dict[str, dict[str, Any]] = {}
    outcomes: dict[str, dict[str, Any]] = {}
    if corpus is not None:
        read = {row["uri"]: row for row in corpus.documents.iter_rows(named=True)}
        outcomes = {row["source"]: row for row in corpus.sources.iter_rows(named=True)}
    states: dict[str, FileState] = {}

    def add(uri: str, state: State, reason: str | None) -> None:
        row = read.get(uri)
        known: dict[str, Any] = {}
        if row is not None and corpus is not None:
            known = {name: row[name] for name in ("title", "kind", "format", "size", "revision")}
            known["chunks"] = corpus.chunk_counts.get(row["document_id"], 0)
            known["pages"] = PlacedText("", tuple(row["page_starts"] or ())).pages
        name = name_source(folder, uri)
        states[uri] = FileState(
            document_id=document_id_of(uri), uri=uri, name=name, state=state, reason=reason, **known
        )

    for file in listing.files:
        outcome = outcomes.get(name_source(folder, file.uri))
        content = None if corpus is None else corpus.content_hashes.get(file.uri)
        if outcome is None:
            add(file.uri, "pending", _NEW)
        elif _has_changed(file, content, hashes):
            add(file.uri, "pending", _CHANGED)
        elif outcome["status"] != "read":
            add(file.uri, "failed" if outcome["status"] in _FAILED else "skipped", outcome["reason"])
        elif searched.get(file.uri) != read.get(file.uri, {}).get("revision"):
            add(file.uri, "pending", _UNSEARCHED)
        else:
            add(file.uri, "read", outcome["reason"])
    for entry in listing.left_out:
        add(entry.uri, "failed" if entry.status == "failed" else "skipped", entry.reason)
    unlisted = frozenset(listing.unlisted)
    for uri in read.keys() - states.keys():
        if is_unlisted(uri, unlisted):
            outcome = outcomes.get(name_source(folder, uri), {})
            add(uri, "read", outcome.get("reason"))
        else:
            add(uri, "removed", _GONE)
    hidden = frozenset() if corpus is None else corpus.hidden
    return [states[uri] for uri in sorted(states) if states[uri].name not in hidden]


def _has_changed(file: DocumentFile, content: str | None, hashes: FileHashes) -> bool:
    """Return whether a file differs from what was read of it; it is read only if it may have changed."""
    if content is None:
        return False
    path = os.fspath(file.path)
    try:
        if file.archive is None:
            return hashes.hash(path, file.open) != content
        return hashes.find(path) is None and hashlib.sha256(file.read()).hexdigest() != content
    except (ReadError, FileNotFoundError):
        return content != ""
