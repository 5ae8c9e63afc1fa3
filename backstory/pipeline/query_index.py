"""The search index by the settings: for an answer to a person, and for windows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from backstory.base.errors import SearchIndexError
from backstory.index.search import SearchIndex, open_index
from backstory.index.snapshot import current_version
from backstory.models.embeddings.embed import EmbeddedTexts, embed_texts
from backstory.pipeline.workspace import Workspace
from backstory.settings.embedding import EmbeddingSettings
from backstory.storage.tables.tables import WHOLE

if TYPE_CHECKING:
    from backstory.retrieval.assembly import Retrieval
    from backstory.retrieval.hits import PostsOf

EMBEDDING_OF_INDEX: Final = "embedding of the index"
"""Name in the catalog of the settings of the embedder of the published snapshot."""


@dataclass(frozen=True)
class QueryIndex:
    """An open index, and the workspace with the embedder of the index.

    ``degraded`` says why this is not what the settings and the last run say, and what to do; None if it is.
    """

    index: SearchIndex
    workspace: Workspace
    degraded: str | None = None


def open_for_queries(workspace: Workspace) -> QueryIndex:
    """Open the published snapshot, which the caller closes.

    While the settings name another embedder than that of the snapshot, queries are embedded with the former one, and
    ``degraded`` says so. Without a snapshot it raises ``NoIndexError``, and ``SearchIndexError`` for a damaged one, or
    one whose embedder cannot be opened any more.
    """
    try:
        return QueryIndex(open_index(workspace.index, embedder_id=workspace.embedder.id), workspace)
    except SearchIndexError as error:
        embedding = _read_embedding(workspace) if error.code == "embedder_mismatch" else None
        if embedding in (None, workspace.settings.embedding):
            raise
        former = replace(workspace, settings=workspace.settings.model_copy(update={"embedding": embedding}))
        index = open_index(workspace.index, embedder_id=former.embedder.id)
        reason = f"{error}. Until then, queries are embedded with {former.embedder.id}"
        return QueryIndex(index, former, reason)


def _read_embedding(workspace: Workspace) -> EmbeddingSettings | None:
    """Read the settings of the embedder of the published snapshot; None if they are not known any more."""
    recorded = workspace.catalog.read(EMBEDDING_OF_INDEX).get(WHOLE)
    if recorded is None or recorded.content != current_version(workspace.index):
        return None
    with suppress(ValidationError):
        return EmbeddingSettings.model_validate_json(recorded.inputs)
    return None


def make_retrieval(workspace: Workspace, index: SearchIndex, posts_of: PostsOf | None) -> Retrieval:
    """Configure the search of an index for windows by the settings."""
    # Loaded late, since a question needs none of them.
    from backstory.pipeline.chats.leaks import make_leak_finder
    from backstory.pipeline.chats.named_documents import NameView
    from backstory.retrieval.assembly import Retrieval

    settings = workspace.settings
    return Retrieval(
        index=index,
        rag=workspace.rag,
        context=settings.context,
        reranker=workspace.reranker,
        rerank=settings.rerank,
        find_leaks=lambda texts: make_leak_finder(workspace)(texts),
        judgements=workspace.judgements,
        send=NameView(workspace, settings.rerank).show,
        separate_posts=workspace.feeds_back,
        posts_of=posts_of,
        document_fit=workspace.document_fit,
    )


def embed_queries(workspace: Workspace, texts: Sequence[str]) -> EmbeddedTexts:
    """Embed what a person asks; known vectors come from the cache."""
    return embed_texts(workspace.embedder, texts, task="query", cache=workspace.embeddings)
