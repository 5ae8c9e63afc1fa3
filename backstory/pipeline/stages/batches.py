"""Batch mode of a run: the vectors that it submits ahead, and the partitions that wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from backstory.base.errors import BatchesPendingError
from backstory.models.embeddings.batch_job_store import HOW_TO_GO_ON, describe_jobs
from backstory.models.embeddings.protocol import Task
from backstory.pipeline.incremental.partitions import read_table_rows
from backstory.pipeline.workspace import Workspace

_DOCUMENT: Task = "document"
_QUERY: Task = "query"


def require_document_vectors(workspace: Workspace, texts: Sequence[str]) -> None:
    """Return if the index can be built now; else order its vectors, and with them those of all query chunks.

    The queries are ordered here as well, so that a run waits once and not twice.

    Args:
        workspace: An open workspace.
        texts: Texts of the document chunks.

    Raises:
        BatchesPendingError: Texts are in batch jobs that are not done.
    """
    jobs = workspace.embedding_jobs
    if jobs is None or jobs.idle:
        return
    try:
        jobs.require(texts, _DOCUMENT)
    except BatchesPendingError:
        made = sorted(workspace.ledger.read("window_chunks"))
        workspace.batch_job_store.add_waiting(
            made[-1:]
        )  # the index is built by a run, and a run needs a partition
        if workspace.settings.rag.enabled and made:
            windows = read_table_rows(workspace, "windows", made).select("window_id", "partition")
            queries = read_table_rows(workspace, "window_chunks", made).join(windows, on="window_id")
            query_texts = queries["text"].to_list()
            jobs.order(query_texts, _QUERY)
            ordered = pl.Series(jobs.find_ordered(query_texts, _QUERY), dtype=pl.Boolean)
            workspace.batch_job_store.add_waiting(queries.filter(ordered)["partition"].unique().to_list())
        jobs.require(texts, _DOCUMENT)


def require_query_vectors(workspace: Workspace, partitions: Sequence[str], pending: Sequence[str]) -> None:
    """Return if the hits of partitions can be searched now; else order the vectors of their query chunks.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions.
        pending: Those whose hits are not up to date.

    Raises:
        BatchesPendingError: Texts are in batch jobs that are not done.
    """
    jobs = workspace.embedding_jobs
    if jobs is None or jobs.idle or not workspace.settings.rag.enabled:
        return
    try:
        jobs.require(read_table_rows(workspace, "window_chunks", pending)["text"].to_list(), _QUERY)
    except BatchesPendingError:
        workspace.batch_job_store.add_waiting(pending)
        raise
    workspace.batch_job_store.remove_waiting(partitions)


@dataclass(frozen=True)
class BatchNews:
    """State of the batch jobs of a workspace.

    Attributes:
        labels: The jobs that were open before.
        waiting: Why no run can go on yet, in a sentence; empty if none of the jobs is open any more.
        partitions: Partitions that wait for a run, in order of time.
    """

    labels: tuple[str, ...]
    waiting: str
    partitions: tuple[str, ...]


def collect_batches(workspace: Workspace) -> BatchNews:
    """Store the vectors of finished batch jobs, and say which partitions a run can go on with.

    Raises:
        ModelError: The service gave no usable answer.
    """
    labels = tuple(job.label for job in workspace.batch_job_store.list_jobs())
    if labels and workspace.embedding_jobs is not None:
        workspace.embedding_jobs.collect()
    return BatchNews(labels, find_waiting(workspace), tuple(workspace.batch_job_store.waiting()))


def find_waiting(workspace: Workspace) -> str:
    """Return which batch jobs a run that did not finish waits for; empty if none is open."""
    jobs = workspace.batch_job_store.list_jobs()
    return f"{describe_jobs(jobs)}. {HOW_TO_GO_ON}" if jobs else ""
