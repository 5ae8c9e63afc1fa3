"""One search in the published index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from backstory.calibration import find_threshold
from backstory.embeddings import embed_texts
from backstory.errors import InputError
from backstory.index import SearchRequest
from backstory.inspection.serving import open_served
from backstory.workspace import Workspace


def query_text(
    workspace: Workspace,
    text: str,
    *,
    top_k: int | None = None,
    as_of: datetime | None = None,
    tags: Sequence[str] = (),
) -> dict[str, Any]:
    """Search for a text with the settings of the workspace.

    Args:
        workspace: A workspace with a published snapshot.
        text: What to look for.
        top_k: Most documents; None for the setting ``rag.top_k``.
        as_of: Leave out documents that were published after it; None for no limit.
        tags: Only documents with at least one of these tags; empty for the setting ``rag.tags``.

    Returns:
        ``engine``, ``reason``, ``index_version``, ``degraded`` (None, or why an earlier snapshot answers because the
        published one is damaged), the conditions ``as_of`` and ``tags`` in force, and
        ``documents``: one row per document, best first, with ``similarity`` and ``above_threshold``.

    Raises:
        InputError: The text is blank, or ``top_k`` is below 1.
        NoIndexError: No snapshot is published yet.
        SearchIndexError: A file of the snapshot is damaged, and there is no earlier one to serve.
        EmbeddingInputError: The text is longer than the model's input.
    """
    if not text.strip():
        raise InputError("the query is blank; give some words to look for")
    given = workspace.settings.rag
    settings = given.model_copy(update={"tags": list(tags)}) if tags else given
    most = settings.top_k if top_k is None else top_k
    served = open_served(workspace)
    with served.index as index:
        threshold = find_threshold(settings, served.workspace.embedder, index.calibration)
        embedded = embed_texts(served.workspace.embedder, [text], task="query", cache=workspace.embeddings)
        request = SearchRequest.from_settings(
            settings,
            top_k=most * settings.chunks_per_query,
            calibration=index.calibration,
            as_of=None if as_of is None else [as_of],
        )
        result = index.search(embedded.vectors, request, texts=[text])
        best = result.hits.unique("document_id", keep="first", maintain_order=True).head(most)
        rows = best.join(
            index.describe(best["chunk_id"]).drop("document_id"), on="chunk_id", maintain_order="left"
        ).with_columns(above_threshold=pl.col("similarity") >= threshold)
    return {
        "query": text,
        "engine": result.engine,
        "reason": result.reason,
        "index_version": index.version,
        "degraded": served.degraded,
        "min_similarity": threshold,
        "as_of": as_of,
        "tags": list(settings.tags),
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
