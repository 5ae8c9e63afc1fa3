"""The status of a library, and every file of its documents: searched, waiting for the next indexing, or not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from backstory.base.errors import BackstoryError
from backstory.base.ids import document_id_of
from backstory.index.snapshot import current_version, find_moment
from backstory.ingest.documents.written import name_source
from backstory.interfaces.library.corpus import Corpus, CorpusReader
from backstory.interfaces.library.freshness import FileChanges, State, Watcher, describe_indexing, is_made
from backstory.interfaces.library.results import LibraryStatus
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.found import Result
from backstory.storage.turns import is_running


def read_status(
    workspace: Workspace,
    changes: FileChanges,
    reader: CorpusReader,
    failures: Sequence[str],
    watcher: Watcher | None,
) -> LibraryStatus:
    """Read the status of a library: with the failures of this process's last indexing, and those of its watcher."""
    version = current_version(workspace.index) or None
    corpus = mine = None
    reason = "; ".join(failures) or (watcher.error if watcher else None)
    try:
        corpus, mine = (reader.read(), reader.read_mine()) if is_made(workspace) else (None, None)
        pending = changes.list_pending({} if corpus is None else corpus.revisions)
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
    date: datetime | None = Field(default=None, description="Date of the document; null if it has none.")
    date_origin: str | None = Field(
        default=None,
        description="What the date is taken from: stated in the text, name of the file or its folder, or the file's "
        "properties: changed, created, or copied; null without a date.",
    )
    format: str | None = Field(default=None, description="Format of the file; null if it was never read.")
    pages: int | None = Field(default=None, description="Number of pages; null without pages.")
    chunks: int = Field(default=0, description="Number of chunks that are searched.")
    size: int | None = Field(
        default=None, description="Bytes of the text's file when it was read; null if never."
    )
    revision: str | None = Field(default=None, description="Revision of the text; null if it was never read.")


def list_file_states(
    workspace: Workspace, changes: FileChanges, corpus: Corpus | None, searched: Mapping[str, str]
) -> list[FileState]:
    """List every file of the documents with its state, by uri, but those of other tenants.

    ``corpus`` is None if the tables were never made; ``searched`` maps the uri of each searched document to its
    revision.
    """
    read = {} if corpus is None else {row["uri"]: row for row in corpus.documents.iter_rows(named=True)}
    folder = workspace.settings.documents.folder
    hidden = frozenset[str]() if corpus is None else corpus.hidden
    states = []
    for uri, found in sorted(changes.compare({**dict.fromkeys(read, ""), **searched}).items()):
        row, name = read.get(uri), name_source(folder, uri)
        known: dict[str, Any] = {}
        if row is not None and corpus is not None:
            known = {
                name: row[name] for name in ("title", "kind", "format", "date_origin", "size", "revision")
            }
            known["date"] = row["published_at"]
            known["chunks"] = corpus.chunk_counts.get(row["document_id"], 0)
            known["pages"] = len(row["page_starts"] or ()) or None
        if name not in hidden and (row is not None or found.state != "removed"):
            states.append(
                FileState(
                    document_id=document_id_of(uri),
                    uri=uri,
                    name=name,
                    state=found.state,
                    reason=found.reason,
                    **known,
                )
            )
    return states
