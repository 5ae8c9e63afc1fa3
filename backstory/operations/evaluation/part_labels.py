"""Labels of parts and of pairs: which topics a part of a window is about, and which documents tell about them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from backstory.operations.evaluation.labelled_set import LabelledSet

_LEAST_SHARE = 0.3
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
        """Return for each pair whether the document tells about a topic of the part.

        Args:
            labelled: The set.
            pairs: ``query_chunk_id``, ``window_id`` and ``document_id``.
        """
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

    Args:
        labelled: The set. The topics of messages count only if some are topics of its judgements, too.
        window_chunks: Table ``window_chunks``.
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
