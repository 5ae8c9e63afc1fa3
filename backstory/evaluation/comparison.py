"""The library's own path and the whole-window baselines, scored on one labelled set."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from functools import partial
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
WHOLE_KEYWORDS = "whole window, keywords"
WHOLE_FUSED = "whole window, mean vector and keywords"
METHODS = (OWN, WHOLE_TEXT, WHOLE_MEAN, WHOLE_KEYWORDS, WHOLE_FUSED)

_DEPTH = 10
_BASELINE_HITS = 100
_FUSION_CONSTANT = 60


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
        index, document_chunks = _index_documents(Path(scratch), labelled, settings, embedder, cache)
        indexed = time.perf_counter()
        chunks, vectors = _embed_windows(labelled, settings, embedder, cache)
        embedded = time.perf_counter()
        own = _run_library(labelled, chunks, vectors, settings, embedder, index)
        answered = time.perf_counter()
        window_ids, means = mean_vectors(chunks["window_id"], vectors)
        whole = _whole_texts(labelled)
        beginnings = _cut_to_input(whole["text"], embedder)
        whole_vectors = _embed(embedder, beginnings, cache, "query", "embedding baselines")
        ask = partial(_ask_once, labelled, index, settings.rag)
        by_mean = ask(window_ids, means)
        by_keywords = ask(whole["window_id"], whole_vectors, whole["text"])
        lists = {
            WHOLE_TEXT: ask(whole["window_id"], whole_vectors),
            WHOLE_MEAN: by_mean,
            WHOLE_KEYWORDS: by_keywords,
            WHOLE_FUSED: _fuse_ranks(by_mean, by_keywords),
        }
        runs = pl.concat([own, *(_as_runs(ranked, method) for method, ranked in lists.items())])
    scores = score_runs(runs, labelled.qrels, name=labelled.name, methods=METHODS)
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


def _index_documents(
    scratch: Path, labelled: LabelledSet, settings: Settings, embedder: Embedder, cache: EmbeddingCache
) -> tuple[SearchIndex, pl.DataFrame]:
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


def _embed_windows(
    labelled: LabelledSet, settings: Settings, embedder: Embedder, cache: EmbeddingCache
) -> tuple[pl.DataFrame, Vectors]:
    chunks = cut_window_chunks(
        labelled.windows,
        labelled.messages,
        settings.queries,
        max_tokens=min(settings.chunks.max_tokens, embedder.max_input_tokens),
        count_tokens=embedder.count_tokens,
    )
    return chunks, _embed(embedder, chunks["text"].to_list(), cache, "query", "embedding query chunks")


def _run_library(
    labelled: LabelledSet,
    chunks: pl.DataFrame,
    vectors: Vectors,
    settings: Settings,
    embedder: Embedder,
    index: SearchIndex,
) -> pl.DataFrame:
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


def _whole_texts(labelled: LabelledSet) -> pl.DataFrame:
    """Join each window's messages."""
    texts = (
        labelled.messages.filter(pl.col("text").is_not_null())
        .group_by("conversation_id", maintain_order=True)
        .agg(pl.col("text").str.join("\n\n"))
    )
    return texts.select("text", window_id="conversation_id")


def _cut_to_input(texts: pl.Series, embedder: Embedder) -> list[str]:
    """Keep of each text what the embedder can take of its beginning: the baseline's weakness."""
    spans = cut_chunks(
        texts.to_list(),
        max_tokens=embedder.max_input_tokens,
        overlap_tokens=0,
        count_tokens=embedder.count_tokens,
    )
    return [
        text[parts[0].start : parts[0].end] if parts else "" for text, parts in zip(texts, spans, strict=True)
    ]


def _ask_once(
    labelled: LabelledSet,
    index: SearchIndex,
    rag: RAGSettings,
    window_ids: pl.Series,
    vectors: Vectors,
    keywords: pl.Series | None = None,
) -> pl.DataFrame:
    """Ask each window's one vector, or its keywords where they are given; the best documents, ranked."""
    starts = labelled.windows.select("window_id", "started_at")
    asked = pl.DataFrame({"window_id": window_ids}).join(starts, on="window_id", maintain_order="left")
    result = index.search(
        vectors,
        texts=None if keywords is None else keywords.to_list(),
        ranking="dense" if keywords is None else "keyword",
        top_k=_BASELINE_HITS,
        mode="exact",
        filters=Filters(as_of=asked["started_at"].to_list() if rag.as_of else None),
    )
    return (
        asked.with_row_index("query")
        .cast({"query": pl.Int64})
        .join(result.hits, on="query", maintain_order="left_right")
        .unique(["window_id", "document_id"], keep="first", maintain_order=True)
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_id"))
        .select("window_id", "document_id", "rank", "score")
    )


def _fuse_ranks(*lists: pl.DataFrame) -> pl.DataFrame:
    """Fuse ranked lists by reciprocal rank (Cormack, Clarke and Büttcher, SIGIR 2009)."""
    return (
        pl.concat(lists)
        .group_by("window_id", "document_id", maintain_order=True)
        .agg(score=(1 / (_FUSION_CONSTANT + pl.col("rank"))).sum())
        .sort(["window_id", "score", "document_id"], descending=[False, True, False])
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_id"))
    )


def _as_runs(ranked: pl.DataFrame, method: str) -> pl.DataFrame:
    return ranked.filter(pl.col("rank") <= _DEPTH).select(
        "window_id",
        pl.col("rank").cast(pl.Int64),
        doc_id="document_id",
        score=pl.col("score").cast(pl.Float64),
        method=pl.lit(method),
    )
