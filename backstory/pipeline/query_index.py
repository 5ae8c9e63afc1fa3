"""Opens the search index for an answer to a person, also while a run has yet to build the right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from backstory.base.errors import EmbedderMismatchError
from backstory.index.search import SearchIndex
from backstory.index.snapshot.opening import open_last_good
from backstory.models.embeddings.embed import EmbeddedTexts, embed_texts
from backstory.pipeline.workspace import Workspace


@dataclass(frozen=True)
class QueryIndex:
    """An open index, and the settings that fit it.

    Attributes:
        index: The open index, every file of which has its checksum.
        workspace: The workspace, with the embedder of the index.
        degraded: Why this is not what the settings and the last run say, and what to do; None if it is.
    """

    index: SearchIndex
    workspace: Workspace
    degraded: str | None


def open_for_queries(workspace: Workspace) -> QueryIndex:
    """Open the published snapshot; if it cannot be used, open what was good before.

    While the snapshot is damaged, the last good one answers. While the settings name another embedder than that of
    the snapshot, queries are embedded with the former one. ``degraded`` says both. A snapshot that holds a document
    which was deleted or forgotten since is never opened.

    Args:
        workspace: A workspace with a published snapshot.

    Returns:
        The open index, to be closed by the caller.

    Raises:
        NoIndexError: No snapshot is published yet.
        EmbedderMismatchError: The snapshot was made with another embedder, which cannot be opened any more.
        SearchIndexError: The snapshot is damaged, and there is no earlier one to serve.
        DamagedTableError: The table ``documents``, which says what may be served, is damaged.
    """

    def list_documents() -> pl.Series:

        documents = workspace.tables.read("documents")
        return documents.filter(pl.col("status") != "deleted")["document_id"]

    try:
        index = open_last_good(
            workspace.index, embedder_id=workspace.embedder.id, list_documents=list_documents
        )
    except EmbedderMismatchError as error:
        mismatch = error
    else:
        return QueryIndex(index, workspace, index.degraded)
    # Loaded late, since the stages take long to load and are needed only to read what they recorded.
    from backstory.pipeline.stages.search_index import read_embedding_of_index

    embedding = read_embedding_of_index(workspace)
    if embedding is None or embedding == workspace.settings.embedding:
        raise mismatch
    former = replace(workspace, settings=workspace.settings.model_copy(update={"embedding": embedding}))
    index = open_last_good(workspace.index, embedder_id=former.embedder.id, list_documents=list_documents)
    reason = f"{index.degraded or mismatch}. Until then, queries are embedded with {former.embedder.id}"
    return QueryIndex(index, former, reason)


def embed_queries(workspace: Workspace, texts: Sequence[str]) -> EmbeddedTexts:
    """Embed what a person asks: known vectors come from the cache, and none does while its database is away.

    Args:
        workspace: The workspace, with the embedder of the index.
        texts: The texts, none blank.

    Raises:
        ModelError: The model could not be used.
    """
    embed = partial(embed_texts, workspace.embedder, texts, task="query")
    return workspace.state_reader.read(lambda: embed(cache=workspace.embeddings), lambda: embed(cache=None))
