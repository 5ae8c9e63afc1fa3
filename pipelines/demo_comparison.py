"""Compare the documents of every context with those of a single query for the whole window."""

from functools import partial
from typing import Final

import numpy as np
import polars as pl

from backstory.base.ids import WRITTEN_PREFIX
from backstory.index.search import open_index
from backstory.models.embeddings.embed import embed_texts
from backstory.operations.evaluation.comparison import ask_once, rank_distinct
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.hits import mean_vectors

BACKSTORY: Final = "backstory"
ONE_VECTOR: Final = "one vector"
ONE_KEYWORD_QUERY: Final = "keywords"
METHODS: Final = (BACKSTORY, ONE_VECTOR, ONE_KEYWORD_QUERY)


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
    texts = (
        pl.DataFrame({"window_id": window_ids})
        .join(_join_texts(workspace, windows), on="window_id", maintain_order="left")
        .get_column("text")
    )
    with open_index(workspace.index, embedder_id=workspace.embedder.id) as index:
        ask = partial(ask_once, index, windows, window_ids, means, as_of=workspace.settings.rag.as_of)
        found = {BACKSTORY: contexts, ONE_VECTOR: ask(), ONE_KEYWORD_QUERY: ask(texts)}
    documents = workspace.tables.read("documents").filter(status="ok")
    # A post is a mixture of topics as a window is, so one query for the whole window finds little else.
    of_people = documents.filter(~pl.col("uri").str.starts_with(WRITTEN_PREFIX))
    answers = pl.concat(
        rank_distinct(
            answer.join(of_people, on="document_id", how="semi", maintain_order="left")
        ).with_columns(method=pl.lit(method))
        for method, answer in found.items()
    )
    places = answers.filter(method=BACKSTORY).group_by("window_id").agg(places=pl.len())
    return (
        windows.select("window_id")
        .join(answers, on="window_id", maintain_order="left_right")
        .join(places, on="window_id", maintain_order="left")
        .filter(pl.col("rank") <= pl.col("places"))
        .join(documents.select("document_id", "slug", "title"), on="document_id", maintain_order="left")
        .select("window_id", "method", "rank", "document_id", "slug", "title")
    )


def _join_texts(workspace: Workspace, windows: pl.DataFrame) -> pl.DataFrame:
    """Join the texts of each window's messages: ``window_id``, ``text``."""
    messages = workspace.tables.read("messages").select("message_id", "text").drop_nulls("text")
    named = windows.select("window_id", message_id="message_ids").explode("message_id")
    said = named.join(messages, on="message_id", maintain_order="left")
    return said.group_by("window_id", maintain_order=True).agg(pl.col("text").str.join("\n\n"))
