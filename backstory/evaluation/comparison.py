"""The library's own path and two whole-window baselines, scored on one labelled set."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from backstory.chunks import cut_chunks
from backstory.contexts import make_entry_counter
from backstory.document_chunks import cut_document_chunks, embedding_texts
from backstory.embedders import make_embedder
from backstory.embedders.protocol import Embedder, Task, Vectors
from backstory.embeddings import EmbeddingCache, embed_texts
from backstory.evaluation.labelled_set import LabelledSet, read_labelled_set
from backstory.evaluation.scoring import compare_methods, score_runs
from backstory.hits import find_hits, mean_vectors, plan_queries
from backstory.index import Filters, SearchIndex, build_index, open_index
from backstory.progress import show_progress
from backstory.selection import judge_hits
from backstory.settings import RAGSettings, Settings, cache_folder
from backstory.window_chunks import cut_window_chunks

OWN = "backstory"
WHOLE_TEXT = "whole window, one vector"
WHOLE_MEAN = "whole window, mean vector"

_DEPTH = 10
_BASELINE_HITS = 100


@dataclass(frozen=True)
class Comparison:
    """Scores of the methods on one set.

    Attributes:
        name: Name of the set.
        runs: ``window_id``, ``rank``, ``doc_id``, ``score``, ``method``: the ranked lists.
        scores: One row per method and window.
        table: From :func:`backstory.evaluation.compare_methods`.
        figures: Counts and seconds of the stages.
    """

    name: str
    runs: pl.DataFrame
    scores: pl.DataFrame
    table: pl.DataFrame
    figures: dict[str, int | float | str]

    def as_record(self) -> dict[str, Any]:
        """Give the comparison as JSON-serializable data."""
        return {"set": self.name, "figures": self.figures, "scores": self.table.to_dicts()}


def evaluate_folder(folder: Path, settings: Settings) -> Comparison:
    """Score the library on a labelled set.

    Documents are chunked, embedded, indexed and searched by the same functions as in the pipeline; vectors are
    kept in the user's cache folder, so that a second evaluation embeds nothing.

    Args:
        folder: A labelled set (see :func:`backstory.evaluation.read_labelled_set`).
        settings: The settings to evaluate.

    Returns:
        Ranked lists, scores and their comparison.

    Raises:
        InputError: The folder is not a labelled set.
        EmbeddingError: The embedder failed.
    """
    labelled = read_labelled_set(folder)
    embedder = make_embedder(settings.embedding)
    cache = EmbeddingCache(cache_folder() / "evaluation.sqlite")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="backstory-eval-") as scratch:
        index, document_chunks = index_documents(Path(scratch), labelled, settings, embedder, cache)
        indexed = time.perf_counter()
        chunks, vectors = embed_windows(labelled, settings, embedder, cache)
        embedded = time.perf_counter()
        own = run_library(labelled, chunks, vectors, settings, embedder, index)
        answered = time.perf_counter()
        window_ids, means = mean_vectors(chunks["window_id"], vectors)
        whole = cut_whole_texts(labelled, embedder)
        whole_vectors = _embed(embedder, whole["text"].to_list(), cache, "query", "embedding baselines")
        runs = pl.concat(
            [
                own,
                _ask_once(labelled, index, settings.rag, whole["window_id"], whole_vectors, WHOLE_TEXT),
                _ask_once(labelled, index, settings.rag, window_ids, means, WHOLE_MEAN),
            ]
        )
    scores = score_runs(runs, labelled.qrels, name=labelled.name, methods=(OWN, WHOLE_TEXT, WHOLE_MEAN))
    figures: dict[str, int | float | str] = {
        "documents": len(labelled.documents),
        "document_chunks": len(document_chunks),
        "windows": len(labelled.windows),
        "messages": len(labelled.messages),
        "query_chunks": len(chunks),
        "embedder": embedder.id,
        "index_seconds": round(indexed - started, 2),
        "query_embedding_seconds": round(embedded - indexed, 2),
        "query_seconds": round(answered - embedded, 2),
    }
    return Comparison(labelled.name, runs, scores, compare_methods(scores, of=OWN), figures)


def _embed(embedder: Embedder, texts: list[str], cache: EmbeddingCache, task: Task, label: str) -> Vectors:
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
        The index, and table ``document_chunks``.
    """
    chunks = cut_document_chunks(
        labelled.documents,
        settings.chunks,
        max_tokens=embedder.max_input_tokens,
        count_tokens=embedder.count_tokens,
        counter_id=embedder.id,
    )
    texts = embedding_texts(chunks, labelled.documents)
    vectors = _embed(embedder, texts, cache, "document", "embedding documents")
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
    )
    return chunks, _embed(embedder, chunks["text"].to_list(), cache, "query", "embedding query chunks")


def run_library(
    labelled: LabelledSet,
    chunks: pl.DataFrame,
    vectors: Vectors,
    settings: Settings,
    embedder: Embedder,
    index: SearchIndex,
) -> pl.DataFrame:
    """Search with query chunks and choose documents, as the pipeline does.

    Args:
        labelled: The set.
        chunks: Table ``window_chunks``.
        vectors: The vector of each chunk.
        settings: The settings; at least ten hits are taken per chunk, and ten places may be filled.
        embedder: Gives the threshold where the settings do not.
        index: The documents.

    Returns:
        ``window_id``, ``rank``, ``doc_id``, ``score``, ``method``: the ranked lists.
    """
    rag = settings.rag.model_copy(
        update={
            "top_k": max(_DEPTH, settings.rag.top_k),
            "chunks_per_query": max(_DEPTH, settings.rag.chunks_per_query),
        }
    )
    hits = find_hits(plan_queries(labelled.windows, chunks, vectors, rag), index, rag).frame
    given = rag.min_similarity
    decisions = judge_hits(
        hits,
        rag,
        min_similarity=embedder.default_min_similarity if given is None else given,
        chunk_vectors=index.vectors_of,
        entry_tokens=make_entry_counter(
            index.describe(hits["chunk_id"].unique(maintain_order=True)), settings.context
        ),
        max_tokens=2 * settings.context.max_tokens,
    )
    kept = (
        decisions.filter("kept")
        .group_by("window_id", "document_id")
        .agg(pl.col("rank").min(), pl.col("score").max())
        .sort("window_id", "rank")
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_id"))
    )
    return _as_runs(kept, OWN)


def cut_whole_texts(labelled: LabelledSet, embedder: Embedder) -> pl.DataFrame:
    """Join each window's messages and keep what the embedder can take of the beginning: the baseline's weakness."""
    texts = (
        labelled.messages.filter(pl.col("text").is_not_null())
        .group_by("conversation_id", maintain_order=True)
        .agg(pl.col("text").str.join("\n\n"))
    )
    spans = cut_chunks(
        texts["text"].to_list(),
        max_tokens=embedder.max_input_tokens,
        overlap_tokens=0,
        count_tokens=embedder.count_tokens,
    )
    beginnings = [
        text[parts[0].start : parts[0].end] if parts else ""
        for text, parts in zip(texts["text"], spans, strict=True)
    ]
    return texts.select(window_id="conversation_id", text=pl.Series(beginnings, dtype=pl.String))


def _ask_once(
    labelled: LabelledSet,
    index: SearchIndex,
    rag: RAGSettings,
    window_ids: pl.Series,
    vectors: Vectors,
    method: str,
) -> pl.DataFrame:
    starts = labelled.windows.select("window_id", "started_at")
    asked = pl.DataFrame({"window_id": window_ids}).join(starts, on="window_id", maintain_order="left")
    result = index.search(
        vectors,
        top_k=_BASELINE_HITS,
        mode="exact",
        filters=Filters(as_of=asked["started_at"].to_list() if rag.as_of else None),
    )
    hits = (
        asked.with_row_index("query")
        .cast({"query": pl.Int64})
        .join(result.hits, on="query", maintain_order="left_right")
        .unique(["window_id", "document_id"], keep="first", maintain_order=True)
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_id"))
        .filter(pl.col("rank") <= _DEPTH)
    )
    return _as_runs(hits, method)


def _as_runs(ranked: pl.DataFrame, method: str) -> pl.DataFrame:
    return ranked.select(
        "window_id",
        pl.col("rank").cast(pl.Int64),
        doc_id="document_id",
        score=pl.col("score").cast(pl.Float64),
        method=pl.lit(method),
    )
