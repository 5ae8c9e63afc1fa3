"""One question to the published index."""

from __future__ import annotations

from typing import Any

import polars as pl

from backstory.embeddings import embed_texts
from backstory.errors import InputError
from backstory.index import SearchRequest, open_index
from backstory.workspace import Workspace


def query_text(workspace: Workspace, text: str) -> dict[str, Any]:
    """Search for a text by the settings of the workspace.

    Args:
        workspace: A workspace with a published snapshot.
        text: What to look for.

    Returns:
        ``engine``, ``reason``, ``index_version``, and ``documents``: at most ``top_k`` rows, one per document,
        best first, with ``similarity`` and ``above_threshold``.

    Raises:
        InputError: The text is blank.
        NoIndexError: No snapshot is published yet.
        EmbeddingInputError: The text is over the model's limit.
    """
    if not text.strip():
        raise InputError("the query is blank; give some words to look for")
    settings = workspace.settings.rag
    threshold = workspace.min_similarity
    with open_index(workspace.index, embedder_id=workspace.embedder.id) as index:
        embedded = embed_texts(workspace.embedder, [text], task="query", cache=workspace.embeddings)
        request = SearchRequest.from_settings(settings, top_k=settings.top_k * settings.chunks_per_query)
        result = index.search(embedded.vectors, request, texts=[text])
        best = result.hits.unique("document_id", keep="first", maintain_order=True).head(settings.top_k)
        rows = best.join(
            index.describe(best["chunk_id"]).drop("document_id"), on="chunk_id", maintain_order="left"
        ).with_columns(above_threshold=pl.col("similarity") >= threshold)
    return {
        "query": text,
        "engine": result.engine,
        "reason": result.reason,
        "index_version": index.version,
        "min_similarity": threshold,
        "documents": rows.select(
            "rank",
            "document_id",
            "chunk_id",
            "title",
            "slug",
            "published_at",
            "tags",
            "heading",
            "similarity",
            "keyword_score",
            "above_threshold",
            content="text",
        ).to_dicts(),
    }
