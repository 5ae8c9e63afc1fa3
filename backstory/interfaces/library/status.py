"""Status of a library: indexed, pending, failed."""

from __future__ import annotations

from collections.abc import Sequence

from backstory.base.errors import BackstoryError
from backstory.index.snapshot import current_version, find_moment
from backstory.interfaces.library.corpus import Corpus, CorpusReader
from backstory.interfaces.library.freshness import describe_indexing, is_made, list_pending
from backstory.interfaces.library.indexing import revisions_of
from backstory.interfaces.library.results import LibraryStatus
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
