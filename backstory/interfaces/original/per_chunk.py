"""Searches for every chunk of a text, as one batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

from backstory.base.errors import SearchIndexError
from backstory.base.telemetry import log_event
from backstory.interfaces.original.embedders import resolve_embedder
from backstory.interfaces.original.vector_store import VectorStore
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Embedder

logger = logging.getLogger(__name__)


def query_rag_per_chunk(
    chunks: Sequence[str],
    store: VectorStore,
    embedding_model: str | Embedder,
    top_k: int = 5,
    min_similarity_threshold: float = 0.7,
    retrieval_mode: Literal["ann", "exact"] = "ann",
    retrieval_nprobe: int | None = None,
    retrieval_overfetch: int | None = None,
) -> list[dict[str, Any]]:
    """Search a store for every chunk of a text, and collect all results.

    All chunks are embedded and searched as one batch.

    Args:
        chunks: Texts from :func:`backstory.chunk_markdown`.
        store: The store to search.
        embedding_model: Name of the model, such as ``google-gla:gemini-embedding-001``, or an embedder.
        top_k: Results per chunk.
        min_similarity_threshold: Least cosine similarity of a result.
        retrieval_mode: ``ann`` allows approximation, ``exact`` does not.
        retrieval_nprobe: Accepted for compatibility; mapped to the HNSW index's ``ef_search``.
        retrieval_overfetch: Factor by which an approximate search takes more candidates than ``top_k``.

    Returns:
        Results chunk by chunk, best first, each with ``content``, ``similarity``, ``document_id``, ``post_slug``,
        ``post_title``, ``post_date``, ``tags``, ``chunk_id``, ``chunk_index``, ``query_chunk`` (position of the
        chunk that found it) and ``metadata``. Empty if there are no chunks.

    Raises:
        ModelError: The model failed.
        SearchIndexError: The store could not be searched.
    """
    if not chunks:
        return []
    embedder = resolve_embedder(embedding_model)
    if store.embedder_id not in (None, embedder.id):
        raise SearchIndexError(
            f"{store.path} was built with {store.embedder_id}, but the query uses {embedder.id}; pass the same model",
            code="embedder_mismatch",
        )
    vectors = embed_texts(embedder, list(chunks), task="query", cache=None).vectors
    found = store.search_batch(
        vectors,
        top_k=top_k,
        min_similarity_threshold=min_similarity_threshold,
        mode=retrieval_mode,
        nprobe=retrieval_nprobe,
        overfetch=retrieval_overfetch,
    )
    per_chunk = found["query_chunk"].value_counts(sort=False).sort("query_chunk")["count"].to_list()
    log_event(logger, "collected", results=len(found), chunks=len(chunks), per_chunk=per_chunk)
    return found.to_dicts()
