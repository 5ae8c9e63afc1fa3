"""How a library stands: what is indexed, what waits, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from backstory.errors import BackstoryError
from backstory.index import current_version
from backstory.index.snapshot.history import read_history
from backstory.library.corpus import CorpusReader
from backstory.library.freshness import find_pending
from backstory.library.indexing import is_made
from backstory.library.results import LibraryStatus
from backstory.tables.locks import is_running
from backstory.workspace import Workspace


def read_status(workspace: Workspace, reader: CorpusReader, failures: Sequence[str]) -> LibraryStatus:
    """Read how a library stands.

    Args:
        workspace: The workspace.
        reader: Reads its tables.
        failures: What the last indexing of this process left broken.
    """
    version = current_version(workspace.index) or None
    corpus = None
    reason = "; ".join(failures) or None
    try:
        corpus = reader.read() if is_made(workspace) else None
        pending = find_pending(workspace, corpus)
    except BackstoryError as error:
        reason, pending = str(error), []
    is_broken = reason is not None
    if is_running(workspace.tables):
        state, reason = "indexing", reason or "a run of this workspace is under way"
    elif is_broken:
        state = "error"
    elif version is None:
        state, reason = "idle", "nothing is indexed yet"
    else:
        state = "ready"
        reason = f"{len(pending)} changes wait for the next indexing" if pending else None
    return LibraryStatus(
        state=state,
        reason=reason,
        root=str(workspace.root),
        folder=str(workspace.posts),
        documents=0 if corpus is None else corpus.documents.height,
        chunks=0 if corpus is None else sum(corpus.chunk_counts.values()),
        pending=tuple(pending),
        unread=0 if corpus is None else len(corpus.list_unread()),
        index_version=version,
        embedder=workspace.embedder.id,
        last_sync=_last_publication(workspace, version),
        watching=False,
    )


def _last_publication(workspace: Workspace, version: str | None) -> datetime | None:
    moments = [one.moment for one in read_history(workspace.index) if one.version == version]
    return moments[-1] if moments else None
