"""Runs the pipeline's functions on a labelled set: documents to an index, windows to ranked documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from backstory.base.progress import show_progress
from backstory.index.calibration import calibrate
from backstory.index.chunks import cut_document_chunks, embedding_texts
from backstory.index.search import SearchIndex, open_index
from backstory.index.snapshot.build import build_index
from backstory.models.embeddings.cache import EmbeddingCache
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Embedder, Task, Vectors
from backstory.operations.evaluation.labelled_set import LabelledSet
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.hits import Queries, plan_queries
from backstory.retrieval.query_chunks import cut_window_chunks
from backstory.settings.models import Settings

OWN = "backstory"
DEPTH = 10


def embed_with_progress(
    embedder: Embedder, texts: list[str], cache: EmbeddingCache, task: Task, label: str
) -> Vectors:
    """Return one unit vector per text. Texts that are not cached are embedded, with a progress bar."""
    with show_progress(label) as progress:
        return embed_texts(embedder, texts, task=task, cache=cache, progress=progress).vectors


def index_documents(
    scratch: Path, labelled: LabelledSet, settings: Settings, embedder: Embedder, cache: EmbeddingCache
) -> tuple[SearchIndex, pl.DataFrame]:
    """Cut, embed and index the documents of a set.

    Args:
        scratch: Folder for the index.
        labelled: A labelled set.
        settings: Settings of chunks and index.
        embedder: Embeds the chunks that are not cached.
        cache: The vectors of texts that were embedded before.

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
    calibration = calibrate(
        embedder,
        labelled.documents,
        chunks,
        vectors,
        lambda probes: embed_texts(embedder, probes, task="query", cache=cache).vectors,
    )
    build_index(
        scratch,
        labelled.documents,
        chunks,
        vectors,
        embedder_id=embedder.id,
        # A server would keep the vectors of the set.
        settings=settings.index.model_copy(update={"engine": "embedded"}),
        calibration=calibration,
    )
    return open_index(scratch, embedder_id=embedder.id), chunks


def embed_windows(
    labelled: LabelledSet, settings: Settings, embedder: Embedder, cache: EmbeddingCache
) -> tuple[pl.DataFrame, Vectors]:
    """Cut the windows of a set into query chunks, and embed the chunks.

    Args:
        labelled: A labelled set.
        settings: Settings of queries and chunks.
        embedder: Embeds the query chunks that are not cached.
        cache: The vectors of texts that were embedded before.

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
    """Search with the query chunks, and take at least ten hits for each.

    Args:
        labelled: A labelled set.
        chunks: Table ``window_chunks``.
        vectors: Unit vectors of the chunks, shape ``(len(chunks), dimension)``.
        retrieval: The index and the settings of the search.

    Returns:
        The queries, and table ``hits``.
    """
    deep = _as_deep(retrieval)
    queries = plan_queries(labelled.windows, chunks, vectors, deep.rag)
    return queries, deep.find_hits(queries).frame


def rank_documents(
    window_chunks: pl.DataFrame, queries: Queries, hits: pl.DataFrame, retrieval: Retrieval
) -> pl.DataFrame:
    """Choose up to ten documents from the hits of each window, as the pipeline does.

    Args:
        window_chunks: Table ``window_chunks``.
        queries: The queries of the hits.
        hits: Table ``hits``.
        retrieval: The index and the settings of the choice.

    Returns:
        ``window_id``, ``rank``, ``doc_id``, ``score``, ``method``: the ranked lists.
    """
    budget = 2 * retrieval.context.max_tokens
    judged = _as_deep(retrieval).judge(hits, window_chunks, queries.vectors_of, max_tokens=budget)
    chosen = (
        judged.frame.filter("kept")
        .group_by("window_id", "document_id")
        .agg(pl.col("rank").min(), pl.col("score").max())
        .sort("window_id", "rank")
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_id"))
    )
    return as_runs(chosen, OWN)


def make_run_contexts(
    window_chunks: pl.DataFrame, queries: Queries, hits: pl.DataFrame, retrieval: Retrieval
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build the contexts that a run with these settings builds.

    Args:
        window_chunks: Table ``window_chunks``.
        queries: The queries of the hits.
        hits: Table ``hits``; those beyond ``chunks_per_query`` are ignored.
        retrieval: The index that was searched, and the settings of the choice.

    Returns:
        Tables ``decisions`` and ``contexts``.
    """
    searched = hits.filter(pl.col("rank") <= retrieval.rag.chunks_per_query)
    decisions = retrieval.judge(searched, window_chunks, queries.vectors_of).frame
    return decisions, retrieval.gather(decisions, window_chunks)


def _as_deep(retrieval: Retrieval) -> Retrieval:
    rag = retrieval.rag
    deep = {"top_k": max(DEPTH, rag.top_k), "chunks_per_query": max(DEPTH, rag.chunks_per_query)}
    return replace(retrieval, rag=rag.model_copy(update=deep))


def as_runs(ranked: pl.DataFrame, method: str) -> pl.DataFrame:
    """Add the columns of the runs to the first ten ranked documents of each window."""
    return ranked.filter(pl.col("rank") <= DEPTH).select(
        "window_id",
        pl.col("rank").cast(pl.Int64),
        doc_id="document_id",
        score=pl.col("score").cast(pl.Float64),
        method=pl.lit(method),
    )
