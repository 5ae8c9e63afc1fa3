"""Size of the caches of a workspace, and pruning of entries that no table refers to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from backstory.base.errors import WorkspaceError
from backstory.index.chunks import embedding_texts
from backstory.models.embeddings.embed import embedding_key
from backstory.pipeline.workspace import Workspace
from backstory.storage.turns import running


@dataclass(frozen=True)
class CacheUse:
    """The size of the caches: numbers of vectors by embedding space, of drafts and of windows with judgements."""

    vectors: dict[str, int]
    drafts: int
    judgements: int
    vector_bytes: int
    draft_bytes: int
    judgement_bytes: int


def measure_caches(workspace: Workspace) -> CacheUse:
    """Count vectors, drafts and judgements, and their bytes."""
    vectors, *others = caches = (workspace.embeddings, workspace.drafts, workspace.judgements)
    counts = (other.count() for other in others)
    return CacheUse(vectors.count_by_owner(), *counts, *(cache.measure() for cache in caches))


def prune_caches(workspace: Workspace) -> dict[str, int]:
    """Delete what the present embedder and tables do not use, after the run that is under way; return what went.

    Without tables, everything would be deleted, which is an error. A vector that another process stores meanwhile is
    computed again when it is needed. Published snapshots hold their own vectors.
    """
    if not any(workspace.tables.keys(table) for table in ("window_chunks", "document_chunks")):
        raise WorkspaceError(
            f"{workspace.tables_dir} holds no tables, so pruning would delete every vector; run `backstory run` first",
            code="no_tables",
        )
    with running(workspace.catalog.state, "the pruning of caches"):
        caches = (workspace.embeddings, workspace.drafts, workspace.judgements)
        before = sum(cache.measure() for cache in caches)
        dropped = drop_unused(workspace, [workspace.embedder.id])
        return {**dropped, "freed_bytes": max(0, before - sum(cache.measure() for cache in caches))}


def drop_unused(workspace: Workspace, spaces: Collection[str] | None = None) -> dict[str, int]:
    """Delete the drafts and judgements that the tables do not use, and the vectors but those of some spaces, if given.

    It returns how many of each were deleted.
    """
    documents, queries = (workspace.tables.read(table) for table in ("documents", "window_chunks"))
    # Each window keeps the drafts of the context that its post was written from.
    drafted = [*workspace.tables.read("posts")["context_hash"], *documents.filter(status="ok")["revision"]]
    windows = workspace.tables.read("windows")["window_id"]
    dropped = {
        "drafts": workspace.drafts.keep_only({one.encode() for one in drafted}, "owner"),
        "judgements": workspace.judgements.keep_only({one.encode() for one in windows}, "owner"),
    }
    if spaces is not None:
        texts = embedding_texts(workspace.tables.read("document_chunks"), documents)
        keys = {embedding_key(space, "query", text) for space in spaces for text in queries["text"].unique()}
        keys |= {embedding_key(space, "document", text) for space in spaces for text in texts}
        dropped["vectors"] = workspace.embeddings.keep_only(keys, "key")
    workspace.cache.compact()
    return dropped
