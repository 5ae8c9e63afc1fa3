"""Opens the current snapshot."""

from __future__ import annotations

from pathlib import Path

from backstory.errors import EmbedderMismatchError, SearchIndexError
from backstory.index.search import SearchIndex
from backstory.index.snapshot.manifest import REBUILD_COMMAND, Snapshot
from backstory.index.snapshot.publication import require_current


def open_index(folder: Path, *, embedder_id: str | None = None) -> SearchIndex:
    """Open the current snapshot of the search index.

    Args:
        folder: The folder of the index.
        embedder_id: Embedding space of the queries; None to skip the comparison with the index.

    Returns:
        The open index.

    Raises:
        NoIndexError: No snapshot is published.
        EmbedderMismatchError: The index holds vectors of another embedding space.
        SearchIndexError: The snapshot is damaged.
    """
    index = SearchIndex(_open_current(folder))
    if embedder_id is not None and embedder_id != index.embedder_id:
        index.close()
        raise EmbedderMismatchError(
            f"search index {folder} was made with embedder {index.embedder_id!r}, not {embedder_id!r}; run "
            f"`{REBUILD_COMMAND}` to rebuild it, or set the embedder to that of the index"
        )
    return index


def _open_current(folder: Path) -> Snapshot:
    version = require_current(folder)
    while True:
        try:
            return Snapshot(folder / version)
        except SearchIndexError:
            # After the pointer was read, another process may have published a newer snapshot and pruned this one.
            newer = require_current(folder)
            if newer == version:
                raise
            version = newer
