"""Labels of parts and pairs, and windows whose documents on some topics are hidden."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from backstory.base.ids import digest
from backstory.models.embeddings.protocol import Vectors
from backstory.operations.evaluation import LabelledSet
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.hits import Queries, plan_queries

NOTHING_HIDDEN: Final = pl.DataFrame(schema={"window_id": pl.String, "document_id": pl.String})

_DEEPER: Final = 6
"""So many times as many hits are searched for where some documents are removed afterwards."""
_LEAST_SHARE: Final = 0.3
"""A part is about a topic if so many of its messages are."""


@dataclass(frozen=True)
class PartLabels:
    """The labels of the parts of the windows of a set.

    Attributes:
        topics: ``query_chunk_id``, ``window_id`` and ``topic`` of each part and topic that it is about.
        by_message: Whether messages have topics. If none has, every part is about every topic of its window, and a
            document serves a part if it is relevant to the window.
    """

    topics: pl.DataFrame
    by_message: bool

    def serves(self, labelled: LabelledSet, pairs: pl.DataFrame) -> pl.Series:
        """Return for each ``query_chunk_id`` and ``document_id`` whether the document is about a topic of the part."""
        relevant = labelled.qrels.select("window_id", "topic", document_id="doc_id").unique()
        true = (
            self.topics.join(relevant, on=["window_id", "topic"])
            .select("query_chunk_id", "document_id", serves=pl.lit(value=True))
            .unique()
        )
        keys = ["query_chunk_id", "document_id"]
        joined = pairs.select(keys).join(true, on=keys, how="left", maintain_order="left")
        return joined["serves"].fill_null(value=False)


def label_parts(labelled: LabelledSet, window_chunks: pl.DataFrame) -> PartLabels:
    """Find the topics of parts. A part about none of the labelled topics has no row.

    The topics of messages count only if some are topics of the judgements, too.
    """
    topics = labelled.qrels.select("window_id", "topic").unique(maintain_order=True)
    messages = labelled.message_topics
    if messages is None or messages.join(topics, on="topic", how="semi").is_empty():
        parts = window_chunks.select("window_id", query_chunk_id="chunk_id")
        return PartLabels(
            parts.join(topics, on="window_id").select("query_chunk_id", "window_id", "topic"),
            by_message=False,
        )
    places = (
        labelled.windows.select("window_id", message_id="message_ids")
        .with_columns(place=pl.int_ranges(pl.col("message_id").list.len()))
        .explode("message_id", "place")
        .join(messages, on="message_id")
    )
    parts = window_chunks.select(
        "window_id",
        query_chunk_id="chunk_id",
        place=pl.int_ranges("first_message", pl.col("last_message") + 1),
        size=pl.col("last_message") - pl.col("first_message") + 1,
    ).explode("place")
    shares = (
        parts.join(places.filter(pl.col("topic") != ""), on=["window_id", "place"])
        .group_by("query_chunk_id", "window_id", "topic", maintain_order=True)
        .agg(share=pl.len() / pl.col("size").first())
    )
    return PartLabels(
        shares.filter(pl.col("share") > _LEAST_SHARE).select("query_chunk_id", "window_id", "topic"),
        by_message=True,
    )


def choose_half(labelled: LabelledSet) -> pl.DataFrame:
    """Choose half of the topics of each window by their hashes, as ``window_id`` and ``topic``; the smaller half."""
    topics = labelled.qrels.select("window_id", "topic").unique(maintain_order=True)
    order = pl.Series([digest(["removed", *row]) for row in topics.iter_rows()], dtype=pl.String)
    place = pl.int_range(pl.len()).over("window_id")
    count = pl.len().over("window_id")
    return (
        topics.with_columns(order=order).sort("window_id", "order").filter(place < count // 2).drop("order")
    )


def list_hidden(labelled: LabelledSet, removed: pl.DataFrame) -> pl.DataFrame:
    """List the documents of removed topics, each ``window_id`` and ``document_id`` once."""
    hidden = labelled.qrels.join(removed, on=["window_id", "topic"], how="semi")
    return hidden.select("window_id", document_id="doc_id").unique()


def find_hits_without(
    hidden: pl.DataFrame,
    retrieval: Retrieval,
    windows: pl.DataFrame,
    window_chunks: pl.DataFrame,
    vectors: Vectors,
) -> tuple[Queries, pl.DataFrame]:
    """Search for windows as if their hidden documents (``window_id``, ``document_id``) were not in the index."""
    depth = retrieval.rag.chunks_per_query
    wider = {"chunks_per_query": depth * (_DEEPER if len(hidden) else 1)}
    deep = replace(retrieval, rag=retrieval.rag.model_copy(update=wider))
    queries = plan_queries(windows, window_chunks, vectors, deep.rag)
    found = deep.find_hits(queries).frame
    left = found.join(hidden, on=["window_id", "document_id"], how="anti", maintain_order="left")
    ranked = left.with_columns(rank=pl.int_range(1, pl.len() + 1).over("query_chunk_id"))
    return queries, ranked.filter(pl.col("rank") <= depth)
