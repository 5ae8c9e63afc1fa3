"""Opens the current snapshot, or the last good one while the current one is damaged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from backstory.base.errors import EmbedderMismatchError, NoIndexError, SearchIndexError
from backstory.index.search import SearchIndex
from backstory.index.snapshot.history import Publication, read_history
from backstory.index.snapshot.manifest import REBUILD_COMMAND, Snapshot, hash_manifest
from backstory.index.snapshot.publication import require_current, require_listed_manifest


def open_index(folder: Path, *, embedder_id: str | None = None) -> SearchIndex:
    """Open the current snapshot of the search index, and compare every file of it with its checksum.

    Args:
        folder: The folder of the index.
        embedder_id: Embedding space of the queries; None to skip the comparison with the index.

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
            f"`{REBUILD_COMMAND}` to rebuild it, or set the embedder to that of the index",
            folder=folder,
            embedder=index.embedder_id,
            wanted=embedder_id,
        )
    return index


def open_last_good(folder: Path, *, embedder_id: str, list_documents: Callable[[], pl.Series]) -> SearchIndex:
    """Open the current snapshot; if it is damaged, open the last published one that is not.

    For answers to a person only. A run must use :func:`open_index`, since it builds a damaged snapshot again.

    Args:
        folder: The folder of the index.
        embedder_id: Embedding space of the queries.
        list_documents: Gives the ids of all documents that may still be shown, if the current snapshot is damaged. An
            earlier snapshot with any other document is not opened.

    Returns:
        The open index, every file of which has its checksum. If it is not the current one, ``degraded`` says so.

    Raises:
        NoIndexError: No snapshot is published.
        EmbedderMismatchError: The current snapshot holds vectors of another embedding space.
        SearchIndexError: The current snapshot is damaged, and there is no earlier one to serve.
    """
    try:
        return _open_verified(folder, embedder_id)
    except (EmbedderMismatchError, NoIndexError):
        raise
    except SearchIndexError as error:
        damage = error
    documents = list_documents()
    for published in reversed(read_history(folder)):
        snapshot = _open_good(folder, published, embedder_id, documents)
        if snapshot is not None:
            reason = (
                f"{damage}. Until then, answers come from snapshot {published.version}, {_describe_age(published)}: "
                "they lack what was published or changed since"
            )
            return SearchIndex(snapshot, degraded=reason)
    raise SearchIndexError(
        f"{damage}. No earlier snapshot can answer instead",
        code="no_good_snapshot",
        **damage.values,
    ) from damage


def _open_verified(folder: Path, embedder_id: str) -> SearchIndex:
    index = open_index(folder, embedder_id=embedder_id)
    try:
        require_listed_manifest(folder, index.version)
    except SearchIndexError:
        index.close()
        raise
    return index


def _open_good(
    folder: Path, published: Publication, embedder_id: str, documents: pl.Series
) -> Snapshot | None:
    """Open a published snapshot if all of it is as it was written, and if it holds no other documents."""
    path = folder / published.version
    try:
        snapshot = Snapshot(path)
    except SearchIndexError:
        return None
    fits = (
        hash_manifest(path) == published.manifest
        and snapshot.manifest.embedder_id == embedder_id
        and bool(snapshot.documents["document_id"].is_in(documents.implode()).all())
    )
    if fits:
        return snapshot
    snapshot.close()
    return None


def _describe_age(published: Publication) -> str:
    """Describe when a snapshot was published, and how long ago that is unless the clock was set back since."""
    if published.moment is None:
        return "published at an unknown time"
    hours = (datetime.now(UTC) - published.moment).total_seconds() / 3600
    ago = "" if hours < 0 else f" ({hours:.0f} hours ago)" if hours < 48 else f" ({hours / 24:.0f} days ago)"
    return f"published {published.moment:%Y-%m-%d %H:%M} UTC{ago}"


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
