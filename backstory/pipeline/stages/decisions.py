"""The stage of the table ``decisions``: every hit kept or dropped, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil

import polars as pl

from backstory.pipeline.chats.named_documents import hash_sent_documents, record_named_documents
from backstory.pipeline.incremental.report import StageResult, add_counts
from backstory.pipeline.stages.retrieval import RetrievalStage, split


class DecisionsStage(RetrievalStage):
    """Keeps or drops every hit, by the judgements of the reranker if one is configured."""

    table = "decisions"
    reads = ("hits", "windows", "window_chunks", "search_index")
    contents = ("hits", "windows", "window_chunks")

    def hash_shown(self) -> Mapping[str, Sequence[str]]:
        """Hash whom the documents name, which decides what a chat model is sent of them."""
        if self.workspace.settings.rerank.paid_model is None:
            return {}
        documents = hash_sent_documents(self.workspace)
        return {key: [documents] for key in self.partitions}

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        """Decide about the hits of the partitions."""
        hits, windows, chunks = self.read(partitions)
        queries = cache(lambda: self.embed_queries(windows, chunks)[0])
        judged = self.retrieval().judge(hits, chunks, lambda wanted: queries().vectors_of(wanted))
        causes = judged.frame["cause"].value_counts()
        add_counts(self.counts, {f"cause_{cause}": n for cause, n in causes.iter_rows()})
        add_counts(self.counts, judged.counts)
        return split(judged.frame, windows, partitions)

    def weigh(self, partitions: list[str]) -> Mapping[str, int]:
        """Return the query chunks of each partition; with a reranker, enough that each small group is written at once.

        Reranking is expensive, so that little of it may be lost with a killed process.
        """
        rows = super().weigh(partitions)
        if self.workspace.reranker is None:
            return rows
        settings = self.workspace.settings
        share = ceil(settings.partitions.rows_at_once / settings.rerank.threads)
        return {key: max(share, rows.get(key, 0)) for key in partitions}

    def build(self) -> StageResult:
        """Build the table, after the documents that a chat model is sent were searched for names of members."""
        if self.workspace.settings.rerank.paid_model is not None:
            record_named_documents(self.workspace)
        return super().build()
