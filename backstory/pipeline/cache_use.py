"""What the caches of a workspace hold, and pruning of what no table refers to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from backstory.document_chunks import embedding_texts
from backstory.embeddings.cache import embedding_key
from backstory.embeddings.known_vectors import measure_file
from backstory.errors import WorkspaceError
from backstory.tables import list_partitions, read_table
from backstory.tables.locks import running
from backstory.workspace import Workspace


@dataclass(frozen=True)
class CacheUse:
    """The size of the caches.

    Attributes:
        vectors: Number of vectors by embedding space.
        drafts: Number of drafts of posts.
        vector_bytes: Bytes of the vectors on disk.
        draft_bytes: Bytes of the drafts on disk.
    """

    vectors: dict[str, int]
    drafts: int
    vector_bytes: int
    draft_bytes: int

    def as_record(self) -> dict[str, Any]:
        """Return the figures by name."""
        return asdict(self)


@dataclass(frozen=True)
class Pruning:
    """Result of pruning.

    Attributes:
        vectors: Vectors that were deleted.
        drafts: Drafts that were deleted.
        freed_bytes: Bytes that were freed on disk.
    """

    vectors: int
    drafts: int
    freed_bytes: int


def measure_caches(workspace: Workspace) -> CacheUse:
    """Count vectors and drafts, and their bytes.

    Raises:
        CacheFileError: The file of the vectors cannot be used.
        DraftFileError: The file of the drafts cannot be used.
    """
    return CacheUse(
        vectors={space: count for space, count in workspace.embeddings.count().items() if count},
        drafts=workspace.drafts.count(),
        vector_bytes=measure_file(workspace.embeddings.path),
        draft_bytes=measure_file(workspace.drafts.path),
    )


def prune_caches(workspace: Workspace) -> Pruning:
    """Delete the vectors that the present embedder and tables do not use, and the drafts that no post was made from.

    A run that is under way is waited for. A process that stores a vector meanwhile loses at most that vector, which
    is computed again when it is needed. Published snapshots hold their own vectors.

    Raises:
        WorkspaceError: There are no tables, so that everything would be deleted.
        CacheFileError: The file of the vectors cannot be used.
        DraftFileError: The file of the drafts cannot be used.
    """
    if not any(list_partitions(workspace.tables, table) for table in ("window_chunks", "document_chunks")):
        raise WorkspaceError(
            f"{workspace.tables} holds no tables, so that every vector would be deleted; run `backstory run` first"
        )
    with running(workspace.tables):
        before = measure_caches(workspace)
        vectors = workspace.embeddings.keep_only(list_keys(workspace, [workspace.embedder.id]))
        # Each window keeps the drafts of the context that its post was written from.
        drafts = workspace.drafts.keep_only(set(read_table(workspace.tables, "posts")["context_hash"]))
        after = measure_caches(workspace)
    freed = before.vector_bytes + before.draft_bytes - after.vector_bytes - after.draft_bytes
    return Pruning(vectors, drafts, max(0, freed))


def list_keys(workspace: Workspace, spaces: Iterable[str]) -> set[bytes]:
    """List the keys of the vectors of all texts in the tables.

    Args:
        workspace: An open workspace.
        spaces: Ids of the embedding spaces.
    """
    queries = read_table(workspace.tables, "window_chunks")["text"].unique()
    chunks = read_table(workspace.tables, "document_chunks")
    documents = embedding_texts(chunks, read_table(workspace.tables, "documents"))
    keys: set[bytes] = set()
    for space in spaces:
        keys.update(embedding_key(space, "query", text) for text in queries)
        keys.update(embedding_key(space, "document", text) for text in documents)
    return keys
