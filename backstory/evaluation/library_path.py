"""The pipeline's own functions over a labelled set: documents to an index, windows to ranked documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from backstory.document_chunks import cut_document_chunks, embedding_texts
from backstory.embeddings import EmbeddingCache, embed_texts
from backstory.embeddings.protocol import Embedder, Task, Vectors
from backstory.evaluation.labelled_set import LabelledSet
from backstory.hits import Queries, plan_queries
from backstory.index import SearchIndex, build_index, open_index
from backstory.progress import show_progress
from backstory.retrieval import Retrieval
from backstory.settings import Settings
from backstory.window_chunks import cut_window_chunks

OWN = "backstory"
DEPTH = 10


def embed_with_progress(
    embedder: Embedder, texts: list[str], cache: EmbeddingCache, task: Task, label: str
) -> Vectors:
    """Embed texts that the cache does not hold, telling of it; one unit vector per text."""
    with show_progress(label) as progress:
        return embed_texts(embedder, texts, task=task, cache=cache, progress=progress).vectors


def index_documents(
    scratch: Path, labelled: LabelledSet, settings: Settings, embedder: Embedder, cache: EmbeddingCache
) -> tuple[SearchIndex, pl.DataFrame]:
    """Cut, embed and index the documents of a set.

    Args:
        scratch: Folder for the index.
        labelled: The set.
        settings: Of chunks and index.
        embedder: What embeds.
        cache: Where vectors are kept.

    Returns:
        The open index, and table ``document_chunks``.
    """
    chunks = cut_document_chunks(
        labelled.documents,
        settings.chunks,
        max_tokens=embedder.max_input_tokens,
        count_tokens=embedder.count_tokens,
        counter_id=embedder.id,
    )
    texts = embedding_texts(chunks, labelled.documents)
    vectors = embed_with_progress(embedder, texts, cache, "document", "embedding documents")
    build_index(
        scratch, labelled.documents, chunks, vectors, embedder_id=embedder.id, settings=settings.index
    )
    return open_index(scratch, embedder_id=embedder.id), chunks


def embed_windows(
    labelled: LabelledSet, settings: Settings, embedder: Embedder, cache: EmbeddingCache
) -> tuple[pl.DataFrame, Vectors]:
    """Cut the windows of a set into query chunks and embed these.

    Args:
        labelled: The set.
        settings: Of queries and chunks.
        embedder: What embeds.
        cache: Where vectors are kept.

    Returns:
        Table ``window_chunks``, and the vector of each row.
    """
    chunks = cut_window_chunks(
        labelled.windows,
        labelled.messages,
        settings.queries,
        max_tokens=min(settings.chunks.max_tokens, embedder.max_input_tokens),
        count_tokens=embedder.count_tokens,
        default_min_tokens=embedder.default_query_tokens,
    )
    return chunks, embed_with_progress(
        embedder, chunks["text"].to_list(), cache, "query", "embedding query chunks"
    )


def ask_windows(
    labelled: LabelledSet, chunks: pl.DataFrame, vectors: Vectors, retrieval: Retrieval
) -> tuple[Queries, pl.DataFrame]:
    """Search with the query chunks; at least ten hits are taken for each.

    Args:
        labelled: The set.
        chunks: Table ``window_chunks``.
        vectors: The vector of each chunk.
        retrieval: The documents, and how they are asked for.

    Returns:
        What was asked, and table ``hits``.
    """
    deep = _as_deep(retrieval)
    queries = plan_queries(labelled.windows, chunks, vectors, deep.rag)
    return queries, deep.find_hits(queries).frame


def rank_documents(
    window_chunks: pl.DataFrame, queries: Queries, hits: pl.DataFrame, retrieval: Retrieval
) -> pl.DataFrame:
    """Choose documents from hits, as the pipeline does; ten places may be filled.

    Args:
        window_chunks: Table ``window_chunks``.
        queries: What was asked.
        hits: Table ``hits``.
        retrieval: The documents, and how hits are judged.

    Returns:
        ``window_id``, ``rank``, ``doc_id``, ``score``, ``method``: the ranked lists.
    """
    budget = 2 * retrieval.context.max_tokens
    judged = _as_deep(retrieval).judge(hits, window_chunks, queries.vectors_of, max_tokens=budget)
    kept = (
        judged.frame.filter("kept")
        .group_by("window_id", "document_id")
        .agg(pl.col("rank").min(), pl.col("score").max())
        .sort("window_id", "rank")
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_id"))
    )
    return as_runs(kept, OWN)


def _as_deep(retrieval: Retrieval) -> Retrieval:
    rag = retrieval.rag
    deep = {"top_k": max(DEPTH, rag.top_k), "chunks_per_query": max(DEPTH, rag.chunks_per_query)}
    return replace(retrieval, rag=rag.model_copy(update=deep))


def as_runs(ranked: pl.DataFrame, method: str) -> pl.DataFrame:
    """Give ranked documents the columns of the runs; those beyond the tenth are left out."""
    return ranked.filter(pl.col("rank") <= DEPTH).select(
        "window_id",
        pl.col("rank").cast(pl.Int64),
        doc_id="document_id",
        score=pl.col("score").cast(pl.Float64),
        method=pl.lit(method),
    )
