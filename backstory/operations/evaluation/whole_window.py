"""The baselines: one query for each whole window."""

from __future__ import annotations

from functools import partial

import polars as pl

from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex
from backstory.models.embeddings.cache import EmbeddingCache
from backstory.models.embeddings.protocol import Embedder, Vectors
from backstory.operations.evaluation.labelled_set import LabelledSet
from backstory.operations.evaluation.library_path import as_runs, embed_with_progress
from backstory.retrieval.hits import mean_vectors
from backstory.settings.models import RAGSettings
from backstory.text.chunking.cut import cut_chunks

WHOLE_TEXT = "whole window, one vector"
WHOLE_MEAN = "whole window, mean vector"
WHOLE_KEYWORDS = "whole window, keywords"
WHOLE_FUSED = "whole window, mean vector and keywords"
WHOLE_WINDOW_METHODS = (WHOLE_TEXT, WHOLE_MEAN, WHOLE_KEYWORDS, WHOLE_FUSED)

_BASELINE_HITS = 100
_FUSION_CONSTANT = 60


def ask_whole_windows(
    labelled: LabelledSet,
    chunks: pl.DataFrame,
    vectors: Vectors,
    rag: RAGSettings,
    embedder: Embedder,
    cache: EmbeddingCache,
    index: SearchIndex,
) -> pl.DataFrame:
    """Search once for each window by each baseline.

    Args:
        labelled: A labelled set.
        chunks: Table ``window_chunks``.
        vectors: Unit vectors of the chunks, shape ``(len(chunks), dimension)``.
        rag: Its ``as_of`` says whether documents later than a window are hidden from it.
        embedder: Embeds the texts of whole windows.
        cache: The vectors of texts that were embedded before.
        index: The index of the set's documents.

    Returns:
        ``window_id``, ``rank``, ``doc_id``, ``score``, ``method``: the ranked lists.
    """
    window_ids, means = mean_vectors(chunks["window_id"], vectors)
    whole = _whole_texts(labelled)
    beginnings = _cut_to_input(whole["text"], embedder)
    whole_vectors = embed_with_progress(embedder, beginnings, cache, "query", "embedding baselines")
    ask = partial(_ask_once, labelled, index, rag)
    by_mean = ask(window_ids, means)
    by_keywords = ask(whole["window_id"], whole_vectors, whole["text"])
    lists = {
        WHOLE_TEXT: ask(whole["window_id"], whole_vectors),
        WHOLE_MEAN: by_mean,
        WHOLE_KEYWORDS: by_keywords,
        WHOLE_FUSED: _fuse_ranks(by_mean, by_keywords),
    }
    return pl.concat([as_runs(ranked, method) for method, ranked in lists.items()])


def cut_whole_texts(labelled: LabelledSet, embedder: Embedder) -> pl.DataFrame:
    """Return each window as one text, truncated to the embedder's input: ``window_id``, ``text``."""
    whole = _whole_texts(labelled)
    return whole.select("window_id", text=pl.Series(_cut_to_input(whole["text"], embedder), dtype=pl.String))


def _whole_texts(labelled: LabelledSet) -> pl.DataFrame:
    """Join each window's messages."""
    texts = (
        labelled.messages.filter(pl.col("text").is_not_null())
        .group_by("conversation_id", maintain_order=True)
        .agg(pl.col("text").str.join("\n\n"))
    )
    return texts.select("text", window_id="conversation_id")


def _cut_to_input(texts: pl.Series, embedder: Embedder) -> list[str]:
    """Truncate each text to the embedder's input. This limits the baseline of one vector per text."""
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
    """Rank the best documents of each window by one vector, or by its keywords where they are given."""
    starts = labelled.windows.select("window_id", "started_at")
    queries = pl.DataFrame({"window_id": window_ids}).join(starts, on="window_id", maintain_order="left")
    request = SearchRequest(
        top_k=_BASELINE_HITS,
        mode="exact",
        ranking="dense" if keywords is None else "keyword",
        keyword_terms=None,
        filters=Filters(as_of=queries["started_at"].to_list() if rag.as_of else None),
    )
    result = index.search(vectors, request, texts=None if keywords is None else keywords.to_list())
    return (
        queries.with_row_index("query")
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
