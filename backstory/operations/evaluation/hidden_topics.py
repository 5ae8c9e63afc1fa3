"""Hides documents from windows of a set: what is found where some topics have no document any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from backstory.base.ids import digest
from backstory.models.embeddings.protocol import Vectors
from backstory.operations.evaluation.labelled_set import LabelledSet
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.hits import Queries, plan_queries

NOTHING_HIDDEN: Final = pl.DataFrame(schema={"window_id": pl.String, "document_id": pl.String})

_DEEPER: Final = 6
"""So many times as many hits are searched for where some documents are removed afterwards."""


def choose_half(labelled: LabelledSet) -> pl.DataFrame:
    """Choose half of the topics of each window by their hashes; of an odd number, the smaller half.

    Returns:
        ``window_id`` and ``topic``.
    """
    topics = labelled.qrels.select("window_id", "topic").unique(maintain_order=True)
    order = pl.Series([digest(["removed", *row]) for row in topics.iter_rows()], dtype=pl.String)
    place = pl.int_range(pl.len()).over("window_id")
    count = pl.len().over("window_id")
    return (
        topics.with_columns(order=order).sort("window_id", "order").filter(place < count // 2).drop("order")
    )


def list_hidden(labelled: LabelledSet, removed: pl.DataFrame) -> pl.DataFrame:
    """List the documents of removed topics.

    Args:
        labelled: The set.
        removed: ``window_id`` and ``topic``.

    Returns:
        ``window_id`` and ``document_id``, each pair once.
    """
    hidden = labelled.qrels.join(removed, on=["window_id", "topic"], how="semi")
    return hidden.select("window_id", document_id="doc_id").unique()


def find_hits_without(
    hidden: pl.DataFrame,
    retrieval: Retrieval,
    windows: pl.DataFrame,
    window_chunks: pl.DataFrame,
    vectors: Vectors,
) -> tuple[Queries, pl.DataFrame]:
    """Search for windows as if their hidden documents were not in the index.

    Args:
        hidden: ``window_id`` and ``document_id``.
        retrieval: The index and the settings of the search.
        windows: Table ``windows``.
        window_chunks: Table ``window_chunks`` of these windows.
        vectors: Unit vectors of the chunks, shape ``(len(window_chunks), dimension)``.

    Returns:
        The queries, and table ``hits``.
    """
    depth = retrieval.rag.chunks_per_query
    wider = {"chunks_per_query": depth * (_DEEPER if len(hidden) else 1)}
    deep = replace(retrieval, rag=retrieval.rag.model_copy(update=wider))
    queries = plan_queries(windows, window_chunks, vectors, deep.rag)
    found = deep.find_hits(queries).frame
    left = found.join(hidden, on=["window_id", "document_id"], how="anti", maintain_order="left")
    ranked = left.with_columns(rank=pl.int_range(1, pl.len() + 1).over("query_chunk_id"))
    return queries, ranked.filter(pl.col("rank") <= depth)
