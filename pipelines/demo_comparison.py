"""Compare the documents of every context with those of a single query for the whole window."""

from typing import Final

import numpy as np
import polars as pl

from backstory.base.ids import WRITTEN_PREFIX
from backstory.index.request import Filters, Ranking, SearchRequest
from backstory.index.search import SearchIndex, open_index
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.hits import mean_vectors

BACKSTORY: Final = "backstory"
ONE_VECTOR: Final = "one vector"
ONE_KEYWORD_QUERY: Final = "keywords"
METHODS: Final = (BACKSTORY, ONE_VECTOR, ONE_KEYWORD_QUERY)

# Enough chunks that the best of them come from as many documents as a context holds.
_CHUNKS = 100


def compare_with_whole_windows(workspace: Workspace) -> pl.DataFrame:
    """Search once for each whole window by two simple methods, and return the answers together with the contexts.

    The methods are ``backstory``, the stored contexts; ``one vector``, a search by the mean of the vectors of a
    window's query chunks, weighted by their tokens; and ``keywords``, BM25 of all its words. The last two search
    exactly. They give each document once, and as many documents as the context holds, or fewer if fewer share a
    word with the window. Under ``rag.as_of`` they give none that was published after the window began. Posts that
    Backstory wrote count for none of the methods.

    Returns:
        One row per window, method and document, sorted by these, the best document first: ``window_id``,
        ``method``, ``rank`` (from 1), ``document_id``, ``slug``, ``title``.
    """
    windows = workspace.tables.read("windows").sort("started_at", "window_id")
    contexts = workspace.tables.read("contexts").sort("window_id", "rank")
    chunks = workspace.tables.read("window_chunks")
    embedded = embed_texts(
        workspace.embedder, chunks["text"].to_list(), task="query", cache=workspace.embeddings
    )
    # By their lengths, so that the cut of a window into few or many chunks hardly changes its mean.
    weighted = embedded.vectors * chunks["token_count"].to_numpy().astype(np.float32)[:, None]
    window_ids, means = mean_vectors(chunks["window_id"], weighted)
    queries = (
        pl.DataFrame({"window_id": window_ids})
        .join(windows.select("window_id", "started_at"), on="window_id", maintain_order="left")
        .join(_join_texts(workspace, windows), on="window_id", maintain_order="left")
    )
    as_of = workspace.settings.rag.as_of
    with open_index(workspace.index, embedder_id=workspace.embedder.id) as index:
        by_vector = _ask_once(index, queries, means, "dense", as_of=as_of)
        by_keywords = _ask_once(index, queries, means, "keyword", as_of=as_of)
    documents = workspace.tables.read("documents").filter(status="ok")
    # A post is a mixture of topics as a window is, so one query for the whole window finds little else.
    of_people = documents.filter(~pl.col("uri").str.starts_with(WRITTEN_PREFIX))
    contexts, by_vector, by_keywords = (
        found.join(of_people, on="document_id", how="semi", maintain_order="left")
        for found in (contexts, by_vector, by_keywords)
    )
    counts = contexts.group_by("window_id").agg(places=pl.col("document_id").n_unique())
    answers = [
        _rank_documents(contexts, BACKSTORY),
        _rank_documents(by_vector, ONE_VECTOR),
        _rank_documents(by_keywords, ONE_KEYWORD_QUERY),
    ]
    return (
        windows.select("window_id")
        .join(pl.concat(answers), on="window_id", maintain_order="left_right")
        .join(counts, on="window_id", maintain_order="left")
        .filter(pl.col("rank") <= pl.col("places"))
        .join(documents.select("document_id", "slug", "title"), on="document_id", maintain_order="left")
        .drop("places")
    )


def _join_texts(workspace: Workspace, windows: pl.DataFrame) -> pl.DataFrame:
    """Join the texts of each window's messages: ``window_id``, ``text``."""
    messages = workspace.tables.read("messages").select("message_id", "text").drop_nulls("text")
    named = windows.select("window_id", message_id="message_ids").explode("message_id")
    said = named.join(messages, on="message_id", maintain_order="left")
    return said.group_by("window_id", maintain_order=True).agg(pl.col("text").str.join("\n\n"))


def _ask_once(
    index: SearchIndex, queries: pl.DataFrame, vectors: Vectors, ranking: Ranking, *, as_of: bool
) -> pl.DataFrame:
    """Search once for each window; the hits, best first."""
    request = SearchRequest(
        top_k=_CHUNKS,
        mode="exact",
        ranking=ranking,
        keyword_terms=None,
        filters=Filters(as_of=queries["started_at"].to_list() if as_of else None),
    )
    result = index.search(vectors, request, texts=queries["text"].to_list())
    return (
        queries.select("window_id")
        .with_row_index("query")
        .cast({"query": pl.Int64})
        .join(result.hits, on="query", maintain_order="left_right")
    )


def _rank_documents(found: pl.DataFrame, method: str) -> pl.DataFrame:
    """Rank each document of a window by its best hit, once."""
    return (
        found.unique(["window_id", "document_id"], keep="first", maintain_order=True)
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_id"), method=pl.lit(method))
        .select("window_id", "method", "rank", "document_id")
    )
